"""Engines that can be held against each other: which are of one kind, and which of them are far from its median."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from dashboard.capacity.outliers import medians, outliers, tied
from dashboard.fleet import Basis, Engine, Replica
from dashboard.fleet.formatting import joined, middle_cut, one_line
from dashboard.rules.subject import PoolSubject

# What decides how much of a GPU is left for the KV cache: engines that differ in it are not of one kind. Other rules
# say that it differs (CP-06, CP-08, CO-04).
SHAPE = (
    "parallel_config.tensor_parallel_size",
    "parallel_config.pipeline_parallel_size",
    "parallel_config.data_parallel_size",
    "parallel_config.enable_expert_parallel",
    "model_config.quantization",
    "speculative_config.method",
)
LONGEST_NAME = 44  # characters of a device's name that a sentence shows


class Odd(NamedTuple):
    """An engine far from its peers. `share` is how far above the median, -0.18 for 18 % below."""

    replica: Replica
    engine: Engine
    tokens: int
    share: float


class Kind(NamedTuple):
    """Engines of one kind, those of them that are far below or far above the median, and what it is (tokens)."""

    devices: tuple[str, ...]  # names; empty where no replica tells them
    number: int
    total: int  # engines of the pool
    apart: tuple[str, ...]  # what this kind has and others of the pool have not, as relative clauses
    median: float
    odd: tuple[Odd, ...]
    is_tie: bool = False  # no median has a majority: `odd` are all engines of the kind


def kinds(pool: PoolSubject, tolerance: float) -> Iterator[Kind]:
    """Yield per kind the engines below, and apart from them those above the median by more than `tolerance`.

    A kind that is tied is yielded once, with all its engines. Engines whose tokens are not known are left out. An upper
    bound is only held against upper bounds of its kind.
    """
    shapes = _shapes(pool)
    everyone = list(pool.engines())
    known = [(member, engine) for member, engine in everyone if engine.kv_cache_size_tokens is not None]
    keys = [
        _Key(_devices(member, engine), shapes.get(member.id), engine.reason if engine.basis is Basis.ASSUMED else None)
        for member, engine in known
    ]
    found: dict[tuple[_Key, bool], list[int]] = defaultdict(list)
    told = {each.place: each for each in outliers(keys, _tokens(known), tolerance)}
    split = tied(keys, _tokens(known), tolerance)
    for place, outlier in told.items():
        found[keys[place], outlier.share > 0].append(place)
    for (key, _), places in found.items():
        odd = (Odd(*known[place], int(told[place].value), told[place].share) for place in places)
        apart = tuple(_apart(key, keys, len(everyone)))
        yield Kind(key.devices, keys.count(key), len(everyone), apart, told[places[0]].median, tuple(odd))
    middle = medians(keys, _tokens(known))
    for key in dict.fromkeys(each for each in keys if each in split):
        tokens = ((place, engine.kv_cache_size_tokens or 0) for place, (_, engine) in enumerate(known))
        odd = (Odd(*known[p], held, held / middle[key] - 1) for p, held in tokens if keys[p] == key)
        apart = tuple(_apart(key, keys, len(everyone)))
        yield Kind(key.devices, keys.count(key), len(everyone), apart, middle[key], tuple(odd), is_tie=True)


class _Key(NamedTuple):
    """What engines of one kind have in common. `bound` is why the number is an upper bound; None where it is none."""

    devices: tuple[str, ...]
    shape: Hashable
    bound: str | None


def _apart(key: _Key, keys: Sequence[_Key], total: int) -> Iterator[str]:
    """Say in which respects a kind is a part of the pool only."""
    if len(keys) < total:
        yield "whose capacity is known"
    alike = [each for each in keys if each.devices == key.devices]
    if len(alike) < len(keys):
        names = joined([middle_cut(one_line(name), LONGEST_NAME) for name in key.devices])
        yield f"known to run on {names}" if names else "whose devices are not told"
    shaped = [each for each in alike if each.shape == key.shape]
    if len(shaped) < len(alike):
        yield "set up alike"
    if shaped.count(key) < len(shaped):
        yield "whose capacity is told in the same way"


def _tokens(known: Sequence[tuple[Replica, Engine]]) -> list[float | None]:
    return [engine.kv_cache_size_tokens for _, engine in known]


def _devices(replica: Replica, engine: Engine) -> tuple[str, ...]:
    """Return the names of an engine's devices; those of the replica's other engines where its own are not told."""
    own = {each.name for each in replica.devices if each.dp_rank == engine.dp_rank}
    return tuple(sorted(own or {each.name for each in replica.devices}))


def _shapes(pool: PoolSubject) -> dict[str, tuple[Hashable, ...]]:
    """Return the shape of each member; what one does not tell is taken to be as on most of the others."""
    shapes: dict[str, list[Hashable]] = {member.id: [] for member in pool.members}
    for path in SHAPE:
        holders = pool.values(path)
        own = {replica: told for told, replicas in holders.items() for replica in replicas}
        usual = next(iter(holders), None)
        for replica, shape in shapes.items():
            shape.append(own.get(replica, usual))
    return {replica: tuple(shape) for replica, shape in shapes.items()}
