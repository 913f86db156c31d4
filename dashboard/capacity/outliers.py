"""Engines with much less or more KV cache than the median of their pool and kind of device, and why.

The memory of their device by part, as its worker measured it, explains less.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from statistics import median, median_low
from typing import NamedTuple, TypeAlias

from dashboard.fleet import Device, Engine, Replica, WorkerMemory

TOLERANCE = 0.10  # share of the median; a proposal, no source gives one
FEWEST = 3  # engines of one kind that make a median worth naming
MOST_OF = 0.5  # share of the gap that a part has to explain to be its cause
_Counts: TypeAlias = Mapping[tuple[Hashable, float], int]  # number of engines by kind and value


def devices_of(replica: Replica, dp_rank: int) -> tuple[str, ...]:
    """Return the names of a rank's devices; those of the replica's other ranks where its own are not reported."""
    own = {each.name for each in replica.devices if each.dp_rank == dp_rank}
    return tuple(sorted(own or {each.name for each in replica.devices}))


def outliers(
    kinds: Sequence[Hashable], values: Sequence[float | None], tolerance: float = TOLERANCE
) -> Mapping[int, float]:
    """Return the shares above the median of their kind of the values beyond `tolerance`, by their places.

    Unknown values are left out, and a kind that is tied has no outliers.
    """
    middle, split = medians(kinds, values), tied(kinds, values, tolerance)
    shares = {
        (kind, value): value / middle[kind] - 1
        for kind, value in _count(kinds, values)
        if kind not in split and middle.get(kind)
    }
    far = {known: share for known, share in shares.items() if abs(share) > tolerance}
    if not far:
        return {}
    places = enumerate(zip(kinds, values, strict=True))
    return {place: far[known] for place, known in places if known in far}


def tied(
    kinds: Sequence[Hashable], values: Sequence[float | None], tolerance: float = TOLERANCE, fewest: int = FEWEST
) -> frozenset[Hashable]:
    """Return the kinds of which less than half of the known values are within `tolerance` of the median."""
    middle = medians(kinds, values, fewest)
    near: Counter[Hashable] = Counter()
    for (kind, value), number in _count(kinds, values).items():
        if middle.get(kind):
            near[kind] += number if abs(value / middle[kind] - 1) <= tolerance else -number
    return frozenset(kind for kind, more in near.items() if more < 0)


def medians(
    kinds: Sequence[Hashable], values: Sequence[float | None], fewest: int = FEWEST
) -> Mapping[Hashable, float]:
    """Return the median per kind that has at least so many known values."""
    known: dict[Hashable, list[float]] = {}
    for (kind, value), number in _count(kinds, values).items():
        known.setdefault(kind, []).extend([value] * number)
    return {kind: float(median(own)) for kind, own in known.items() if len(own) >= fewest}


def _count(kinds: Sequence[Hashable], values: Sequence[float | None]) -> _Counts:
    """Count equal values of a kind: of thousands of engines few are different."""
    return {
        (kind, value): number
        for (kind, value), number in Counter(zip(kinds, values, strict=True)).items()
        if value is not None
    }


class MemoryPart(StrEnum):
    """A part of a device's memory, in the order in which they add up to all of it."""

    WEIGHTS = "weights"
    OTHER = "NCCL and other processes"  # also attention buffers; of other processes what they took while vLLM started
    ACTIVATIONS = "activations"
    GRAPHS = "CUDA graphs"
    UNEXPLAINED = "unaccounted memory"
    UNUSED = "unused KV cache"
    KV_CACHE = "KV cache"
    NOT_REQUESTED = "memory above gpu_memory_utilization"


Parts = Mapping[MemoryPart, int]  # bytes
AVAILABLE = (MemoryPart.UNUSED, MemoryPart.KV_CACHE)


class MemoryCause(NamedTuple):
    """The part that takes most of the memory that an engine lacks for its KV cache: its bytes more than usual."""

    part: MemoryPart
    more: int
    gap: int


def memory_parts(engine: Engine, devices: Sequence[Device]) -> Parts | None:
    """Return the memory of the engine's smallest device by part; None unless its worker measured all of them.

    The parts add up to the memory of the device.
    """
    measured = [each.memory for each in devices if each.dp_rank == engine.dp_rank and each.memory]
    known = [each for each in measured if each.available_bytes is not None]
    return _parts(engine, min(known, key=lambda memory: memory.available_bytes or 0)) if known else None


def _parts(engine: Engine, memory: WorkerMemory) -> Parts | None:
    taken = (memory.weights_bytes, memory.non_torch_bytes, memory.activation_bytes, memory.cuda_graph_bytes)
    requested, total, available = memory.requested_bytes, memory.total_bytes, memory.available_bytes
    if requested is None or total is None or available is None or None in taken:
        return None
    weights, other, activations, graphs = (each or 0 for each in taken)
    used = available if engine.kv_cache_bytes_per_device is None else min(engine.kv_cache_bytes_per_device, available)
    parts = {
        MemoryPart.WEIGHTS: weights,
        MemoryPart.OTHER: other,
        MemoryPart.ACTIVATIONS: activations,
        MemoryPart.GRAPHS: graphs,
        MemoryPart.UNEXPLAINED: requested - weights - other - activations - graphs - available,
        MemoryPart.UNUSED: available - used,
        MemoryPart.KV_CACHE: used,
        MemoryPart.NOT_REQUESTED: total - requested,
    }
    return parts if min(parts.values()) >= 0 else None


def available_bytes(parts: Parts) -> int:
    """Return the memory that is left for the KV cache, used or not."""
    return sum(parts[each] for each in AVAILABLE)


def usual_parts(engines: Sequence[Parts]) -> Parts:
    """Return the engine with the median of the available memory: medians of each part would not add up."""
    middle = median_low(map(available_bytes, engines))
    return next(each for each in engines if available_bytes(each) == middle)


def main_cause(own: Parts, usual: Parts) -> MemoryCause | None:
    """Return the part that explains most of the memory that `own` lacks; None where no part explains half of it."""
    gap = available_bytes(usual) - available_bytes(own)
    more = {part: own[part] - usual[part] for part in own if part not in AVAILABLE}
    part = max(more, key=lambda each: more[each])
    return MemoryCause(part, more[part], gap) if gap > 0 and more[part] >= MOST_OF * gap else None
