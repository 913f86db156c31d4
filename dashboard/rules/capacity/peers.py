"""Comparable engines: which are of one kind, and which of them are far from its median."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from dashboard.capacity.outliers import medians, outliers, tied
from dashboard.fleet import Basis, Engine, Replica
from dashboard.fleet.formatting import LONG_TEXT, joined, middle_cut, one_line
from dashboard.rules.subject import PoolSubject

# Settings that decide the memory left for the KV cache: engines that differ in one are different kinds. Other rules
# report the difference (CP-06, CP-08, CO-04).
SHAPE = (
    "parallel_config.tensor_parallel_size",
    "parallel_config.pipeline_parallel_size",
    "parallel_config.data_parallel_size",
    "parallel_config.enable_expert_parallel",
    "model_config.quantization",
    "speculative_config.method",
)


class Odd(NamedTuple):
    """An engine far from its peers. `share` is how far above the median, -0.18 for 18 % below."""

    replica: Replica
    engine: Engine
    tokens: int
    share: float


class Kind(NamedTuple):
    """Engines of one kind, those far below or above the median, and the median in tokens."""

    devices: tuple[str, ...]  # names; empty where not reported
    number: int
    total: int  # engines of the pool
    conditions: tuple[str, ...]  # what distinguishes this kind from other engines of the pool, in words
    median: float
    odd: tuple[Odd, ...]
    is_tie: bool = False  # `odd` are all engines of the kind


def kinds(pool: PoolSubject, tolerance: float) -> Iterator[Kind]:
    """Yield per kind the engines below, then those above the median by more than `tolerance`.

    A tied kind is yielded once, with all its engines. Engines of unknown capacity are left out. Upper bounds are
    compared with upper bounds only.
    """
    shapes = _shapes(pool)
    everyone = list(pool.engines())
    known = [(member, engine) for member, engine in everyone if engine.kv_cache_size_tokens is not None]
    keys = [
        _Key(_devices(member, engine), shapes.get(member.id), engine.reason if engine.basis is Basis.ASSUMED else None)
        for member, engine in known
    ]
    found: dict[tuple[_Key, bool], list[int]] = defaultdict(list)
    far = {each.place: each for each in outliers(keys, _tokens(known), tolerance)}
    split = tied(keys, _tokens(known), tolerance)
    for place, outlier in far.items():
        found[keys[place], outlier.share > 0].append(place)
    for (key, _), places in found.items():
        odd = (Odd(*known[place], int(far[place].value), far[place].share) for place in places)
        conditions = tuple(_conditions(key, keys, len(everyone)))
        yield Kind(key.devices, keys.count(key), len(everyone), conditions, far[places[0]].median, tuple(odd))
    middle = medians(keys, _tokens(known))
    for key in dict.fromkeys(each for each in keys if each in split):
        tokens = ((place, engine.kv_cache_size_tokens or 0) for place, (_, engine) in enumerate(known))
        odd = (Odd(*known[p], held, held / middle[key] - 1) for p, held in tokens if keys[p] == key)
        conditions = tuple(_conditions(key, keys, len(everyone)))
        yield Kind(key.devices, keys.count(key), len(everyone), conditions, middle[key], tuple(odd), is_tie=True)


class _Key(NamedTuple):
    """What engines of one kind have in common. `bound` is the reason of an upper bound; None where it is none."""

    devices: tuple[str, ...]
    shape: Hashable
    bound: str | None


def _conditions(key: _Key, keys: Sequence[_Key], total: int) -> Iterator[str]:
    """Yield what distinguishes a kind from the pool's other engines."""
    if len(keys) < total:
        yield "of known capacity"
    alike = [each for each in keys if each.devices == key.devices]
    if len(alike) < len(keys):
        names = joined([middle_cut(one_line(name), LONG_TEXT) for name in key.devices])
        yield f"on {names}" if names else "of unreported devices"
    shaped = [each for each in alike if each.shape == key.shape]
    if len(shaped) < len(alike):
        yield "with the same parallelism"
    if shaped.count(key) < len(shaped):
        yield "with the same basis"


def _tokens(known: Sequence[tuple[Replica, Engine]]) -> list[float | None]:
    return [engine.kv_cache_size_tokens for _, engine in known]


def _devices(replica: Replica, engine: Engine) -> tuple[str, ...]:
    """Return the names of an engine's devices; where not reported, those of the replica's other engines."""
    own = {each.name for each in replica.devices if each.dp_rank == engine.dp_rank}
    return tuple(sorted(own or {each.name for each in replica.devices}))


def _shapes(pool: PoolSubject) -> dict[str, tuple[Hashable, ...]]:
    """Return the shape of each member; an unreported value is taken to be the most frequent one."""
    shapes: dict[str, list[Hashable]] = {member.id: [] for member in pool.members}
    for path in SHAPE:
        holders = pool.values(path)
        own = {replica: value for value, replicas in holders.items() for replica in replicas}
        usual = next(iter(holders), None)
        for replica, shape in shapes.items():
            shape.append(own.get(replica, usual))
    return {replica: tuple(shape) for replica, shape in shapes.items()}
