"""Finds engines with much less or more KV cache than the median of their pool and kind of device."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from dashboard.fleet import Replica

TOLERANCE = 0.10  # share of the median; a proposal, no source gives one
FEWEST = 3  # engines of one kind that make a median worth naming


class Outlier(NamedTuple):
    """One engine beyond the tolerance: its place in the input, and the share above the median."""

    place: int
    share: float


def devices_of(replica: Replica, dp_rank: int) -> tuple[str, ...]:
    """Return the names of a rank's devices; those of the replica's other ranks where its own are not reported."""
    own = {each.name for each in replica.devices if each.dp_rank == dp_rank}
    return tuple(sorted(own or {each.name for each in replica.devices}))


def outliers(
    kinds: Sequence[Hashable], values: Sequence[float | None], tolerance: float = TOLERANCE
) -> tuple[Outlier, ...]:
    """Return the values beyond `tolerance` of the median of their kind; unknown ones are left out.

    A kind that is tied has no outliers.
    """
    split = tied(kinds, values, tolerance)
    middle = {kind: value for kind, value in medians(kinds, values).items() if kind not in split}
    found = []
    for place, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        if value is None or kind not in middle or not middle[kind]:
            continue
        share = value / middle[kind] - 1
        if abs(share) > tolerance:
            found.append(Outlier(place, share))
    return tuple(found)


def tied(
    kinds: Sequence[Hashable], values: Sequence[float | None], tolerance: float = TOLERANCE
) -> frozenset[Hashable]:
    """Return the kinds of which less than half of the known values are within `tolerance` of the median."""
    near: Counter[Hashable] = Counter()
    middle = medians(kinds, values)
    for kind, value in zip(kinds, values, strict=True):
        if value is not None and middle.get(kind):
            near[kind] += 1 if abs(value / middle[kind] - 1) <= tolerance else -1
    return frozenset(kind for kind, more in near.items() if more < 0)


def medians(kinds: Sequence[Hashable], values: Sequence[float | None]) -> Mapping[Hashable, float]:
    """Return the median per kind that has at least three known values."""
    known: dict[Hashable, list[float]] = {}
    for kind, value in zip(kinds, values, strict=True):
        if value is not None:
            known.setdefault(kind, []).append(value)
    return {kind: float(median(own)) for kind, own in known.items() if len(own) >= FEWEST}
