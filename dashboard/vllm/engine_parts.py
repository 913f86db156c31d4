"""The devices and KV cache groups of one engine, as configuration endpoints tell them, in our own words."""

from collections.abc import Iterable, Sequence

from dashboard.errors import UnreadableError
from dashboard.fleet import Device, KVCacheGroup
from dashboard.vllm.schemas.devices import DeviceReply
from dashboard.vllm.schemas.fleet_extension import EngineDevice
from dashboard.vllm.schemas.kv_cache_groups import Group, OtherGroup

MAX_NAME = 100  # characters shown of a name that this program does not know


def devices_of(dp_rank: int, devices: Sequence[DeviceReply]) -> tuple[Device, ...]:
    """Return an engine's devices. Raises UnreadableError when two have the same rank."""
    if len({device.rank for device in devices}) != len(devices):
        raise UnreadableError("schema", "two devices of one engine have the same rank")
    return tuple(_device(dp_rank, device) for device in devices)


def groups_of(dp_rank: int, groups: Sequence[Group]) -> tuple[KVCacheGroup, ...]:
    """Return an engine's KV cache groups. Raises UnreadableError when two have the same id."""
    if len({group.group_id for group in groups}) != len(groups):
        raise UnreadableError("schema", "two KV cache groups of one engine have the same group_id")
    return tuple(_group(dp_rank, group) for group in groups)


def unknown_kinds(groups: Iterable[Group]) -> tuple[str, ...]:
    """Name the kinds of group that this program does not know."""
    kinds = sorted({group.spec_type for group in groups if isinstance(group, OtherGroup)})
    return tuple(f"KV cache group kind {kind[:MAX_NAME]}" for kind in kinds)


def _device(dp_rank: int, device: DeviceReply) -> Device:
    capability = device.compute_capability
    return Device(
        dp_rank,
        device.rank,
        device.name,
        device.total_memory_bytes,
        f"{capability.major}.{capability.minor}" if capability else None,
        device.num_compute_units,
        *((device.tensor_parallel_rank, device.pipeline_parallel_rank) if isinstance(device, EngineDevice) else ()),
    )


def _group(dp_rank: int, group: Group) -> KVCacheGroup:
    told = group.model_dump()
    return KVCacheGroup(
        dp_rank=dp_rank,
        group_id=group.group_id,
        spec_type=told["spec_type"],
        block_size=group.block_size,
        page_size_bytes=group.page_size_bytes,
        layers=len(group.layer_names) or group.layer_count or 0,
        **{name: told[name] for name in _OPTIONAL if told.get(name) is not None},
    )


_OPTIONAL = (
    "sliding_window",
    "extra_retained_tokens",
    "attention_chunk_size",
    "num_kv_heads",
    "head_size",
    "dtype",
    "mamba_cache_mode",
    "num_speculative_blocks",
    "num_prefill_checkpoint_blocks",
)
