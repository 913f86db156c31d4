"""Groups documents that do not contradict each other into cohorts, and finds the settings that distinguish a cohort."""

from collections.abc import Iterator, Sequence

import numpy as np

from dashboard.compare.encoding import MISSING, NULL, Codes, has_contradiction

EXACT_SIZE = 3  # larger covers cannot be read at a glance
# Settings times cohorts up to which the search is exact: about 60 settings of 60 cohorts.
EXACT_WORK = 4096
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def group_rows(codes: Codes, replicas: Sequence[int], keys: Sequence[Sequence[int]]) -> list[list[int]]:
    """Group the rows of `codes` into cohorts, the largest first; `replicas[i]` counts the replicas of row i.

    From the most complete row to the least, each joins the largest cohort that it does not contradict, else starts
    one. Rows of a cohort keep that order. `keys[i]` orders equally complete rows with equally many replicas.
    """
    complete = (codes >= NULL).sum(axis=1).tolist()
    order = sorted(range(len(replicas)), key=lambda row: (-complete[row], -replicas[row], keys[row]))
    against = contradictions(codes)
    cohorts: list[list[int]] = []
    sizes: list[int] = []
    excluded: list[int] = []  # per cohort the bit set of rows that contradict a member
    for row in order:
        candidates = [index for index, rows in enumerate(excluded) if not rows >> row & 1]
        if candidates:
            joined = max(candidates, key=lambda index: (sizes[index], -index))
            cohorts[joined].append(row)
            sizes[joined] += replicas[row]
            excluded[joined] |= against[row]
        else:
            cohorts.append([row])
            sizes.append(replicas[row])
            excluded.append(against[row])
    return [cohorts[index] for index in sorted(range(len(cohorts)), key=lambda index: -sizes[index])]


def contradictions(codes: Codes) -> list[int]:
    """Return for every row the rows that contradict it in any column, as a bit set."""
    against = [0] * len(codes)
    for column in codes[:, has_contradiction(codes)].T.tolist():
        for row, others in enumerate(contradicting_rows(column)):
            against[row] |= others
    return against


def contradicting_rows(column: Sequence[int]) -> list[int]:
    """Return for every row of one column the rows with a different value, as a bit set."""
    rows_by_code: dict[int, int] = {}
    all_rows = 0
    for row, code in enumerate(column):
        if code >= NULL:
            rows_by_code[code] = rows_by_code.get(code, 0) | 1 << row
            all_rows |= 1 << row
    others = {code: all_rows ^ rows for code, rows in rows_by_code.items()}
    return [others.get(code, 0) for code in column]


def order_keys(codes: Codes, columns: Sequence[int], texts: Sequence[tuple[str, ...]]) -> list[list[int]]:
    """Return for every row a key by its values in some columns; `texts[code]` orders values.

    A code has no meaning of its own: only texts order rows in the same way at the next poll.
    """
    ranks = np.zeros(len(texts), dtype=np.int32)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = range(len(texts))
    ranks[:NULL] = -1
    keys: list[list[int]] = ranks[codes[:, columns]].tolist()
    return keys


def merge_rows(codes: Codes) -> Codes:
    """Return the values that the rows of one cohort report together."""
    return np.asarray(codes.max(axis=0, initial=MISSING), dtype=np.int32)


def letter(index: int) -> str:
    """Return the name of the cohort at a place in the order of size: A to Z, then AA, AB and so on."""
    name = _LETTERS[index % 26]
    return letter(index // 26 - 1) + name if index >= len(_LETTERS) else name


def minimal_cover(masks: Sequence[int], others: int) -> tuple[int, ...]:
    """Return the indexes of the fewest masks that together cover every bit of `others`; all masks together do.

    Earlier masks are preferred. Exact for up to `EXACT_SIZE` masks, greedy beyond.
    """
    if not others:
        return ()
    first: dict[int, int] = {}
    for place, mask in enumerate(masks):
        first.setdefault(mask, place)
    if others in first:
        return (first[others],)
    by_place = {place: mask for mask, place in first.items()}
    if len(by_place) * others.bit_count() <= EXACT_WORK:
        order = _rarest_bits_first(by_place, others)
        for size in range(2, EXACT_SIZE + 1):
            found = [tuple(sorted(cover)) for cover in _covers(by_place, others, order, size)]
            if found:
                return min(found)
    return _greedy_cover(by_place, others)


def _rarest_bits_first(masks: dict[int, int], others: int) -> list[tuple[int, list[int]]]:
    """Return each bit with the places of the masks that cover it; the bits with the fewest masks first."""
    bits = [1 << index for index in range(others.bit_length()) if others >> index & 1]
    covering = [(bit, [place for place, mask in masks.items() if mask & bit]) for bit in bits]
    return sorted(covering, key=lambda bit_and_places: len(bit_and_places[1]))


def _covers(
    masks: dict[int, int], missing: int, order: list[tuple[int, list[int]]], size: int
) -> Iterator[tuple[int, ...]]:
    """Yield the covers of `missing` by at most `size` masks; each has a mask for the rarest bit."""
    if not missing:
        yield ()
    elif size:
        _, places = next(entry for entry in order if entry[0] & missing)
        for place in places:
            for rest in _covers(masks, missing & ~masks[place], order, size - 1):
                yield (place, *rest)


def _greedy_cover(masks: dict[int, int], others: int) -> tuple[int, ...]:
    chosen: list[int] = []
    while others:
        best = max(masks, key=lambda place: ((masks[place] & others).bit_count(), -place))
        chosen.append(best)
        others &= ~masks[best]
    return tuple(sorted(chosen))
