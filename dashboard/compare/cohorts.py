"""Which documents go together: those that do not contradict each other."""

from collections.abc import Sequence

import numpy as np

from dashboard.compare.encoding import MISSING, NULL, Codes, split

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def group(codes: Codes, replicas: Sequence[int]) -> list[list[int]]:
    """Group the rows of `codes` into cohorts, the largest first; `replicas[i]` is how many hold row i.

    From the most completely read row to the least, each joins the largest cohort that it does not
    contradict, else begins one. Inside a cohort the rows keep that order. Equals keep the order of the rows.
    """
    complete = (codes >= NULL).sum(axis=1).tolist()
    order = sorted(range(len(replicas)), key=lambda row: (-complete[row], -replicas[row]))
    against = contradictions(codes)
    cohorts: list[list[int]] = []
    sizes: list[int] = []
    excluded: list[int] = []  # per cohort the bit set of rows that contradict a member
    for row in order:
        fits = [index for index, rows in enumerate(excluded) if not rows >> row & 1]
        if fits:
            joined = max(fits, key=lambda index: (sizes[index], -index))
            cohorts[joined].append(row)
            sizes[joined] += replicas[row]
            excluded[joined] |= against[row]
        else:
            cohorts.append([row])
            sizes.append(replicas[row])
            excluded.append(against[row])
    return [cohorts[index] for index in sorted(range(len(cohorts)), key=lambda index: -sizes[index])]


def contradictions(codes: Codes) -> list[int]:
    """Return for every row the rows that contradict it anywhere, as a bit set."""
    against = [0] * len(codes)
    for column in codes[:, split(codes)].T.tolist():
        for row, others in enumerate(apart(column)):
            against[row] |= others
    return against


def apart(column: Sequence[int]) -> list[int]:
    """Return for every row of one column the rows that tell another value, as a bit set."""
    holders: dict[int, int] = {}
    everyone = 0
    for row, code in enumerate(column):
        if code >= NULL:
            holders[code] = holders.get(code, 0) | 1 << row
            everyone |= 1 << row
    others = {code: everyone ^ held for code, held in holders.items()}
    return [others.get(code, 0) for code in column]


def together(codes: Codes) -> Codes:
    """Return what the rows of one cohort tell together. They do not contradict each other."""
    return np.asarray(codes.max(axis=0, initial=MISSING), dtype=np.int32)


def letter(index: int) -> str:
    """Name the cohort at a place in the order of size: A to Z, then AA, AB and so on."""
    name = _LETTERS[index % 26]
    return letter(index // 26 - 1) + name if index >= len(_LETTERS) else name
