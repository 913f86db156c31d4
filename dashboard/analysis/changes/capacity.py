"""What a fleet holds before and after: KV cache by pool and in total, and the ranks that hold clearly more or less."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.capacity_nouns import Amount, CapacityChanges, PoolCapacity, RankChange
from dashboard.analysis.changes.replicas import pairs
from dashboard.capacity.outliers import TOLERANCE
from dashboard.fleet import Basis, Engine, Replica

_WEAKNESS = (Basis.UNKNOWN, Basis.REPORTED, Basis.DERIVED, Basis.ASSUMED)


def capacity_changes(before: Fleet, after: Fleet) -> CapacityChanges:
    """Compare what two fleets hold. Only fresh replicas count, and a process behind two addresses once."""
    then, now = _by_pool(before), _by_pool(after)
    names = sorted(then.keys() | now.keys(), key=lambda name: (name is None, name or ""))
    alike = incomparable = 0
    changed: list[RankChange] = []
    for replica, old, new in _ranks(before, after):
        if (old.basis is Basis.ASSUMED) is not (new.basis is Basis.ASSUMED):
            incomparable += 1
            continue
        alike += 1
        changed += _changed(replica, old, new)
    return CapacityChanges(
        total=_pool(None, before.replicas, after.replicas),
        pools=tuple(_pool(name, then.get(name, ()), now.get(name, ())) for name in names),
        ranks=tuple(sorted(changed, key=lambda each: (each.pool or "", each.replica, each.dp_rank))),
        compared=alike,
        incomparable=incomparable,
    )


def is_beyond(before: int, after: int) -> bool:
    """Tell whether tokens changed by more than the tolerance of the smaller number, whichever side it is on."""
    return abs(after - before) > TOLERANCE * min(before, after)


def _ranks(before: Fleet, after: Fleet) -> Iterator[tuple[Replica, Engine, Engine]]:
    """Yield the ranks whose tokens both sides know."""
    for then, now in pairs(before, after):
        if not (then.fresh and now.fresh):
            continue
        known = {engine.dp_rank: engine for engine in then.engines if engine.kv_cache_size_tokens is not None}
        for engine in now.engines:
            if engine.dp_rank in known and engine.kv_cache_size_tokens is not None:
                yield now, known[engine.dp_rank], engine


def _changed(replica: Replica, old: Engine, new: Engine) -> Iterator[RankChange]:
    before, after = old.kv_cache_size_tokens, new.kv_cache_size_tokens
    if before is not None and after is not None and is_beyond(before, after):
        yield RankChange(replica.id, new.dp_rank, replica.pool, before, after, new.basis is Basis.ASSUMED)


def _by_pool(fleet: Fleet) -> Mapping[str | None, list[Replica]]:
    pools: dict[str | None, list[Replica]] = defaultdict(list)
    for replica in fleet.replicas:
        pools[replica.pool].append(replica)
    return pools


def _pool(name: str | None, before: Sequence[Replica], after: Sequence[Replica]) -> PoolCapacity:
    return PoolCapacity(name, _amount(before), _amount(after), _known(before) == _known(after))


def _known(replicas: Iterable[Replica]) -> set[tuple[str, int]]:
    """Return the ranks that are in the sum of tokens."""
    return {
        (replica.id, engine.dp_rank)
        for replica in replicas
        if replica.fresh and not replica.is_second_address
        for engine in replica.engines
        if engine.kv_cache_size_tokens is not None
    }


def _amount(replicas: Iterable[Replica]) -> Amount:
    """Add up the ranks of some replicas, and count what is not in the sums."""
    counted = [replica for replica in replicas if not replica.is_second_address]
    engines = [engine for replica in counted if replica.fresh for engine in replica.engines]
    known = [engine for engine in engines if engine.kv_cache_size_tokens is not None]
    sizes = [engine.kv_cache_bytes for engine in engines if engine.kv_cache_bytes is not None]
    return Amount(
        ranks=len(engines),
        tokens=sum(engine.kv_cache_size_tokens or 0 for each in counted if each.fresh for engine in each.adding_engines)
        if known
        else None,
        bytes=sum(sizes) if sizes else None,
        unknown=len(engines) - len(known),
        unsized=len(engines) - len(sizes),
        silent=sum(not (replica.fresh and replica.engines) for replica in counted),
        basis=max((engine.basis for engine in known), key=_WEAKNESS.index, default=Basis.UNKNOWN),
    )
