"""What two fleets hold: frozen values."""

from dataclasses import dataclass
from typing import NamedTuple

from dashboard.fleet import Basis


class Amount(NamedTuple):
    """KV cache of one side: sums over the ranks that are known, None where none is; `basis` is the weakest of tokens.

    `unknown` ranks do not tell tokens, `unsized` do not tell bytes; of `silent` replicas no rank is known now.
    """

    ranks: int = 0
    tokens: int | None = None
    bytes: int | None = None
    unknown: int = 0
    unsized: int = 0
    silent: int = 0
    basis: Basis = Basis.UNKNOWN

    @property
    def is_whole(self) -> bool:
        """Tell whether the tokens of every rank are in the sum."""
        return not self.unknown and not self.silent


class PoolCapacity(NamedTuple):
    """What a pool holds on each side; `pool` is None for replicas without one, and for all together.

    `same_ranks`: the tokens of just the same ranks are known on both sides.
    """

    pool: str | None
    before: Amount
    after: Amount
    same_ranks: bool

    @property
    def share(self) -> float | None:
        """Return by how much the tokens changed, -0.18 for 18 % less; None where the sums are not of one kind.

        They are where all ranks are known, or the same ones, and both are upper bounds or neither is.
        """
        before, after = self.before, self.after
        alike = self.same_ranks or (before.is_whole and after.is_whole)
        bounds = {before.basis is Basis.ASSUMED, after.basis is Basis.ASSUMED}
        if not alike or len(bounds) > 1 or not before.tokens or after.tokens is None:
            return None
        return after.tokens / before.tokens - 1


class RankChange(NamedTuple):
    """A DP rank that holds clearly more or less than before, in tokens."""

    replica: str
    dp_rank: int
    pool: str | None
    before: int
    after: int
    is_at_most: bool

    @property
    def share(self) -> float:
        """Return how far it is above what it held: -0.18 for 18 % less; infinite where that was nothing."""
        return self.after / self.before - 1 if self.before else float("inf")


@dataclass(frozen=True, slots=True)
class CapacityChanges:
    """KV cache by pool and in total, and the ranks whose tokens changed by more than the tolerance.

    `compared` ranks are told on both sides in the same way; of `incomparable` ones only one side tells an upper bound.
    """

    total: PoolCapacity
    pools: tuple[PoolCapacity, ...] = ()
    ranks: tuple[RankChange, ...] = ()
    compared: int = 0
    incomparable: int = 0
