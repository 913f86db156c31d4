"""Finds engines with much less or more KV cache than the median of their pool and kind of device."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from statistics import median
from typing import TypeAlias

from dashboard.fleet import Replica

TOLERANCE = 0.10  # share of the median; a proposal, no source gives one
FEWEST = 3  # engines of one kind that make a median worth naming
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
    counts = _count(kinds, values)
    middle = _medians(counts)
    split = _tied(counts, middle, tolerance)
    shares = {
        (kind, value): value / middle[kind] - 1 for kind, value in counts if kind not in split and middle.get(kind)
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
    counts = _count(kinds, values)
    return _tied(counts, _medians(counts, fewest), tolerance)


def medians(
    kinds: Sequence[Hashable], values: Sequence[float | None], fewest: int = FEWEST
) -> Mapping[Hashable, float]:
    """Return the median per kind that has at least so many known values."""
    return _medians(_count(kinds, values), fewest)


def _count(kinds: Sequence[Hashable], values: Sequence[float | None]) -> _Counts:
    """Count equal values of a kind: of thousands of engines few are different."""
    return {
        (kind, value): number
        for (kind, value), number in Counter(zip(kinds, values, strict=True)).items()
        if value is not None
    }


def _tied(counts: _Counts, middle: Mapping[Hashable, float], tolerance: float) -> frozenset[Hashable]:
    near: Counter[Hashable] = Counter()
    for (kind, value), number in counts.items():
        if middle.get(kind):
            near[kind] += number if abs(value / middle[kind] - 1) <= tolerance else -number
    return frozenset(kind for kind, more in near.items() if more < 0)


def _medians(counts: _Counts, fewest: int = FEWEST) -> Mapping[Hashable, float]:
    known: dict[Hashable, list[float]] = {}
    for (kind, value), number in counts.items():
        known.setdefault(kind, []).extend([value] * number)
    return {kind: float(median(own)) for kind, own in known.items() if len(own) >= fewest}
