"""Which foreign field is which setting, and whether both mean the same.

Configuration endpoints have names of their own. Only what means the same as vLLM's own setting becomes one and is
compared with other sources; the rest is listed here too, so that nobody adds it by mistake.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from dashboard.fleet import Setting, Source
from dashboard.vllm.canonical import setting, shared
from dashboard.vllm.identity import comparable_part, is_identity_path, snapshot_of


class Meaning(StrEnum):
    """How a foreign field stands to the setting of that path."""

    SAME = "same"
    NEGATED = "negated"  # true here is false there
    RESOLVED = "resolved"  # what is in force, where the setting says what was asked for
    ENGINE = "engine"  # one engine's number, where the setting may be the sum of all


class Field(NamedTuple):
    """A foreign field by its dotted name, the path it is about, and what it means."""

    name: str
    path: str
    meaning: Meaning = Meaning.SAME


CONFIG_API = (
    Field("model.dtype", "model_config.dtype"),
    Field("model.quantization", "model_config.quantization"),
    Field("model.max_model_len", "model_config.max_model_len"),
    Field("model.max_logprobs", "model_config.max_logprobs"),
    Field("kv_cache.num_gpu_blocks", "cache_config.num_gpu_blocks", Meaning.ENGINE),
    Field("kv_cache.num_cpu_blocks", "cache_config.num_cpu_blocks", Meaning.ENGINE),
    Field("kv_cache.gpu_memory_utilization", "cache_config.gpu_memory_utilization"),
    Field("kv_cache.cache_dtype", "cache_config.cache_dtype"),
    Field("kv_cache.enable_prefix_caching", "cache_config.enable_prefix_caching"),
    Field("kv_cache.prefix_caching_hash_algo", "cache_config.prefix_caching_hash_algo"),
    Field("kv_cache.kv_offloading_backend", "cache_config.kv_offloading_backend", Meaning.RESOLVED),
    Field("kv_cache.kv_offloading_size_gib", "cache_config.kv_offloading_size"),
    Field("scheduler.max_num_batched_tokens", "scheduler_config.max_num_batched_tokens"),
    Field("scheduler.max_num_seqs", "scheduler_config.max_num_seqs"),
    Field("scheduler.max_num_partial_prefills", "scheduler_config.max_num_partial_prefills"),
    Field("scheduler.enable_chunked_prefill", "scheduler_config.enable_chunked_prefill"),
    Field("scheduler.policy", "scheduler_config.policy"),
    Field("parallelism.tensor_parallel_size", "parallel_config.tensor_parallel_size"),
    Field("parallelism.pipeline_parallel_size", "parallel_config.pipeline_parallel_size"),
    Field("parallelism.data_parallel_size", "parallel_config.data_parallel_size"),
    Field("parallelism.data_parallel_size_local", "parallel_config.data_parallel_size_local"),
    Field("parallelism.data_parallel_rank", "parallel_config.data_parallel_rank"),
    Field("parallelism.data_parallel_rank_local", "parallel_config.data_parallel_rank_local"),
    Field("parallelism.data_parallel_master_ip", "parallel_config.data_parallel_master_ip"),
    Field("parallelism.data_parallel_master_port", "parallel_config.data_parallel_master_port"),
    Field("parallelism.data_parallel_rpc_port", "parallel_config.data_parallel_rpc_port"),
    Field("parallelism.expert_parallel_enabled", "parallel_config.enable_expert_parallel"),
    Field("parallelism.prefill_context_parallel_size", "parallel_config.prefill_context_parallel_size"),
    Field("speculative_decoding.method", "speculative_config.method"),
    Field("speculative_decoding.num_speculative_tokens", "speculative_config.num_speculative_tokens"),
    Field("speculative_decoding.draft_model", "speculative_config.model"),
    Field("lora.max_lora_rank", "lora_config.max_lora_rank"),
    Field("lora.max_loras", "lora_config.max_loras"),
    Field("lora.max_cpu_loras", "lora_config.max_cpu_loras"),
    Field("lora.lora_dtype", "lora_config.lora_dtype"),
    Field("hma.enabled", "scheduler_config.disable_hybrid_kv_cache_manager", Meaning.NEGATED),
)
# Of our provider: the same, and what `fleet` adds (schemas/fleet_extension.py).
PROVIDER = (
    *CONFIG_API,
    Field("fleet.model.revision", "model_config.revision"),
    Field("fleet.model.code_revision", "model_config.code_revision"),
    Field("fleet.model.tokenizer", "model_config.tokenizer"),
    Field("fleet.model.tokenizer_revision", "model_config.tokenizer_revision"),
    Field("fleet.scheduling.async_scheduling", "scheduler_config.async_scheduling"),
    Field("fleet.prefix_hashing.hash_block_size", "cache_config.hash_block_size"),
    Field("fleet.prefix_hashing.match_unit", "cache_config.prefix_match_unit"),
    Field("fleet.prefix_hashing.alignment", "cache_config.cache_hit_alignment_tokens"),
    Field("fleet.kv_events.enabled", "kv_events_config.enable_kv_cache_events"),
    Field("fleet.kv_events.publisher", "kv_events_config.publisher"),
    Field("fleet.kv_events.endpoint", "kv_events_config.endpoint"),
    Field("fleet.kv_events.topic", "kv_events_config.topic"),
    Field("fleet.kv_transfer.connector", "kv_transfer_config.kv_connector"),
    Field("fleet.kv_transfer.role", "kv_transfer_config.kv_role"),
    Field("fleet.kv_transfer.engine_id", "kv_transfer_config.engine_id"),
)
PLUGIN = (
    Field("model.name", "model_config.served_model_name", Meaning.RESOLVED),
    Field("model.dtype", "model_config.dtype"),
    Field("model.quantization", "model_config.quantization"),
    Field("model.max_model_len", "model_config.max_model_len"),
    Field("kv_cache.gpu_memory_utilization", "cache_config.gpu_memory_utilization"),
    Field("kv_cache.dtype", "cache_config.cache_dtype", Meaning.RESOLVED),
    Field("kv_cache.enable_prefix_caching", "cache_config.enable_prefix_caching"),
    Field("scheduler.max_num_seqs", "scheduler_config.max_num_seqs"),
    Field("scheduler.max_num_batched_tokens", "scheduler_config.max_num_batched_tokens"),
    Field("scheduler.enable_chunked_prefill", "scheduler_config.enable_chunked_prefill"),
    Field("scheduler.policy", "scheduler_config.policy"),
    Field("parallelism.tensor_parallel_size", "parallel_config.tensor_parallel_size"),
    Field("parallelism.pipeline_parallel_size", "parallel_config.pipeline_parallel_size"),
    Field("parallelism.data_parallel_size", "parallel_config.data_parallel_size"),
    Field("parallelism.data_parallel_rank", "parallel_config.data_parallel_rank"),
    Field("features.hma", "scheduler_config.disable_hybrid_kv_cache_manager", Meaning.NEGATED),
    Field("kv_transfer.kv_connector", "kv_transfer_config.kv_connector"),
    Field("kv_transfer.kv_role", "kv_transfer_config.kv_role"),
    Field("kv_transfer.engine_id", "kv_transfer_config.engine_id"),
)
KV_EVENT_SOURCES = (
    Field("enable_kv_cache_events", "kv_events_config.enable_kv_cache_events"),
    Field("publisher", "kv_events_config.publisher"),
    Field("endpoint", "kv_events_config.endpoint", Meaning.RESOLVED),
    Field("replay_endpoint", "kv_events_config.replay_endpoint", Meaning.RESOLVED),
    Field("buffer_steps", "kv_events_config.buffer_steps"),
    Field("hwm", "kv_events_config.hwm"),
    Field("max_queue_size", "kv_events_config.max_queue_size"),
    Field("topic", "kv_events_config.topic"),
)
# /server_info of the Rust frontend: options of its own. Its variables are text, and only those that are set.
RUST_FRONTEND = (
    Field("model", "model_config.model"),
    Field("revision", "model_config.revision"),
    Field("tokenizer", "model_config.tokenizer", Meaning.RESOLVED),
    Field("hf_overrides", "model_config.hf_overrides"),
    Field("generation_config", "model_config.generation_config"),
    Field("max_logprobs", "model_config.max_logprobs", Meaning.RESOLVED),
    Field("chat_template_content_format", "chat_template_content_format"),
    Field("transport_mode.Bootstrapped.data_parallel_size", "parallel_config.data_parallel_size"),
)
FIELDS: Mapping[Source, tuple[Field, ...]] = {
    Source.PROVIDER: PROVIDER,
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
    Source.PLUGIN: (("features.speculative_decoding", "speculative_config"), ("features.lora", "lora_config")),
}

# So is a section of which this is null: vLLM always fills it in where there is one.
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

    A field that the reply leaves out is no setting; one that is null is null.
    """
    pairs = [*_told(reply, source), *more]
    settings: dict[str, Setting] = {}
    identity: dict[str, Setting] = {}
    for path, value in pairs:
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


def _told(reply: Mapping[str, Any], source: Source) -> list[tuple[str, Any]]:
    off = {section for switch, section in SWITCHES.get(source, ()) if _find(reply, switch) is False}
    off |= {section for head, section in HEADS.get(source, ()) if _find(reply, head) is None}
    pairs: list[tuple[str, Any]] = [(section, None) for section in sorted(off)]
    for name, path, meaning in FIELDS.get(source, ()):
        value = _find(reply, name)
        if value is _MISSING or path.partition(".")[0] in off:
            continue
        if meaning is Meaning.SAME:
            pairs.append((path, value))
        elif meaning is Meaning.NEGATED and value is not None:
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
