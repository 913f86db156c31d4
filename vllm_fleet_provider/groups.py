"""The KV cache groups of an engine, from its scheduler (vllm/v1/kv_cache_interface.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from vllm_fleet_provider.gathering import plain
from vllm_fleet_provider.shared.types import Group, KeepsAllGroup, KVCacheGroups

if TYPE_CHECKING:
    from collections.abc import Callable

    from vllm_fleet_provider.gathering import Gathering

FIELDS = (
    "num_kv_heads",
    "head_size",
    "head_size_v",
    "dtype",
    "cache_dtype_str",
    "sliding_window",
    "extra_retained_tokens",
    "attention_chunk_size",
    "sink_len",
    "shapes",
    "dtypes",
    "mamba_type",
    "mamba_cache_mode",
    "num_speculative_blocks",
    "num_prefill_checkpoint_blocks",
    "dcp_sharded",
)

FIRST = ("group_id", "layer_names", "spec_type", "block_size", "page_size_bytes")
MOSTLY_NULL = ("sliding_window", "attention_chunk_size")  # the seed has them in every group of full attention
_SHAPE: TypeAdapter[tuple[Group, ...]] = TypeAdapter(KVCacheGroups)


def groups_of(kv_cache_config: Callable[[], Any], gathering: Gathering) -> list[dict[str, Any]]:
    """Return all KV cache groups of the engine, or none: a part of the groups would give a wrong capacity."""
    return gathering.take("kv_cache.groups", lambda: _groups(kv_cache_config()), list[dict[str, Any]]) or []


def bytes_per_device(kv_cache_config: Any) -> int:
    """Return the bytes of the KV cache on each device of the engine. Raises AttributeError.

    Tensors with a stride between blocks share one allocation, and each has its size: all tensors since vLLM 0.29,
    before that those of packed layouts. Other tensors are separate allocations (vllm/v1/core/kv_cache_utils.py).
    """
    tensors = [tensor for tensor in kv_cache_config.kv_cache_tensors if not getattr(tensor, "host_resident", False)]
    sizes = [tensor.size for tensor in tensors]
    is_one = any(getattr(tensor, "block_stride", None) for tensor in tensors)
    return max(sizes) if is_one else sum(sizes)


def _groups(kv_cache_config: Any) -> list[dict[str, Any]]:
    """Return the groups in the schema's shape. Raises ValidationError."""
    groups = [_group(number, group) for number, group in enumerate(kv_cache_config.kv_cache_groups)]
    return [_dumped(group) for group in _SHAPE.validate_python(groups)]


def _group(number: int, group: Any) -> dict[str, Any]:
    spec = group.kv_cache_spec
    values = {name: plain(getattr(spec, name, None)) for name in FIELDS}
    values["host_resident"] = plain(getattr(group, "host_resident", None))
    return {
        "group_id": number,
        "layer_names": list(group.layer_names),
        "spec_type": type(spec).__name__,
        "block_size": spec.block_size,
        "page_size_bytes": spec.page_size_bytes,
        **{name: value for name, value in values.items() if value is not None},
    }


def _dumped(group: Group) -> dict[str, Any]:
    values = group.model_dump(mode="json", exclude_none=True)
    first = {name: values[name] for name in FIRST if name in values}
    return {**first, **(dict.fromkeys(MOSTLY_NULL) if isinstance(group, KeepsAllGroup) else {}), **values}
