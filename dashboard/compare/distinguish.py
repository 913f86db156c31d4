"""The fewest settings that tell a cohort from all others: a smallest hitting set."""

from collections.abc import Iterator, Sequence

EXACT_SIZE = 3  # more settings than these are no longer read at a glance
# Settings times cohorts up to which the search is exact: some 60 settings that tell 60 cohorts apart in
# different ways. Pools beyond that are no fleet that somebody keeps in step.
EXACT_WORK = 4096


def fewest(masks: Sequence[int], others: int) -> tuple[int, ...]:
    """Return the places of the fewest masks that together cover every bit of `others`.

    The masks stand in order of preference; among equally few the first ones win. Exact up to
    `EXACT_SIZE` of them, beyond that each time the mask that covers most. All masks together cover `others`.
    """
    if not others:
        return ()
    competing = _competing(masks)
    if others in competing:
        return (competing[others],)
    by_place = {place: mask for mask, place in competing.items()}
    if len(by_place) * others.bit_count() <= EXACT_WORK:
        order = _scarcest_first(by_place, others)
        for size in range(2, EXACT_SIZE + 1):
            found = [tuple(sorted(cover)) for cover in _covers(by_place, others, order, size)]
            if found:
                return min(found)
    return _greedy(by_place, others)


def _competing(masks: Sequence[int]) -> dict[int, int]:
    """Return mask -> place, the first place of equal masks."""
    first: dict[int, int] = {}
    for place, mask in enumerate(masks):
        first.setdefault(mask, place)
    return first


def _scarcest_first(masks: dict[int, int], others: int) -> list[tuple[int, list[int]]]:
    """Return (bit, places of the masks that cover it): the bits that fewest cover first."""
    bits = [1 << index for index in range(others.bit_length()) if others >> index & 1]
    covering = [(bit, [place for place, mask in masks.items() if mask & bit]) for bit in bits]
    return sorted(covering, key=lambda bit_and_places: len(bit_and_places[1]))


def _covers(
    masks: dict[int, int], missing: int, order: list[tuple[int, list[int]]], size: int
) -> Iterator[tuple[int, ...]]:
    """Yield the covers of `missing` by at most `size` masks; every one holds a mask for the scarcest bit."""
    if not missing:
        yield ()
    elif size:
        _, places = next(entry for entry in order if entry[0] & missing)
        for place in places:
            for rest in _covers(masks, missing & ~masks[place], order, size - 1):
                yield (place, *rest)


def _greedy(masks: dict[int, int], others: int) -> tuple[int, ...]:
    chosen: list[int] = []
    while others:
        best = max(masks, key=lambda place: ((masks[place] & others).bit_count(), -place))
        chosen.append(best)
        others &= ~masks[best]
    return tuple(sorted(chosen))
