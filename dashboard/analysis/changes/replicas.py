"""Compares the replicas of two fleets and their KV cache."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.models import (
    CapacityChanges,
    CapacitySum,
    PoolCapacityChange,
    RankChange,
    ReplicaChanges,
    ReplicaPair,
    ReplicaSide,
)
from dashboard.capacity.outliers import TOLERANCE
from dashboard.capacity.sums import tokens_of, weakest_basis
from dashboard.fleet import Basis, Engine, Replica, ReplicaState, cohort_letters
from dashboard.fleet.formatting import natural


def pairs(before: Fleet, after: Fleet) -> tuple[tuple[Replica, Replica], ...]:
    """Return the replicas of both sides, by id; a second address on both sides is the same process once more."""
    earlier = {replica.id: replica for replica in before.replicas}
    both = ((earlier[replica.id], replica) for replica in after.replicas if replica.id in earlier)
    return tuple(pair for pair in both if not all(each.is_second_address for each in pair))


def is_read(replica: Replica) -> bool:
    """Return whether the settings of a replica are known and fresh."""
    return replica.fresh and replica.document is not None and replica.state is not ReplicaState.DOWN


def replica_changes(before: Fleet, after: Fleet) -> ReplicaChanges:
    """Compare the replicas of two fleets, without their settings."""
    old, new = cohort_letters(before.pools), cohort_letters(after.pools)
    both = (
        ReplicaPair(ReplicaSide(then, old.get(then.id, "")), ReplicaSide(now, new.get(now.id, "")))
        for then, now in pairs(before, after)
    )
    return ReplicaChanges(
        added=_only(after, before, new),
        removed=_only(before, after, old),
        both=tuple(sorted(both, key=lambda each: _place(each.after))),
    )


def _only(one: Fleet, other: Fleet, letters: Mapping[str, str]) -> tuple[ReplicaSide, ...]:
    """Return the replicas that the other side has at no address of their process."""
    known = {replica.id for replica in other.replicas}
    found = (
        ReplicaSide(each, letters.get(each.id, ""))
        for each in one.replicas
        if not each.is_second_address and known.isdisjoint((each.id, *each.same_process))
    )
    return tuple(sorted(found, key=_place))


def _place(side: ReplicaSide) -> tuple[object, ...]:
    """Return the sort key: pool and natural order of the name."""
    each = side.replica
    return (each.pool is None, each.pool or "", natural(each.name), each.id)


def capacity_changes(before: Fleet, after: Fleet) -> CapacityChanges:
    """Compare the KV cache of two fleets. Only fresh replicas count, and a process behind two addresses once."""
    then, now = _by_pool(before), _by_pool(after)
    names = sorted(then.keys() | now.keys(), key=lambda name: (name is None, name or ""))
    compared = incomparable = 0
    changed: list[RankChange] = []
    for replica, old, new in _ranks(before, after):
        if (old.basis is Basis.ASSUMED) is not (new.basis is Basis.ASSUMED):
            incomparable += 1
            continue
        compared += 1
        tokens = (old.kv_cache_size_tokens or 0, new.kv_cache_size_tokens or 0)
        if is_beyond(*tokens):
            changed.append(RankChange(replica.id, new.dp_rank, replica.pool, *tokens, new.basis is Basis.ASSUMED))
    return CapacityChanges(
        total=_pool(None, before.replicas, after.replicas),
        pools=tuple(_pool(name, then.get(name, ()), now.get(name, ())) for name in names),
        ranks=tuple(sorted(changed, key=lambda each: (each.pool or "", each.replica, each.dp_rank))),
        compared=compared,
        incomparable=incomparable,
    )


def is_beyond(before: int, after: int) -> bool:
    """Return whether tokens changed by more than the tolerance of the smaller number."""
    return abs(after - before) > TOLERANCE * min(before, after)


def _ranks(before: Fleet, after: Fleet) -> Iterator[tuple[Replica, Engine, Engine]]:
    """Yield the ranks with known tokens on both sides."""
    for then, now in pairs(before, after):
        if then.fresh and now.fresh:
            known = {engine.dp_rank: engine for engine in then.engines if engine.kv_cache_size_tokens is not None}
            for engine in now.engines:
                if engine.dp_rank in known and engine.kv_cache_size_tokens is not None:
                    yield now, known[engine.dp_rank], engine


def _by_pool(fleet: Fleet) -> Mapping[str | None, list[Replica]]:
    pools: dict[str | None, list[Replica]] = defaultdict(list)
    for replica in fleet.replicas:
        pools[replica.pool].append(replica)
    return pools


def _pool(name: str | None, before: Sequence[Replica], after: Sequence[Replica]) -> PoolCapacityChange:
    return PoolCapacityChange(name, _sum(before), _sum(after), _known_ranks(before) == _known_ranks(after))


def _known_ranks(replicas: Iterable[Replica]) -> set[tuple[str, int]]:
    """Return the ranks that are in the sum of tokens."""
    return {
        (replica.id, engine.dp_rank)
        for replica in replicas
        if replica.fresh and not replica.is_second_address
        for engine in replica.engines
        if engine.kv_cache_size_tokens is not None
    }


def _sum(replicas: Iterable[Replica]) -> CapacitySum:
    """Add up the ranks of some replicas, and count the ranks and replicas that are not in the sums."""
    counted = [replica for replica in replicas if not replica.is_second_address]
    fresh = [replica for replica in counted if replica.fresh]
    engines = [engine for replica in fresh for engine in replica.engines]
    known = [engine for engine in engines if engine.kv_cache_size_tokens is not None]
    sizes = [engine.kv_cache_bytes for engine in engines if engine.kv_cache_bytes is not None]
    return CapacitySum(
        ranks=len(engines),
        tokens=sum(map(tokens_of, fresh)) if known else None,
        bytes=sum(sizes) if sizes else None,
        unknown=len(engines) - len(known),
        unsized=len(engines) - len(sizes),
        silent=sum(not (replica.fresh and replica.engines) for replica in counted),
        basis=weakest_basis(engines),
    )
