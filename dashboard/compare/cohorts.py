"""Groups documents that do not contradict each other into cohorts, and finds what distinguishes one from the others.

That is settings, and properties of its replicas: version, devices, host, start, labels.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from dashboard.compare.encoding import MISSING, NULL, Codes, has_contradiction
from dashboard.fleet import Letters, Replica
from dashboard.fleet.replies import FILE_SCHEME

EXACT_SIZE = 3  # larger covers cannot be read at a glance
# Settings times cohorts up to which the search is exact: about 60 settings of 60 cohorts.
EXACT_WORK = 4096
COHORT_COLOURS = 6  # that pages and exports have for letters, then again from the first
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


def give_letters(cohorts: Sequence[Sequence[str]], known: Mapping[str, str]) -> list[str]:
    """Return the letters of cohorts; each is the ids of its documents, the most complete one first.

    `known` has letters by document, also of documents that are gone. A cohort has the letter of its first document, or
    that of another one. A new cohort gets a letter that none has, of a colour that no other cohort has if there is one:
    so the first comparison of a pool gives A to the first cohort, B to the second, and so on.
    """
    firsts = [(place, documents[0]) for place, documents in enumerate(cohorts)]
    others = [(place, document) for place, documents in enumerate(cohorts) for document in documents[1:]]
    given: dict[int, str] = {}
    taken: set[str] = set()
    for place, document in (*firsts, *others):
        kept = known.get(document)
        if kept is not None and place not in given and kept not in taken:
            given[place] = kept
            taken.add(kept)
    colours = {colour(each) for each in taken}
    taken |= set(known.values())
    unused = (each for each in map(_letter, count()) if each not in taken)
    next_ones: list[str] = []
    for place in range(len(cohorts)):
        if place not in given:
            next_ones += islice(unused, COHORT_COLOURS - len(next_ones))
            chosen = next((each for each in next_ones if colour(each) not in colours), next_ones[0])
            next_ones.remove(chosen)
            colours.add(colour(chosen))
            given[place] = chosen
    return [given[place] for place in range(len(cohorts))]


def all_letters(remembered: Letters, shown: Letters) -> Letters:
    """Return the letters of two times together. A letter that is `shown` on a document is no other document's."""
    together: dict[str, Mapping[str, str]] = {**remembered}
    for pool, letters in shown.items():
        taken = set(letters.values())
        known = remembered.get(pool, {}).items()
        together[pool] = {**{document: each for document, each in known if each not in taken}, **letters}
    return together


def _letter(index: int) -> str:
    """Return A to Z, then AA, AB and so on."""
    name = _LETTERS[index % 26]
    return _letter(index // 26 - 1) + name if index >= len(_LETTERS) else name


def colour(letter: str) -> int:
    """Return the place of a letter among the cohort colours: A is the first, AA follows Z."""
    place = 0
    for char in letter:
        place = place * 26 + ord(char) - ord("A") + 1
    return (place - 1) % COHORT_COLOURS


def minimal_cover(masks: Sequence[int], others: int) -> tuple[int, ...]:
    """Return the indexes of the fewest masks that together cover every bit of `others`; all masks together do.

    Earlier masks are preferred. Exact for up to `EXACT_SIZE` masks, greedy beyond.
    """
    if not others:
        return ()
    first: dict[int, int] = {}
    for place, mask in enumerate(masks):
        first.setdefault(mask, place)
    by_place = {place: mask for mask, place in first.items()}
    for size in range(1, EXACT_SIZE + 1) if len(by_place) * others.bit_count() <= EXACT_WORK else ():
        if found := [tuple(sorted(cover)) for cover in _covers(by_place, others, size)]:
            return min(found)
    return _greedy_cover(by_place, others)


def _covers(masks: dict[int, int], missing: int, size: int) -> Iterator[tuple[int, ...]]:
    """Yield the covers of `missing` by at most `size` masks; each has a mask for its lowest bit."""
    if not missing:
        yield ()
    elif size:
        for place, mask in masks.items():
            if mask & missing & -missing:
                for rest in _covers(masks, missing & ~mask, size - 1):
                    yield (place, *rest)


def _greedy_cover(masks: dict[int, int], others: int) -> tuple[int, ...]:
    chosen: list[int] = []
    while others:
        best = max(masks, key=lambda place: ((masks[place] & others).bit_count(), -place))
        chosen.append(best)
        others &= ~masks[best]
    return tuple(sorted(chosen))


FEWEST = 2  # replicas on either side: of fewer, any property separates by chance
ONE_IN = 10  # a property counts if at most one in so many others has it
TOGETHER = timedelta(hours=1)  # starts within this time are one event, such as a rollout
NAMING = frozenset({"name", "pool", "role", "cluster"})  # labels that group replicas, so they explain nothing


class Trait(NamedTuple):
    """A property of all replicas of a group. Of the others that report it (`known`), `others` have it as well."""

    name: str
    value: str
    others: int
    known: int
    is_label: bool = False


def shared_traits(group: Sequence[Replica], rest: Sequence[Replica]) -> tuple[Trait, ...]:
    """Return the properties that separate a group from the rest, those that the most others lack first.

    A property counts if all of the group have it, at least half of the rest report it, and at most one in ten of
    those, and fewer than the group, have it as well. With fewer than two replicas on either side there is none.
    """
    if min(len(group), len(rest)) < FEWEST:
        return ()
    traits = [
        each
        for each in _traits(group, rest)
        if each.known >= FEWEST and 2 * each.known >= len(rest)
        if ONE_IN * each.others <= each.known and each.others < len(group)
    ]
    return tuple(sorted(traits, key=lambda each: (each.others - each.known, each.is_label)))


def _traits(group: Sequence[Replica], rest: Sequence[Replica]) -> Iterator[Trait]:
    properties: list[tuple[str, Callable[[Replica], str]]] = [
        ("vLLM", lambda each: each.version or ""),
        ("devices", lambda each: ", ".join(sorted({device.name for device in each.devices}))),
        ("host", _host),
    ]
    for name, read in properties:
        values = {read(each) for each in group}
        known = [value for each in rest if (value := read(each))]
        if len(values) == 1 and (value := values.pop()):
            yield Trait(name, value, known.count(value), len(known))
    yield from _start(group, rest)
    for label in sorted(set(group[0].labels) - NAMING):
        value = group[0].labels[label]
        if all(each.labels.get(label) == value for each in group):  # a replica without the label does not have it
            yield Trait(label, value, sum(each.labels.get(label) == value for each in rest), len(rest), is_label=True)


def _start(group: Sequence[Replica], rest: Sequence[Replica]) -> Iterator[Trait]:
    """Yield when all of a group started, if that was together. Others have it if they started together with them."""
    times = sorted(each.started_at for each in group if each.started_at)
    if len(times) == len(group) and times[-1] - times[0] <= TOGETHER:
        known = [each.started_at for each in rest if each.started_at]
        others = sum(times[-1] - TOGETHER <= each <= times[0] + TOGETHER for each in known)
        first, last = (f"{each:%H:%M}" for each in (times[0], times[-1]))
        between = f"{first} to {last}" if first != last else first
        yield Trait("started", f"{times[0]:%Y-%m-%d} {between} UTC", others, len(known))


def _host(replica: Replica) -> str:
    """Return the host of the address; empty for an imported replica."""
    if replica.id.startswith(FILE_SCHEME):
        return ""
    return replica.id.partition("://")[2].partition("/")[0].rpartition(":")[0]
