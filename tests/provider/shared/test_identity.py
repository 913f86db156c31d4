"""Identity settings are never compared."""

import json
from typing import Any

import pytest

from dashboard.fleet import Source
from dashboard.vllm.fields import read_config
from vllm_fleet_provider.shared.identity import (
    comparable_part,
    is_folder,
    is_identity_path,
    is_partly_identity,
    split_identity,
)
from vllm_fleet_provider.shared.paths import flatten


def names(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


PARALLEL = names(
    """
    data_parallel_rank data_parallel_rank_local data_parallel_size_local data_parallel_index
    data_parallel_backend data_parallel_external_lb data_parallel_hybrid_lb data_parallel_master_ip
    data_parallel_master_port _data_parallel_master_port_list _coord_store_port data_parallel_rpc_port rank
    master_addr master_port node_rank nnodes max_parallel_loading_workers disable_custom_all_reduce
    enable_shm_tensor_arena ray_workers_use_nsight ray_runtime_env placement_group distributed_executor_backend
    worker_cls worker_extension_cls _api_process_count _api_process_rank numa_bind numa_bind_nodes
    numa_bind_cpus assigned_physical_gpu_ids
    """
)
OTHERS = names(
    """
    instance_id kv_transfer_config.engine_id ec_transfer_config.engine_id kv_transfer_config.kv_port
    kv_transfer_config.kv_ip ec_transfer_config.ec_ip ec_transfer_config.ec_port
    cache_config.user_specified_block_size cache_config._block_size_resolved cache_config.block_size_resolved
    model_config.hf_token model_config.allowed_local_media_path load_config.download_dir
    load_config.use_tqdm_on_load compilation_config.cache_dir compilation_config.local_cache_dir
    compilation_config.static_forward_context observability_config.otlp_traces_endpoint
    cache_config.num_gpu_blocks cache_config.kv_cache_size_tokens cache_config.kv_cache_max_concurrency
    cache_config.num_cpu_blocks
    """
)
VARIABLES = names(
    """
    VLLM_HOST_IP VLLM_PORT VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_NIXL_SIDE_CHANNEL_PORT VLLM_P2P_SIDE_CHANNEL_HOST
    VLLM_P2P_SIDE_CHANNEL_PORT VLLM_EC_SIDE_CHANNEL_HOST VLLM_EC_SIDE_CHANNEL_PORT VLLM_MOONCAKE_BOOTSTRAP_PORT
    VLLM_DP_RANK VLLM_DP_RANK_LOCAL VLLM_DP_MASTER_IP VLLM_DP_MASTER_PORT VLLM_RPC_BASE_PATH VLLM_CACHE_ROOT
    VLLM_CONFIG_ROOT VLLM_ASSETS_CACHE VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME VLLM_LOGGING_LEVEL
    VLLM_LOGGING_PREFIX VLLM_NEW_SIDE_CHANNEL_PORT CUDA_VISIBLE_DEVICES LOCAL_RANK
    """
)
EXTRA = "kv_transfer_config.kv_connector_extra_config"
CONNECTOR = names(
    """
    host port nixl_host nixl_port remote_addr remote_addrs proxy_ip proxy_port http_port lmcache_instance_id
    lmcache_rpc_port bootstrap_port bootstrap local_hostname host_ip ports base_port port_range lmcache.mp.port
    """
)
PATHS = [*OTHERS, *(f"parallel_config.{field}" for field in PARALLEL), *(f"env.{name}" for name in VARIABLES)]
COMPARED = names(
    """
    cache_config.block_size cache_config.gpu_memory_utilization parallel_config.tensor_parallel_size
    parallel_config.data_parallel_size model_config.dtype env.VLLM_USE_V1 env.PYTHONHASHSEED
    kv_transfer_config.kv_role kv_events_config.publisher load_config.load_format compilation_config.mode
    observability_config.collect_detailed_traces
    """
)


def flat_paths(path: str, value: Any = 7) -> tuple[set[str], set[str]]:
    """Flatten a configuration with one path; return the compared and the identity paths."""
    section, *below = path.split(".")
    if section == "env":
        settings, identity = read_config(flatten({}), {below[0]: value}, Source.SERVER_INFO)
    else:
        config = value
        for part in reversed([section, *below]):
            config = {part: config}
        settings, identity = read_config(flatten(config), {}, Source.SERVER_INFO)
    return set(settings), set(identity)


@pytest.mark.parametrize("path", [*PATHS, "profiler_config.torch_profiler_dir", "logging_config.a.b"])
def test_identity_settings_are_split_off(path: str) -> None:
    settings, identity = flat_paths(path)

    assert is_identity_path(path)
    assert path in identity
    assert path not in settings


@pytest.mark.parametrize("path", COMPARED)
def test_other_settings_are_compared(path: str) -> None:
    assert not is_identity_path(path)
    assert flat_paths(path) == ({path}, set())


@pytest.mark.parametrize("key", CONNECTOR)
def test_addresses_in_connector_options_are_identity_at_any_depth(key: str) -> None:
    assert f"{EXTRA}.{key}" in flat_paths(f"{EXTRA}.{key}")[1]
    assert f"{EXTRA}.child.{key}" in flat_paths(f"{EXTRA}.child.{key}")[1]


def test_addresses_in_lists_of_connector_options_are_identity() -> None:
    tiers = [{"host": "10.0.0.1", "port": 1, "kind": "redis"}, {"port": 2, "kind": "disk"}, "plain"]
    extra = {"secondary_tiers": tiers, "report": 5, "portable": True}

    settings, identity = read_config(
        flatten({"kv_transfer_config": {"kv_connector_extra_config": extra}}), {}, Source.SERVER_INFO
    )

    assert settings[f"{EXTRA}.secondary_tiers"].value == '[{"kind":"redis"},{"kind":"disk"},"plain"]'
    assert {f"{EXTRA}.report", f"{EXTRA}.portable"} <= set(settings)
    assert {path: each.value for path, each in identity.items()} == {
        f"{EXTRA}.secondary_tiers.0.host": '"10.0.0.1"',
        f"{EXTRA}.secondary_tiers.0.port": "1",
        f"{EXTRA}.secondary_tiers.1.port": "2",
    }


def test_a_section_without_other_settings_stays_and_one_with_others_has_these() -> None:
    taken, kept = {"cache_config.num_gpu_blocks": 7, "load_config.download_dir": "/a"}, {"cache_config.block_size": 16}

    assert split_identity(taken | kept, {}) == (kept | {"load_config": {}}, {}, taken)


@pytest.mark.parametrize("both", [({"x" * 401: 1}, {}), ({}, {"x" * 401: 1})], ids=["path", "variable"])
def test_a_name_that_is_too_long_is_refused(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="more than 400 characters"):
        split_identity(*both)


def test_only_text_in_a_setting_of_files_has_a_part() -> None:
    assert comparable_part("model_config.model", None) is None
    assert is_partly_identity("model_config.model")
    assert not is_partly_identity("model_config.dtype")


def test_options_below_a_path_that_is_too_long_are_not_split() -> None:
    """Each of many addresses would repeat half of a body."""
    deep = [{"x" * 400: {"a_host": 1}}]

    assert comparable_part(f"{EXTRA}.tiers", deep) == deep


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        ("redis://u:p@cache:6379/0", "redis://u:p@cache:{port}/0"),
        ("lm://[::1]:65432", "lm://[::1]:{port}"),
        ("10.0.0.1:50051", "10.0.0.1:{port}"),
        ("etcd-1.svc:2379,etcd-2.svc:2380", "etcd-1.svc:{port},etcd-2.svc:{port}"),
        ("*:5557", "*:{port}"),
        ("localhost:80", "localhost:{port}"),
        *((same, same) for same in ("mlx5_0:1", "cuda:0", "file:///x", "::1", "12:30", "tcp://host", "P2PHANDSHAKE")),
    ],
)
def test_of_an_address_in_connector_options_the_port_is_identity(whole: str, part: str) -> None:
    section = "ec_transfer_config.ec_connector_extra_config"
    extra = {"url": whole, "tiers": [{"url": whole}, whole]}

    settings, identity = read_config(
        flatten({"ec_transfer_config": {section.rpartition(".")[2]: extra}}), {}, Source.MODELS
    )

    assert json.loads(settings[f"{section}.url"].value) == part == comparable_part(f"{section}.url", whole)
    assert json.loads(settings[f"{section}.tiers"].value) == [{"url": part}, part]
    places = (f"{section}.url", f"{section}.tiers.0.url", f"{section}.tiers.1")
    assert {path: json.loads(each.value) for path, each in identity.items()} == (
        dict.fromkeys(places, whole) if part != whole else {}
    )


def test_a_long_hostile_address_is_read_quickly() -> None:
    for text in ("://", "[:", "a.", "://[", "*:1", "://a@", "x.y:1"):
        assert comparable_part(f"{EXTRA}.url", text * 20_000)


@pytest.mark.parametrize("path", ["model_config.model", "model_config.tokenizer", "model_config.model_weights"])
@pytest.mark.parametrize(
    ("whole", "part"),
    [
        ("/mnt/a/llama", "llama"),
        ("./llama/", "llama"),
        ("../x/llama", "llama"),
        ("~/llama", "llama"),
        ("org/llama", "org/llama"),
        ("llama", "llama"),
    ],
)
def test_only_the_name_of_a_model_s_folder_is_compared(path: str, whole: str, part: str) -> None:
    assert comparable_part(path, whole) == part


@pytest.mark.parametrize(
    ("path", "whole", "part"),
    [
        ("kv_events_config.endpoint", "tcp://10.0.0.7:5557", "tcp://{host}:{port}"),
        ("kv_events_config.endpoint", "tcp://[::1]:5557", "tcp://{host}:{port}"),
        ("kv_events_config.endpoint", "tcp://*:5557", "tcp://*:{port}"),
        ("kv_events_config.endpoint", "ipc:///tmp/events", "ipc:///tmp/events"),
        ("kv_events_config.replay_endpoint", "tcp://pod-3:5558", "tcp://{host}:{port}"),
        ("kv_events_config.replay_endpoint", None, None),
        ("kv_events_config.topic", "kv@pod-1@qwen3", "kv@{pod}@qwen3"),
        ("kv_events_config.topic", "kv@10.0.0.1:8000@org/qwen3", "kv@{pod}:{port}@org/qwen3"),
        ("kv_events_config.topic", "", ""),
        ("kv_events_config.topic", "plain", "plain"),
        ("cache_config.cache_dtype", "/auto", "/auto"),
    ],
)
def test_hosts_ports_and_pods_in_kv_event_settings_are_not_compared(path: str, whole: Any, part: Any) -> None:
    assert comparable_part(path, whole) == part


def test_the_whole_value_of_a_split_setting_is_identity() -> None:
    settings, identity = read_config(
        flatten({"model_config": {"model": "/mnt/7/llama"}, "kv_events_config": None}), {}, Source.SERVER_INFO
    )

    assert settings["model_config.model"].value == '"llama"'
    assert identity["model_config.model"].value == '"/mnt/7/llama"'


SNAPSHOT = "/root/.cache/huggingface/hub/models--org--llama-3/snapshots/0e9e39f249a16976918f6564b8830bc894c89659"


@pytest.mark.parametrize(
    ("folder", "repository"),
    [
        (SNAPSHOT, "org/llama-3"),
        (f"{SNAPSHOT}/", "org/llama-3"),
        ("models--gpt2/snapshots/607a30d", "gpt2"),
        ("/cache/models--org--a--b/snapshots/607a30d", "org/a--b"),
    ],
)
def test_a_hub_snapshot_is_its_repository_and_commit(folder: str, repository: str) -> None:
    config: dict[str, Any] = {"model_config": {"model": folder, "tokenizer": folder}}

    settings, identity = read_config(flatten(config), {}, Source.SERVER_INFO)

    commit = json.dumps(folder.rstrip("/").rpartition("/")[2])
    assert {path: each.value for path, each in settings.items()} == {
        "model_config.model": json.dumps(repository),
        "model_config.tokenizer": json.dumps(repository),
        "model_snapshot": commit,
        "tokenizer_snapshot": commit,
    }
    assert identity["model_config.model"].value == json.dumps(folder)
    assert not is_folder(folder)


@pytest.mark.parametrize(
    "folder", ["/mnt/models--org--llama/blobs/0e9e", "/mnt/org/snapshots/0e9e", f"{SNAPSHOT}/original"]
)
def test_another_folder_of_the_cache_is_a_folder(folder: str) -> None:
    assert comparable_part("model_config.model", folder) == folder.rpartition("/")[2]
    assert is_folder(folder)


@pytest.mark.parametrize(
    ("device", "names", "is_compared"),
    [
        ("cpu", (), False),
        ("xpu", (), False),
        ("cuda", ("NVIDIA H100 80GB HBM3", "NVIDIA H200"), False),
        ("cuda", (), True),
        ("cuda", ("AMD Instinct MI300X",), True),
        ("cuda", ("NVIDIA H100", "unknown"), True),
        (None, (), True),
        (7, ("",), True),
    ],
)
def test_variables_of_rocm_are_compared_unless_the_devices_are_known_to_be_others(
    device: object, names: tuple[str, ...], *, is_compared: bool
) -> None:
    config = {"device_config": {"device": device}}
    variables = {"VLLM_ROCM_USE_AITER": True, "VLLM_USE_V1": True}

    settings, identity = read_config(flatten(config), variables, Source.PROVIDER, names)

    assert ("env.VLLM_ROCM_USE_AITER" in settings) is is_compared
    assert ("env.VLLM_ROCM_USE_AITER" in identity) is not is_compared
    assert "env.VLLM_USE_V1" in settings


def test_a_device_config_of_another_shape_is_read() -> None:
    assert "env.VLLM_ROCM_A" in read_config(flatten({"device_config": 1}), {"VLLM_ROCM_A": 1}, Source.PROVIDER)[0]
