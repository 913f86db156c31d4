"""Identity settings: they must or may differ per replica and are never compared.

Sources: vLLM's own list of what data-parallel ranks may differ in (vllm/config/parallel.py, compute_hash), its list
of variables that do not matter (vllm/envs.py), and the fields it writes at run time.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from vllm_fleet_provider.shared import paths

_MANY = 4_096  # paths and variables whose kind is cached; a fleet has 800


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Whole sections about logging and profiling.
SECTIONS = frozenset({"profiler_config", "logging_config"})

FIELDS: dict[str, frozenset[str]] = {
    section: _names(names)
    for section, names in {
        "model_config": "hf_token allowed_local_media_path",
        # Capacity is compared with a tolerance on the capacity page, never for equality.
        "cache_config": """
            user_specified_block_size user_specified_mamba_block_size num_gpu_blocks num_cpu_blocks
            simple_cpu_offload_num_blocks kv_cache_size_tokens kv_cache_max_concurrency""",
        "parallel_config": """
            data_parallel_rank data_parallel_rank_local data_parallel_size_local data_parallel_index
            data_parallel_backend data_parallel_external_lb data_parallel_hybrid_lb data_parallel_master_ip
            data_parallel_master_port data_parallel_rpc_port rank master_addr master_port node_rank nnodes
            max_parallel_loading_workers disable_custom_all_reduce enable_shm_tensor_arena ray_workers_use_nsight
            ray_runtime_env placement_group distributed_executor_backend worker_cls worker_extension_cls
            numa_bind numa_bind_nodes numa_bind_cpus assigned_physical_gpu_ids""",
        "load_config": "download_dir use_tqdm_on_load",
        "compilation_config": """
            cache_dir local_cache_dir enabled_custom_ops disabled_custom_ops traced_files compilation_time
            encoder_compilation_time static_forward_context static_all_moe_layers""",
        "observability_config": "otlp_traces_endpoint",
        "kv_transfer_config": "engine_id kv_ip kv_port",
        "ec_transfer_config": "engine_id ec_ip ec_port",
        "": "instance_id python_version",
    }.items()
}

ENVIRONMENT = _names(
    """
    VLLM_HOST_IP VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_P2P_SIDE_CHANNEL_HOST VLLM_EC_SIDE_CHANNEL_HOST VLLM_DP_MASTER_IP
    VLLM_RPC_BASE_PATH VLLM_CACHE_ROOT VLLM_CONFIG_ROOT VLLM_ASSETS_CACHE VLLM_XLA_CACHE_PATH
    VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME CUDA_VISIBLE_DEVICES LOCAL_RANK
    """
)
ENVIRONMENT_PREFIXES = ("VLLM_DP_RANK", "VLLM_LOGGING_")
ENVIRONMENT_ENDS = ("_PORT", "_PORTS")
# Variables without effect on other devices: their defaults differ by version. ROCm's devices are `cuda` for PyTorch.
ROCM = "VLLM_ROCM_"
ROCM_DEVICE = "cuda"
OTHER_DEVICES = "NVIDIA "  # the beginning of the names of CUDA's devices

# Options of connectors, and their keys with addresses, at any depth, in lists too.
EXTRAS = ("kv_connector_extra_config", "ec_connector_extra_config")
CONNECTOR_KEYS = re.compile(
    r"(^|[_.])(host|hostname)$|(^|[_.])ports?([_.]|$)|_addr|^(proxy|host)_ip$|^bootstrap|^lmcache_instance_id$"
)
# An address in another value: its port is identity. `mlx5_0:1` and `cuda:0` are none.
ADDRESS_PORT = re.compile(
    r"(://(?:[^\s/@]*@)?(?:\[[0-9a-fA-F:.%]*\]|[^\s/:@,\[\]]+)"
    r"|(?<![\w.:/@-])(?:\[[0-9a-fA-F:.%]+\]|\*|localhost|[\w-]+(?:\.[\w-]+)+)):\d{1,5}(?![\w.:])"
)
NO_PORT = "{port}"  # in place of the port in what is compared

# vLLM keeps copies of other sections in `speculative_config`. What is kept of them follows from no other setting.
_COPIES = ("speculative_config.target_", "speculative_config.draft_")
KEPT_COPIES = frozenset({"draft_model_config.max_model_len"})

# Settings of which one part is identity; the rest is compared.
PATHS_OF_FILES = frozenset({"model_config.model", "model_config.tokenizer", "model_config.model_weights"})
FOLDER = ("/", "./", "../", "~")  # beginnings of a folder's name; anything else is a hub id
EVENT_ADDRESSES = frozenset({"kv_events_config.endpoint", "kv_events_config.replay_endpoint"})
EVENT_TOPIC = "kv_events_config.topic"
EVENT_PARTS = EVENT_ADDRESSES | {EVENT_TOPIC}

# A hub's cache folder of a downloaded copy: huggingface_hub's repo_folder_name, below it the commit. Offline vLLM
# replaces the id with that folder (vllm/engine/arg_utils.py).
SNAPSHOT = re.compile(r"(?:.*/)?models--(?P<repository>[^/]+)/snapshots/(?P<revision>[^/]+)/?", re.DOTALL)
SNAPSHOT_PATHS = {"model_config.model": "model_snapshot", "model_config.tokenizer": "tokenizer_snapshot"}

ADDRESS = re.compile(r"^(?P<scheme>[a-z]+://)(?P<host>\[[^\]]*\]|[^:/]+):\d+$")
TOPIC = re.compile(r"^(?P<kind>[^@]*)@(?P<pod>[^@]*)@(?P<model>.*)$", re.DOTALL)


def identity_fields(section: str, fields: Iterable[str]) -> list[str]:
    """Return the fields of a section that are identity, as private fields and `*_resolved` guards are."""
    own = FIELDS.get(section, frozenset())
    return [each for each in fields if each in own or each.startswith("_") or each.endswith("_resolved")]


def is_identity_variable(name: str) -> bool:
    """Return whether an environment variable is identity."""
    return name in ENVIRONMENT or name.startswith(ENVIRONMENT_PREFIXES) or name.endswith(ENVIRONMENT_ENDS)


def is_identity_path(path: str) -> bool:
    """Return whether a whole path, such as `cache_config.num_gpu_blocks` or `env.VLLM_PORT`, is identity."""
    section, _, field = path.rpartition(".")
    if section == "env":
        return is_identity_variable(field)
    top = section.partition(".")[0]
    return top in SECTIONS or path in SECTIONS or bool(identity_fields(section, [field]))


def is_partly_identity(path: str) -> bool:
    """Return whether a part of a path's value is identity: the whole value is in both."""
    return path in PATHS_OF_FILES or path in EVENT_PARTS or any(f".{name}" in path for name in EXTRAS)


def comparable_part(path: str, value: Any) -> Any:
    """Return the part of a value that is compared.

    A model's folder is removed (`/mnt/a/llama` is `llama`; an id such as `org/llama` stays whole, a hub's snapshot
    is its id), host and port of KV event addresses, the pod of their topics, and ports in connector options. `*` is no
    host: it is kept.
    """
    if any(f".{name}" in path for name in EXTRAS):
        return _split_addresses(path, value)[0]
    if not isinstance(value, str):
        return value
    if path in PATHS_OF_FILES:
        return _model_name(value)
    if path in EVENT_ADDRESSES and (match := ADDRESS.match(value)):
        return f"{match['scheme']}{'*' if match['host'] == '*' else '{host}'}:{NO_PORT}"
    if path == EVENT_TOPIC and (match := TOPIC.match(value)):
        pod = f"{{pod}}:{NO_PORT}" if ":" in match["pod"] else "{pod}"
        return f"{match['kind']}@{pod}@{match['model']}"
    return value


def hub_id(name: str) -> str:
    """Return the id of a snapshot in the hub's cache; any other name unchanged."""
    match = SNAPSHOT.fullmatch(name)
    return match["repository"].replace("--", "/", 1) if match else name


def _model_name(value: str) -> str:
    name = hub_id(value)
    is_folder_of_files = name == value and value.startswith(FOLDER)
    return value.rstrip("/").rpartition("/")[2] if is_folder_of_files else name


def snapshot_of(path: str, value: Any) -> tuple[str, str] | None:
    """Return path and value of the setting with a hub snapshot's commit; None where the value is no snapshot."""
    match = SNAPSHOT.fullmatch(value) if path in SNAPSHOT_PATHS and isinstance(value, str) else None
    return (SNAPSHOT_PATHS[path], match["revision"]) if match else None


def is_folder(name: object) -> bool:
    """Return whether a model or tokenizer is a local folder: neither a hub id nor a hub snapshot."""
    return isinstance(name, str) and name.startswith(FOLDER) and not SNAPSHOT.fullmatch(name)


class PathKind(StrEnum):
    """How a path is compared, except one that is compared whole."""

    SPLIT = "split"  # a part of its value is identity
    IDENTITY = "identity"
    COPY = "copy"  # a section in `speculative_config` is a copy of another one: neither compared nor identity


def split_identity(
    settings: Mapping[str, Any], environment: Mapping[str, Any], devices: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return settings by path and vLLM's variables without identity, and identity by path.

    `devices` are the names of the accelerators, where known. A section without other settings stays, as `{}`. Raises
    ValueError for a path or a name that is too long: what is known of both is cached.
    """
    if len(longest := max((*settings, *environment), key=len, default="")) > paths.MAX_PATH:
        raise ValueError(f"a setting's path has more than {paths.MAX_PATH} characters: {longest[:40]}")
    comparable, identity = _split_settings(settings)
    variables = {}
    ignored = ROCM if _is_without_rocm(settings.get("device_config.device"), devices) else None
    for name, value in environment.items():
        if _is_identity(name) or (ignored and name.startswith(ignored)):
            identity[f"env.{name}"] = value
        else:
            variables[name] = value
    return comparable, variables, identity


_is_identity = lru_cache(maxsize=_MANY)(is_identity_variable)


def _split_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    comparable: dict[str, Any] = {}
    identity: dict[str, Any] = {}
    emptied: set[str] = set()  # sections that may have lost all settings
    last = ""
    for path, value in settings.items():
        known = _kind_of(path)
        if known is None:
            comparable[last := path] = value
            continue
        kind, section = known
        if kind is PathKind.SPLIT:
            comparable[last := path], addresses = _split_value(path, value)
            identity.update(addresses)
            if snapshot := snapshot_of(path, value):
                comparable.update([snapshot])
        elif kind is PathKind.COPY and path.count(".") == 1 and not isinstance(value, dict):
            comparable[last := path] = value
        else:
            if kind is PathKind.IDENTITY:
                identity[path] = value
            if section and not last.startswith(f"{section}."):
                emptied.add(section)
    for section in sorted(emptied, reverse=True):
        below = f"{section}."
        if not any(path.startswith(below) for path in comparable):
            comparable[section] = {}
    return comparable, identity


@lru_cache(maxsize=_MANY)
def _kind_of(path: str) -> tuple[PathKind, str] | None:
    """Return the kind of a path, and the section that loses it, if that stays; None where it is compared whole."""
    top, _, rest = path.partition(".")
    field, _, below = rest.partition(".")
    if top in SECTIONS or identity_fields("", [top]):
        return PathKind.IDENTITY, ""
    if rest and identity_fields(top, [field]):
        return PathKind.IDENTITY, top
    if path.startswith(_COPIES) and ".".join(path.split(".")[1:3]) not in KEPT_COPIES:
        return PathKind.COPY, top
    if field in EXTRAS and below:
        section = f"{top}.{field}"
        for key in below.split("."):
            if CONNECTOR_KEYS.search(key):
                return PathKind.IDENTITY, section
            section = f"{section}.{key}"
        return PathKind.SPLIT, ""
    return (PathKind.SPLIT, "") if path in PATHS_OF_FILES or path in EVENT_PARTS else None


def _is_without_rocm(device: object, devices: Collection[str]) -> bool:
    """Return whether the devices are known not to be ROCm's."""
    is_other_kind = isinstance(device, str) and not device.startswith(ROCM_DEVICE)
    return is_other_kind or (bool(devices) and all(name.startswith(OTHER_DEVICES) for name in devices))


def _split_value(path: str, value: Any) -> tuple[Any, list[tuple[str, Any]]]:
    """Return the part of a value that is compared, and identity by path."""
    if any(f".{name}" in path for name in EXTRAS):
        return _split_addresses(path, value)
    part = comparable_part(path, value)
    return part, [(path, value)] if part != value else []


def _split_addresses(path: str, value: Any) -> tuple[Any, list[tuple[str, Any]]]:
    """Return a connector's options without addresses and ports, and these by path; `value` is not changed.

    Below a path that is too long nothing is split: each address would repeat the path.
    """
    if len(path) > paths.MAX_PATH:
        return value, []
    if not isinstance(value, dict | list):
        part = ADDRESS_PORT.sub(rf"\1:{NO_PORT}", value) if isinstance(value, str) else value
        return part, [(path, value)] if part != value else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    kept: dict[Any, Any] = {}
    taken: list[tuple[str, Any]] = []
    for key, item in pairs:
        if isinstance(key, str) and CONNECTOR_KEYS.search(key):
            taken.append((f"{path}.{key}", item))
        else:
            kept[key], below = _split_addresses(f"{path}.{key}", item)
            taken += below
    return (kept if isinstance(value, dict) else list(kept.values())), taken
