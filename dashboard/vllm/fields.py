"""From foreign fields to settings: which field is which path, and whether both mean the same.

Configuration endpoints have field names of their own. Only a field with the meaning of vLLM's own setting becomes a
setting and is compared with other sources.
`/server_info` and our provider's full answer have vLLM's own paths: `read_config` reads these.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from sys import intern
from typing import Any
from weakref import WeakValueDictionary

from pydantic_core import to_json

from dashboard.errors import UnreadableError
from dashboard.fleet import Setting, Source
from dashboard.vllm.canonical import Settings, setting, shared
from vllm_fleet_provider.shared.identity import comparable_part, is_identity_path, snapshot_of, split_identity
from vllm_fleet_provider.shared.paths import flatten

MAX_SETTINGS = 20_000  # the largest capture has 1,000
DIGEST_BYTES = 16  # an equal digest of two configurations takes 2^64 tries


def _same(section: str, config: str, names: str) -> dict[str, str]:
    """Return the paths of fields with vLLM's own names, in a section with a different name."""
    prefix = f"{section}." if section else ""
    return {f"{prefix}{name}": f"{config}.{name}" for name in names.split()}


NO_HYBRID_CACHE = "scheduler_config.disable_hybrid_kv_cache_manager"
NEGATED = frozenset({"hma.enabled", "features.hma"})  # true here is false there

# Dotted name of a field -> path of the setting that means the same. Others are no settings: `num_gpu_blocks` and
# `num_cpu_blocks` are of one engine where the setting may be the sum of all, `kv_offloading_backend` is resolved.
CONFIG_API: Mapping[str, str] = {
    **_same("model", "model_config", "dtype quantization max_model_len max_logprobs"),
    **_same("kv_cache", "cache_config", "gpu_memory_utilization cache_dtype enable_prefix_caching"),
    **_same("kv_cache", "cache_config", "prefix_caching_hash_algo"),
    "kv_cache.kv_offloading_size_gib": "cache_config.kv_offloading_size",
    **_same("scheduler", "scheduler_config", "max_num_batched_tokens max_num_seqs max_num_partial_prefills"),
    **_same("scheduler", "scheduler_config", "enable_chunked_prefill policy"),
    **_same("parallelism", "parallel_config", "tensor_parallel_size pipeline_parallel_size data_parallel_size"),
    **_same("parallelism", "parallel_config", "data_parallel_size_local data_parallel_rank data_parallel_rank_local"),
    **_same("parallelism", "parallel_config", "data_parallel_master_ip data_parallel_master_port"),
    **_same("parallelism", "parallel_config", "data_parallel_rpc_port prefill_context_parallel_size"),
    "parallelism.expert_parallel_enabled": "parallel_config.enable_expert_parallel",
    **_same("speculative_decoding", "speculative_config", "method num_speculative_tokens"),
    "speculative_decoding.draft_model": "speculative_config.model",
    **_same("lora", "lora_config", "max_lora_rank max_loras max_cpu_loras lora_dtype"),
    "hma.enabled": NO_HYBRID_CACHE,
}
# Our provider: the same, and the additions of `fleet`.
PROVIDER: Mapping[str, str] = {
    **CONFIG_API,
    **_same("fleet.model", "model_config", "revision code_revision tokenizer tokenizer_revision"),
    "fleet.scheduling.async_scheduling": "scheduler_config.async_scheduling",
    "fleet.prefix_hashing.hash_block_size": "cache_config.hash_block_size",
    "fleet.prefix_hashing.match_unit": "cache_config.prefix_match_unit",
    "fleet.prefix_hashing.alignment": "cache_config.cache_hit_alignment_tokens",
    "fleet.kv_events.enabled": "kv_events_config.enable_kv_cache_events",
    **_same("fleet.kv_events", "kv_events_config", "publisher endpoint topic"),
    "fleet.kv_transfer.connector": "kv_transfer_config.kv_connector",
    "fleet.kv_transfer.role": "kv_transfer_config.kv_role",
    "fleet.kv_transfer.engine_id": "kv_transfer_config.engine_id",
}
# `model.name` and `kv_cache.dtype` are resolved, where the settings are what was requested.
PLUGIN: Mapping[str, str] = {
    **_same("model", "model_config", "dtype quantization max_model_len"),
    **_same("kv_cache", "cache_config", "gpu_memory_utilization enable_prefix_caching"),
    **_same("scheduler", "scheduler_config", "max_num_seqs max_num_batched_tokens enable_chunked_prefill policy"),
    **_same("parallelism", "parallel_config", "tensor_parallel_size pipeline_parallel_size"),
    **_same("parallelism", "parallel_config", "data_parallel_size data_parallel_rank"),
    "features.hma": NO_HYBRID_CACHE,
    **_same("kv_transfer", "kv_transfer_config", "kv_connector kv_role engine_id kv_connector_module_path"),
    **_same("kv_transfer", "kv_transfer_config", "kv_buffer_device kv_buffer_size kv_ip kv_port"),
    **_same("kv_transfer", "kv_transfer_config", "kv_parallel_size kv_rank"),
}
# `endpoint` and `replay_endpoint` are the bound ones, with the port of the rank.
KV_EVENT_SOURCES = _same(
    "", "kv_events_config", "enable_kv_cache_events publisher buffer_steps hwm max_queue_size topic"
)
# /server_info of the Rust frontend: options of its own. Its variables are text, and only those that are set. Its
# `tokenizer` and `max_logprobs` are resolved.
RUST_FRONTEND: Mapping[str, str] = {
    **_same("", "model_config", "model revision hf_overrides generation_config"),
    "chat_template_content_format": "chat_template_content_format",
    "transport_mode.Bootstrapped.data_parallel_size": "parallel_config.data_parallel_size",
}
# gRPC of the Rust frontend: what its engines reported when they were ready. `total_kv_blocks` is the sum of all.
GRPC: Mapping[str, str] = {
    "engine_version": "version",
    "instance_id": "instance_id",
    **_same("parallelism", "parallel_config", "tensor_parallel_size pipeline_parallel_size data_parallel_size"),
    **_same("parallelism", "parallel_config", "data_parallel_size_local world_size"),
    **_same("parallelism", "parallel_config", "decode_context_parallel_size"),
    "max_model_len": "model_config.max_model_len",
    "kv_block_size": "cache_config.block_size",
    "effective_attention_block_size": "cache_config.effective_attention_block_size",
    "max_running_requests": "scheduler_config.max_num_seqs",
    "max_batched_tokens": "scheduler_config.max_num_batched_tokens",
    "max_loras": "lora_config.max_loras",
    "model_id": "model_config.model",
    **_same("", "kv_events_config", "buffer_steps hwm max_queue_size topic"),
    "transport": "kv_events_config.publisher",
}
FIELDS: Mapping[Source, Mapping[str, str]] = {
    Source.PROVIDER: PROVIDER,
    Source.GRPC: GRPC,
    Source.CONFIG_API: CONFIG_API,
    Source.PLUGIN: PLUGIN,
    Source.KV_EVENT_SOURCES: KV_EVENT_SOURCES,
    Source.SERVER_INFO: RUST_FRONTEND,  # the Python API server's is flattened instead
}

# A feature that is off is a section that is null: (the switch's dotted name, the section).
_CONFIG_API_SWITCHES = (("speculative_decoding.enabled", "speculative_config"), ("lora.enabled", "lora_config"))
SWITCHES: Mapping[Source, tuple[tuple[str, str], ...]] = {
    Source.PROVIDER: _CONFIG_API_SWITCHES,
    Source.CONFIG_API: _CONFIG_API_SWITCHES,
    Source.GRPC: (("supports_lora", "lora_config"),),
    Source.PLUGIN: (("features.speculative_decoding", "speculative_config"), ("features.lora", "lora_config")),
}

# A section is also null where this field is null: vLLM always sets it.
HEADS: Mapping[Source, tuple[tuple[str, str], ...]] = {
    Source.PROVIDER: (
        ("fleet.kv_events.publisher", "kv_events_config"),
        ("fleet.kv_transfer.connector", "kv_transfer_config"),
    ),
    Source.PLUGIN: (("kv_transfer", "kv_transfer_config"),),
}


def settings_of(
    reply: Mapping[str, Any], source: Source, more: Sequence[tuple[str, Any]] = ()
) -> tuple[Mapping[str, Setting], Mapping[str, Setting]]:
    """Read a foreign reply's fields into (settings, identity); `more` are further (path, value) pairs.

    A field that the reply lacks is no setting; a null field is null.
    """
    settings: dict[str, Setting] = {}
    identity: dict[str, Setting] = {}
    for path, value in (*_read_fields(reply, source), *more):
        part = comparable_part(path, value)
        if is_identity_path(path):
            identity[path] = setting(path, value, source)
            continue
        settings[path] = setting(path, part, source)
        if part != value:
            identity[path] = setting(path, value, source)
        if snapshot := snapshot_of(path, value):
            settings[snapshot[0]] = setting(*snapshot, source)
    return shared(settings), shared(identity)


def _read_fields(reply: Mapping[str, Any], source: Source) -> list[tuple[str, Any]]:
    off = {section for switch, section in SWITCHES.get(source, ()) if _find(reply, switch) is False}
    off |= {section for head, section in HEADS.get(source, ()) if _find(reply, head) is None}
    pairs: list[tuple[str, Any]] = [(section, None) for section in sorted(off)]
    for name, path in FIELDS.get(source, {}).items():
        value = _find(reply, name)
        if value is _MISSING or path.partition(".")[0] in off:
            continue
        if name not in NEGATED:
            pairs.append((path, value))
        elif value is not None:
            pairs.append((path, not value))
    return pairs


_MISSING = object()


def _find(reply: Mapping[str, Any], name: str) -> Any:
    value: Any = reply
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return _MISSING
        value = value[part]
    return value


def read_config(
    config: Mapping[str, Any], environment: Mapping[str, Any], source: Source, devices: Collection[str] = ()
) -> tuple[Mapping[str, Setting], Mapping[str, Setting]]:
    """Return a redacted configuration by path, and its environment, as (settings, identity), each path to `Setting`.

    `devices` are the names of the accelerators, where known.
    Equal configurations share one settings mapping: only the first one is read.
    """
    try:
        config, kept, identity = split_identity(config, environment, devices)
    except ValueError as error:
        raise UnreadableError("schema", str(error)) from None
    key = (blake2b(to_json((config, kept)), digest_size=DIGEST_BYTES).digest(), source)
    settings = _shared.get(key)
    if settings is None:
        variables = ((f"env.{name}", value) for name, value in kept.items())
        settings = _shared[key] = _settings(chain(config.items(), variables), source)
    return settings, _settings(flatten(identity).items(), source)


_shared: WeakValueDictionary[tuple[bytes, Source], Settings] = WeakValueDictionary()


def _settings(pairs: Iterable[tuple[str, Any]], source: Source) -> Settings:
    flat = Settings()
    for path, value in pairs:
        flat[intern(path)] = setting(path, value, source)  # 1,000 replicas have the same paths: 10 MB
        if len(flat) > MAX_SETTINGS:
            raise UnreadableError("schema", f"there are more than the {MAX_SETTINGS:,} settings that are read")
    return flat
