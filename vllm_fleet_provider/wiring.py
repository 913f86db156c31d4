"""Scheduling, KV events, KV transfer and the model's files of an engine, from a `VllmConfig`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from vllm_fleet_provider.gathering import at, found
from vllm_fleet_provider.shared.types import Count, LimitedText, Size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vllm_fleet_provider.gathering import Gathering

SCHEDULING = {
    "concurrent_batches": ("max_concurrent_batches", Size),
    "async_scheduling": ("scheduler_config.async_scheduling", bool),
}
KV_EVENTS = {
    "enabled": ("kv_events_config.enable_kv_cache_events", bool),
    "publisher": ("kv_events_config.publisher", LimitedText | None),
    "endpoint": ("kv_events_config.endpoint", LimitedText | None),
    "topic": ("kv_events_config.topic", LimitedText | None),
}
KV_TRANSFER = {
    "connector": ("kv_transfer_config.kv_connector", LimitedText | None),
    "role": ("kv_transfer_config.kv_role", LimitedText | None),
    "engine_id": ("kv_transfer_config.engine_id", LimitedText | None),
}
MODEL = {
    "revision": ("model_config.revision", LimitedText | None),
    "code_revision": ("model_config.code_revision", LimitedText | None),
    "tokenizer": ("model_config.tokenizer", LimitedText | None),
    "tokenizer_revision": ("model_config.tokenizer_revision", LimitedText | None),
}
# A connector transfers only if these and the versions match (vllm/distributed/kv_transfer/kv_connector/v1/nixl/
# metadata.py, compute_nixl_compatibility_hash). The backend's name is null unless the operator sets it.
COMPATIBILITY = {
    "model": ("model_config.model", LimitedText),
    "dtype": ("model_config.dtype", LimitedText),
    "cache_dtype": ("cache_config.cache_dtype", LimitedText),
    "attention_backend": ("attention_config.backend", LimitedText | None),
    "hybrid_kv_cache_manager": ("scheduler_config.disable_hybrid_kv_cache_manager", bool),
    "kv_cache_layout": ("cache_config.kv_cache_layout", LimitedText | None),
}
COUNTED = {
    "num_kv_heads": "get_total_num_kv_heads",
    "head_size": "get_head_size",
    "num_hidden_layers": "get_total_num_hidden_layers",
}


def wiring_of(vllm_config: Any, gathering: Gathering) -> dict[str, dict[str, Any]]:
    """Return the sections of `fleet` that a `VllmConfig` has."""
    sections = {
        "scheduling": _section("scheduling", SCHEDULING, vllm_config, gathering),
        "kv_events": _optional("kv_events", "kv_events_config", KV_EVENTS, vllm_config, gathering),
        "kv_transfer": _optional("kv_transfer", "kv_transfer_config", KV_TRANSFER, vllm_config, gathering),
        "model": _section("model", MODEL, vllm_config, gathering),
    }
    if found(vllm_config, "kv_events_config") is None:
        sections["kv_events"]["enabled"] = False
    is_wired = sections["kv_transfer"]["connector"] is not None
    sections["kv_transfer"]["compatibility"] = _compatibility(vllm_config, gathering) if is_wired else None
    return sections


def _optional(
    name: str, part: str, fields: Mapping[str, tuple[str, Any]], vllm_config: Any, gathering: Gathering
) -> dict[str, Any]:
    """Return a section; all null if its part of `VllmConfig` is None."""
    if found(vllm_config, part) is None:
        return dict.fromkeys(fields)
    return _section(name, fields, vllm_config, gathering)


def _section(
    name: str, fields: Mapping[str, tuple[str, Any]], vllm_config: Any, gathering: Gathering
) -> dict[str, Any]:
    return {
        field: gathering.take(f"fleet.{name}.{field}", partial(at, vllm_config, path), shape)
        for field, (path, shape) in fields.items()
    }


def _compatibility(vllm_config: Any, gathering: Gathering) -> dict[str, Any]:
    values = _section("kv_transfer.compatibility", COMPATIBILITY, vllm_config, gathering)
    is_off = values["hybrid_kv_cache_manager"]
    values["hybrid_kv_cache_manager"] = None if is_off is None else not is_off
    for field, method in COUNTED.items():
        place = f"fleet.kv_transfer.compatibility.{field}"
        values[field] = gathering.take(place, partial(_call, vllm_config, f"model_config.{method}"), Count)
    return values


def _call(vllm_config: Any, path: str) -> Any:
    return at(vllm_config, path)()
