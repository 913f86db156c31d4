"""Why an engine has less KV cache than its peers: the memory of its device by part, as its worker measured it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import median_low
from typing import NamedTuple

from dashboard.fleet import Device, Engine, WorkerMemory

MOST_OF = 0.5  # share of the gap that a part has to explain to be its cause


class MemoryPart(StrEnum):
    """A part of a device's memory, in the order in which they add up to all of it."""

    WEIGHTS = "weights"
    OTHER = "other memory"  # NCCL, attention buffers, and what other processes took while vLLM started
    ACTIVATIONS = "activations"
    GRAPHS = "CUDA graphs"
    UNEXPLAINED = "unexplained memory"
    UNUSED = "KV cache, unused"
    KV_CACHE = "KV cache"
    NOT_REQUESTED = "memory not requested"


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
