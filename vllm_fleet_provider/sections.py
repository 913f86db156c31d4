"""The sections of the configuration API as first proposed, read from the attributes of a `VllmConfig`.

Source of the schema: vllm-project/vllm#38147. Attributes: vllm/config/ of 0.32.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field

from vllm_fleet_provider.gathering import at
from vllm_fleet_provider.shared.types import MAX_INTEGER, Count, LimitedText, Size

if TYPE_CHECKING:
    from collections.abc import Callable

    from vllm_fleet_provider.gathering import Gathering


Integer = Annotated[int, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)]


class _SectionField(NamedTuple):
    """A field of a section: its attribute of `VllmConfig`, its type, and a conversion."""

    name: str
    path: str
    shape: Any
    make: Callable[[Any], Any] | None = None


def _is_off(value: Any) -> Any:
    return not value if isinstance(value, bool) else value


def _is_set(value: Any) -> bool:
    return value is not None


MODEL = (
    _SectionField("dtype", "model_config.dtype", LimitedText),
    _SectionField("quantization", "model_config.quantization", LimitedText | None),
    _SectionField("max_model_len", "model_config.max_model_len", Size),
    _SectionField("max_logprobs", "model_config.max_logprobs", Integer),
)
KV_CACHE = (
    _SectionField("num_cpu_blocks", "cache_config.num_cpu_blocks", Count | None),
    _SectionField("gpu_memory_utilization", "cache_config.gpu_memory_utilization", float),
    _SectionField("cache_dtype", "cache_config.cache_dtype", LimitedText),
    _SectionField("enable_prefix_caching", "cache_config.enable_prefix_caching", bool),
    _SectionField("prefix_caching_hash_algo", "cache_config.prefix_caching_hash_algo", LimitedText),
    _SectionField("kv_offloading_enabled", "cache_config.kv_offloading_size", bool, _is_set),
    _SectionField("kv_offloading_backend", "cache_config.kv_offloading_backend", LimitedText | None),
    _SectionField("kv_offloading_size_gib", "cache_config.kv_offloading_size", float | None),
)
SCHEDULER = (
    _SectionField("max_num_batched_tokens", "scheduler_config.max_num_batched_tokens", Count),
    _SectionField("max_num_seqs", "scheduler_config.max_num_seqs", Count),
    _SectionField("max_num_partial_prefills", "scheduler_config.max_num_partial_prefills", Count),
    _SectionField("enable_chunked_prefill", "scheduler_config.enable_chunked_prefill", bool),
    _SectionField("policy", "scheduler_config.policy", LimitedText),
)
PARALLELISM = (
    _SectionField("tensor_parallel_size", "parallel_config.tensor_parallel_size", Size),
    _SectionField("pipeline_parallel_size", "parallel_config.pipeline_parallel_size", Size),
    _SectionField("data_parallel_size", "parallel_config.data_parallel_size", Size),
    _SectionField("data_parallel_size_local", "parallel_config.data_parallel_size_local", Count),
    _SectionField("data_parallel_rank", "parallel_config.data_parallel_rank", Count),
    _SectionField("data_parallel_rank_local", "parallel_config.data_parallel_rank_local", Count | None),
    _SectionField("data_parallel_master_ip", "parallel_config.data_parallel_master_ip", LimitedText),
    _SectionField("data_parallel_master_port", "parallel_config.data_parallel_master_port", Count),
    _SectionField("data_parallel_rpc_port", "parallel_config.data_parallel_rpc_port", Count),
    _SectionField("expert_parallel_enabled", "parallel_config.enable_expert_parallel", bool),
    _SectionField("prefill_context_parallel_size", "parallel_config.prefill_context_parallel_size", Size),
)
SPECULATIVE = (
    _SectionField("method", "speculative_config.method", LimitedText | None),
    _SectionField("num_speculative_tokens", "speculative_config.num_speculative_tokens", Count | None),
    _SectionField("draft_model", "speculative_config.model", LimitedText | None),
)
LORA = (
    _SectionField("max_lora_rank", "lora_config.max_lora_rank", Count),
    _SectionField("max_loras", "lora_config.max_loras", Count),
    _SectionField("max_cpu_loras", "lora_config.max_cpu_loras", Count | None),
    _SectionField("lora_dtype", "lora_config.lora_dtype", LimitedText),
)
HMA = (_SectionField("enabled", "scheduler_config.disable_hybrid_kv_cache_manager", bool, _is_off),)

ALWAYS = {"model": MODEL, "kv_cache": KV_CACHE, "scheduler": SCHEDULER, "parallelism": PARALLELISM, "hma": HMA}
# All fields of these sections are null if their part of VllmConfig is None.
SWITCHED = {"speculative_decoding": ("speculative_config", SPECULATIVE), "lora": ("lora_config", LORA)}


def sections_of(vllm_config: Any, gathering: Gathering) -> dict[str, dict[str, Any]]:
    """Return the sections by name, without the fields that only the engine or the API server knows."""
    sections = {name: section_of(name, fields, vllm_config, gathering) for name, fields in ALWAYS.items()}
    for name, (part, fields) in SWITCHED.items():
        sections[name] = _switched(name, part, fields, vllm_config, gathering)
    # The options of a disabled tier have no effect.
    if not sections["kv_cache"]["kv_offloading_enabled"]:
        sections["kv_cache"]["kv_offloading_backend"] = None
    return sections


def section_of(name: str, fields: tuple[_SectionField, ...], vllm_config: Any, gathering: Gathering) -> dict[str, Any]:
    """Return one section's fields by name."""
    return {field.name: _value(field, vllm_config, name, gathering) for field in fields}


def _switched(
    name: str, part: str, fields: tuple[_SectionField, ...], vllm_config: Any, gathering: Gathering
) -> dict[str, Any]:
    enabled = gathering.take(f"{name}.enabled", lambda: at(vllm_config, part) is not None, bool)
    values = section_of(name, fields, vllm_config, gathering) if enabled else {field.name: None for field in fields}
    return {"enabled": enabled, **values}


def _value(field: _SectionField, vllm_config: Any, section: str, gathering: Gathering) -> Any:
    def read() -> Any:
        value = at(vllm_config, field.path)
        return field.make(value) if field.make else value

    return gathering.take(f"{section}.{field.name}", read, field.shape)
