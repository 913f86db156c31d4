"""Our provider's answer as `Reply`: all engines of a server, and its whole configuration.

Also devices and KV cache groups, which every configuration endpoint reports in the same shape.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from itertools import chain, starmap
from typing import Any

from dashboard.errors import UnreadableError
from dashboard.fleet import (
    Argument,
    Device,
    EngineFingerprint,
    EngineReport,
    KVCacheGroup,
    Reply,
    Setting,
    Source,
    WorkerMemory,
)
from dashboard.vllm.canonical import setting, shared
from dashboard.vllm.fields import read_config, settings_of
from dashboard.vllm.lookahead import LOOKAHEAD, lookahead_setting
from vllm_fleet_provider.shared.digests import device_names, digests_of, own_settings, reported_settings
from vllm_fleet_provider.shared.inference_config import (
    EngineDevice,
    EngineInfo,
    FleetExtension,
    InferenceConfigReply,
    Unavailable,
)
from vllm_fleet_provider.shared.types import DeviceReply, Group, OtherGroup

MAX_NAME = 100  # characters of an unknown name that are shown
SplitSettings = tuple[Mapping[str, Setting], Mapping[str, Setting]]  # settings, identity


def read_provider(answer: InferenceConfigReply, fleet: FleetExtension) -> Reply:
    """Read an answer with its extension, which may lack `settings`. Raises UnreadableError for impossible values."""
    names = answer.model.served_model_names or ()
    settings, identity = _read_settings(answer, fleet, names)
    rank = _rank(answer, fleet)
    devices = [(engine.data_parallel_rank, engine.devices) for engine in fleet.engines if engine.devices]
    groups = [(engine.data_parallel_rank, engine.groups) for engine in fleet.engines if engine.groups]
    return Reply(
        Source.PROVIDER,
        settings,
        identity,
        version=fleet.vllm_version,
        started_at=fleet.started_at.astimezone(UTC) if fleet.started_at else None,
        served_model_names=names,
        adapters={adapter.name: adapter.path for adapter in fleet.adapters},
        engines=_read_engines(answer, fleet),
        # If no engine reports its own: those of the answering engine.
        devices=tuple(chain.from_iterable(starmap(devices_of, devices or [(rank, answer.devices)]))),
        kv_cache_groups=tuple(chain.from_iterable(starmap(groups_of, groups or [(rank, answer.kv_cache.groups)]))),
        not_understood=unknown_kinds([*answer.kv_cache.groups, *(each for _, own in groups for each in own)]),
        arguments=_read_arguments(fleet),
        digests=digests_of(answer),
    )


def _read_arguments(fleet: FleetExtension) -> tuple[Argument, ...] | None:
    given = fleet.set_arguments
    return None if given is None else tuple(Argument(each.argument, each.source) for each in given)


def _read_settings(answer: InferenceConfigReply, fleet: FleetExtension, names: Sequence[str]) -> SplitSettings:
    """Return settings and identity; with the hash lookahead only where it does not follow from the others."""
    settings, identity = _read_reported(answer, fleet, names)
    derived, tokens = lookahead_setting(settings), fleet.prefix_hashing.lookahead_tokens
    if tokens is None or (derived is not None and derived.value == str(tokens)):
        return settings, identity
    return shared({**settings, LOOKAHEAD: setting(LOOKAHEAD, tokens, Source.PROVIDER)}), identity


def _read_reported(answer: InferenceConfigReply, fleet: FleetExtension, names: Sequence[str]) -> SplitSettings:
    """Read the whole configuration where it is reported, else the sections."""
    if not fleet.settings:
        own = own_settings(answer, fleet)
        if names:
            own["model_config.served_model_name"] = names[0]
        dumped = answer.model_dump(exclude_unset=True, exclude={"fleet": {"engines", "environment"}})
        return settings_of(_without(dumped, fleet.unavailable), Source.PROVIDER, list(own.items()))
    try:
        settings, devices = reported_settings(answer, fleet), device_names(answer, fleet)
        return read_config(settings, fleet.environment or {}, Source.PROVIDER, devices)
    except ValueError as error:  # a path below a value, or more levels than JSON is read with
        raise UnreadableError("schema", f"fleet.settings are no configuration: {error}") from None


def _without(dumped: dict[str, Any], unavailable: Sequence[Unavailable]) -> dict[str, Any]:
    """Remove unavailable fields: their null means nothing."""
    for each in unavailable:
        *above, last = each.field.split(".")
        section: Any = dumped
        for part in above:
            section = section.get(part) if isinstance(section, dict) else None
        if isinstance(section, dict):
            section.pop(last, None)
    return dumped


def _read_engines(answer: InferenceConfigReply, fleet: FleetExtension) -> tuple[EngineReport, ...]:
    """Return the engines of all ranks. Without `fleet.engines` the blocks are one engine's only for one DP rank."""
    if len({engine.data_parallel_rank for engine in fleet.engines}) != len(fleet.engines):
        raise UnreadableError("schema", "two engines of one server have the same data_parallel_rank")
    if not fleet.engines and answer.parallelism.data_parallel_size == 1:
        return (EngineReport(_rank(answer, fleet), answer.kv_cache.num_gpu_blocks),)
    return tuple(map(_report, fleet.engines))


def _rank(answer: InferenceConfigReply, fleet: FleetExtension) -> int:
    return fleet.data_parallel_rank or answer.parallelism.data_parallel_rank or 0


def _report(engine: EngineInfo) -> EngineReport:
    fingerprint = EngineFingerprint(*engine.fingerprint.model_dump().values())
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


def devices_of(dp_rank: int, devices: Sequence[DeviceReply]) -> tuple[Device, ...]:
    """Return an engine's devices. Raises UnreadableError when two have the same rank."""
    if len({device.rank for device in devices}) != len(devices):
        raise UnreadableError("schema", "two devices of one engine have the same rank")
    return tuple(_device(dp_rank, device) for device in devices)


def _device(dp_rank: int, device: DeviceReply) -> Device:
    capability = device.compute_capability
    known = Device(
        dp_rank,
        device.rank,
        device.name,
        device.total_memory_bytes,
        f"{capability.major}.{capability.minor}" if capability else None,
        device.num_compute_units,
    )
    if not isinstance(device, EngineDevice):
        return known
    memory = WorkerMemory(**device.memory.model_dump())
    return known._replace(
        tensor_parallel_rank=device.tensor_parallel_rank,
        pipeline_parallel_rank=device.pipeline_parallel_rank,
        memory=memory if any(memory) else None,
    )


def groups_of(dp_rank: int, groups: Sequence[Group]) -> tuple[KVCacheGroup, ...]:
    """Return an engine's KV cache groups. Raises UnreadableError when two have the same id."""
    if len({group.group_id for group in groups}) != len(groups):
        raise UnreadableError("schema", "two KV cache groups of one engine have the same group_id")
    return tuple(_group(dp_rank, group) for group in groups)


def _group(dp_rank: int, group: Group) -> KVCacheGroup:
    layers = len(group.layer_names) or group.layer_count or 0
    reported = {name: value for name, value in group.model_dump().items() if value is not None}
    known = {name: value for name, value in reported.items() if name in KVCacheGroup._fields}
    return KVCacheGroup(**{"dp_rank": dp_rank, "layers": layers, "page_size_bytes": None, **known})


def unknown_kinds(groups: Iterable[Group]) -> tuple[str, ...]:
    kinds = sorted({group.spec_type for group in groups if isinstance(group, OtherGroup)})
    return tuple(f"KV cache group kind {kind[:MAX_NAME]}" for kind in kinds)
