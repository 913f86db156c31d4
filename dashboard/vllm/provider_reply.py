"""What our provider's answer says, in our own words: all engines of a server, and its whole configuration."""

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

from dashboard.errors import UnreadableError
from dashboard.fleet import Device, EngineReport, Fingerprint, KVCacheGroup, Reply, Setting, Source
from dashboard.vllm.canonical import setting, shared
from dashboard.vllm.engine_parts import devices_of, groups_of, unknown_kinds
from dashboard.vllm.fields import settings_of
from dashboard.vllm.flatten import flatten_config
from dashboard.vllm.lookahead import LOOKAHEAD, UPGRADE, lookahead_setting
from dashboard.vllm.schemas.fleet_extension import EngineInfo, FleetExtension, Unavailable
from dashboard.vllm.schemas.inference_config import InferenceConfigReply
from dashboard.vllm.schemas.paths import nested


def read_provider(answer: InferenceConfigReply, fleet: FleetExtension) -> Reply:
    """Read an answer with its extension, which may lack `settings`. Raises UnreadableError when it cannot be meant."""
    names = answer.model.served_model_names or ()
    settings, identity = _settings(answer, fleet, names)
    told = [*answer.kv_cache.groups, *(group for engine in fleet.engines for group in engine.groups)]
    return Reply(
        Source.PROVIDER,
        settings,
        identity,
        version=fleet.vllm_version,
        started_at=fleet.started_at.astimezone(UTC) if fleet.started_at else None,
        served_model_names=names,
        adapters={adapter.name: adapter.path for adapter in fleet.adapters},
        engines=_engines(answer, fleet, is_usable=_covers_lookahead(fleet, settings)),
        devices=_devices(answer, fleet),
        kv_cache_groups=_groups(answer, fleet),
        not_understood=unknown_kinds(told),
    )


def _settings(
    answer: InferenceConfigReply, fleet: FleetExtension, names: Sequence[str]
) -> tuple[Mapping[str, Setting], Mapping[str, Setting]]:
    """Return settings and identity: the whole configuration if it is told, else what the sections tell of it.

    The hash lookahead is one of them only where it does not follow from the others.
    """
    settings, identity = _reported(answer, fleet, names)
    derived, tokens = lookahead_setting(settings), fleet.prefix_hashing.lookahead_tokens
    if tokens is None or (derived is not None and derived.value == str(tokens)):
        return settings, identity
    return shared({**settings, LOOKAHEAD: setting(LOOKAHEAD, tokens, Source.PROVIDER)}), identity


def _reported(
    answer: InferenceConfigReply, fleet: FleetExtension, names: Sequence[str]
) -> tuple[Mapping[str, Setting], Mapping[str, Setting]]:
    own = _own(fleet, names)
    if not fleet.settings:
        if names:
            own["model_config.served_model_name"] = names[0]
        dumped = answer.model_dump(exclude_unset=True, exclude={"fleet": {"engines", "environment"}})
        return settings_of(_without(dumped, fleet.unavailable), Source.PROVIDER, list(own.items()))
    try:
        config = {**nested(_filled_in(fleet.settings, fleet)), **own}
        return flatten_config(config, fleet.environment or {}, Source.PROVIDER)
    except ValueError as error:  # paths that stand below each other, or more levels than JSON is read with
        raise UnreadableError("schema", f"fleet.settings are no configuration: {error}") from None


def _own(fleet: FleetExtension, names: Sequence[str]) -> dict[str, Any]:
    """Return what no configuration of vLLM holds, by path; what could not be had is no setting."""
    told = {
        "version": fleet.vllm_version,
        "served_model_names": list(names) or None,
        "seed_policy": fleet.prefix_hashing.seed_policy,
        "chat_template_digest": fleet.chat.template_digest,
        "chat_template_content_format": fleet.chat.template_content_format,
        "tool_call_parser": fleet.chat.tool_call_parser,
        "enable_auto_tool_choice": fleet.chat.enable_auto_tool_choice,
        "concurrent_batches": fleet.scheduling.concurrent_batches,
    }
    return {path: value for path, value in told.items() if value is not None}


def _filled_in(settings: Mapping[str, Any], fleet: FleetExtension) -> Mapping[str, Any]:
    """Return the settings with what the engine filled in: the API server's own configuration does not show it."""
    told = {
        "cache_config.hash_block_size": fleet.prefix_hashing.hash_block_size,
        "cache_config.cache_hit_alignment_tokens": fleet.prefix_hashing.alignment,
    }
    empty = {path for path in told if path in settings and settings[path] is None}
    return {**settings, **{path: told[path] for path in empty}}


def _without(dumped: dict[str, Any], unavailable: Sequence[Unavailable]) -> dict[str, Any]:
    """Take out the fields that could not be had: their null says nothing."""
    for each in unavailable:
        *above, last = each.field.split(".")
        section: Any = dumped
        for part in above:
            section = section.get(part) if isinstance(section, dict) else None
        if isinstance(section, dict):
            section.pop(last, None)
    return dumped


def _covers_lookahead(fleet: FleetExtension, settings: Mapping[str, Setting]) -> bool:
    """Tell whether fingerprints cover all that hashes do: those of a provider 1.0 leave out later tokens."""
    ahead = lookahead_setting(settings)
    return fleet.prefix_hashing.lookahead_tokens is not None or (ahead is not None and ahead.value == "0")


def _engines(answer: InferenceConfigReply, fleet: FleetExtension, *, is_usable: bool) -> tuple[EngineReport, ...]:
    """Return the engines of all ranks. Without `fleet.engines` the blocks are an engine's only where there is one.

    `is_usable`: whether their fingerprints cover all that their hashes do.
    """
    if len({engine.data_parallel_rank for engine in fleet.engines}) != len(fleet.engines):
        raise UnreadableError("schema", "two engines of one server have the same data_parallel_rank")
    if not fleet.engines and answer.parallelism.data_parallel_size == 1:
        return (EngineReport(_rank(answer, fleet), answer.kv_cache.num_gpu_blocks),)
    return tuple(_report(engine, is_usable=is_usable) for engine in fleet.engines)


def _devices(answer: InferenceConfigReply, fleet: FleetExtension) -> tuple[Device, ...]:
    """Return the devices of all ranks, or if no engine tells its own, those of the one that answers."""
    told = tuple(each for engine in fleet.engines for each in devices_of(engine.data_parallel_rank, engine.devices))
    return told or devices_of(_rank(answer, fleet), answer.devices)


def _groups(answer: InferenceConfigReply, fleet: FleetExtension) -> tuple[KVCacheGroup, ...]:
    """Return the KV cache groups of all ranks, or if no engine tells its own, those of the one that answers."""
    told = tuple(each for engine in fleet.engines for each in groups_of(engine.data_parallel_rank, engine.groups))
    return told or groups_of(_rank(answer, fleet), answer.kv_cache.groups)


def _rank(answer: InferenceConfigReply, fleet: FleetExtension) -> int:
    return fleet.data_parallel_rank or answer.parallelism.data_parallel_rank or 0


def _report(engine: EngineInfo, *, is_usable: bool) -> EngineReport:
    fingerprint = Fingerprint(*engine.fingerprint.model_dump().values())
    if fingerprint.engine is not None and not is_usable:
        fingerprint = Fingerprint(reason=UPGRADE)
    return EngineReport(
        engine.data_parallel_rank,
        engine.num_gpu_blocks,
        engine.kv_cache_size_tokens,
        engine.max_concurrency,
        kv_cache_bytes_per_device=engine.kv_cache_bytes_per_device,
        fingerprint=fingerprint if any(fingerprint) else None,
        max_model_len=engine.max_model_len,
        kv_cache_available_bytes=engine.kv_cache_available_bytes,
    )
