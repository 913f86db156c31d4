"""The capacity of each pool: its ranks added up once, with the weakest basis of what was added."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dashboard.capacity.formula import KEEPS_ALL
from dashboard.fleet import Basis
from dashboard.report.capacity.ranks import Rank, counted_once

_WEAKNESS = (Basis.REPORTED, Basis.DERIVED, Basis.ASSUMED)


class Sum(NamedTuple):
    """A sum over ranks; None when no rank is known. `at_most`: one of them is an upper bound."""

    value: float | None
    known: int
    at_most: bool


class PoolCapacity(NamedTuple):
    """One pool. `naive` is blocks x block size over the ranks that tell both it and their tokens themselves.

    `naive_of` is what those ranks hold by their own word. `window` counts (KV cache groups that keep less than
    every token, all groups) of the first of them; `reasons` says why numbers are assumed or unknown, most often first.
    """

    name: str
    ranks: int
    tokens: Sum
    requests: Sum
    bytes: Sum
    not_served: int
    basis: Basis
    naive: int | None
    naive_of: int | None
    window: tuple[int, int]
    reasons: tuple[str, ...]


def pools_of(ranks: Iterable[Rank]) -> tuple[PoolCapacity, ...]:
    """Add up the ranks of every pool, in the order in which the pools come; those without a pool are left out."""
    members: dict[str, list[Rank]] = {}
    for rank in counted_once(ranks):
        if rank.replica.pool is not None:
            members.setdefault(rank.replica.pool, []).append(rank)
    return tuple(_pool(name, pool) for name, pool in members.items())


def _pool(name: str, ranks: Sequence[Rank]) -> PoolCapacity:
    tokens = _sum(
        (_added(rank, rank.engine.kv_cache_size_tokens), rank.engine.basis is Basis.ASSUMED) for rank in ranks
    )
    told = [rank for rank in ranks if _tells_both(rank)]
    bases = {rank.engine.basis for rank in ranks if rank.engine.kv_cache_size_tokens is not None}
    reasons = Counter(rank.engine.reason for rank in ranks if rank.engine.reason)
    return PoolCapacity(
        name=name,
        ranks=len(ranks),
        tokens=tokens,
        requests=_sum((_added(rank, rank.at.requests), rank.at.at_most) for rank in ranks),
        bytes=_sum((rank.engine.kv_cache_bytes, False) for rank in ranks),
        not_served=sum(not rank.at.served for rank in ranks),
        basis=max(bases, key=_WEAKNESS.index, default=Basis.UNKNOWN),
        naive=sum(rank.engine.naive_tokens or 0 for rank in told) if told else None,
        naive_of=sum(rank.engine.kv_cache_size_tokens or 0 for rank in told) if told else None,
        window=_window(told),
        reasons=tuple(reason for reason, _ in reasons.most_common()),
    )


def _added(rank: Rank, held: float | None) -> float | None:
    """Return what a rank adds to its pool: of ranks that share one sum the first adds it."""
    is_counted = rank.engine.shares_sum and rank.engine.dp_rank != rank.replica.engines[0].dp_rank
    return 0 if is_counted and held is not None else held


def _sum(values: Iterable[tuple[float | None, bool]]) -> Sum:
    known = [(value, at_most) for value, at_most in values if value is not None]
    if not known:
        return Sum(None, 0, at_most=False)
    return Sum(sum(value for value, _ in known), len(known), at_most=any(at_most for _, at_most in known))


def _tells_both(rank: Rank) -> bool:
    engine = rank.engine
    is_told = engine.basis is Basis.REPORTED or engine.basis is Basis.DERIVED
    return is_told and engine.naive_tokens is not None and engine.kv_cache_size_tokens is not None


def _window(ranks: Sequence[Rank]) -> tuple[int, int]:
    for rank in ranks:
        groups = [group for group in rank.replica.kv_cache_groups if group.dp_rank == rank.engine.dp_rank]
        if groups:
            return sum(group.spec_type not in KEEPS_ALL for group in groups), len(groups)
    return 0, 0
