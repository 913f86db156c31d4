"""One pool, compared: its cohorts, what differs between them, and how much is equal."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dashboard.compare.cohorts import apart, group, letter, together
from dashboard.compare.distinguish import fewest
from dashboard.compare.encoding import NULL, Codes, Table, Unsupported, encode, split, votes, why_missing
from dashboard.compare.prefix import PREFIX_PATHS
from dashboard.fleet import (
    Cohort,
    Difference,
    Distinction,
    Document,
    Pool,
    Role,
    Setting,
    SettingValue,
    State,
    ValueCount,
)
from dashboard.vllm.canonical import FILLED_IN_LATER
from dashboard.vllm.versions import is_unsupported

MAJORITY_OF = 3  # replicas at least: of two that disagree nobody knows which is right
COMPARED_AT_LEAST = 2  # replicas: what only one of them tells is compared with nothing


class Member(NamedTuple):
    """A replica of a pool: its document if it was ever read, and how many identity settings it has."""

    id: str
    document: str | None
    fresh: bool
    identity: int


class _Read(NamedTuple):
    """The documents of a pool in the order of their ids, who holds them, and what they tell."""

    documents: tuple[Document, ...]
    held: tuple[tuple[str, ...], ...]  # per document the ids of its replicas
    fresh: NDArray[np.int64]  # per document how many of them are fresh
    table: Table
    filled_in_later: Collection[str]


def compare_pool(
    name: str,
    role: Role,
    members: Sequence[Member],
    documents: Mapping[str, Document],
    *,
    ignore: Sequence[str] = (),
    unsupported: Unsupported = is_unsupported,
    filled_in_later: Collection[str] = FILLED_IN_LATER,
) -> Pool:
    """Compare the replicas of one pool. The order of `members` and `documents` means nothing.

    `ignore` holds globs over paths (`*` also matches dots): a path that would differ and matches one is
    listed in `Pool.ignored` instead. Stale members stand in cohorts, but values count fresh ones only; when
    no member is fresh, the documents that were last read are compared, and there is no majority.
    `Pool.equal` counts the paths of which at least two replicas tell, all of them the same.
    """
    read = _read(members, documents, filled_in_later)
    active = read.fresh > 0 if read.fresh.any() else np.ones(len(read.documents), dtype=bool)
    matching = [path for path, differs in _by_path(read, split(read.table.codes)) if differs and _matches(path, ignore)]
    ignored = np.isin(read.table.paths, matching)
    differing = split(read.table.codes[active]) & ~ignored
    cohorts, places = _cohorts(read, ~ignored)
    return Pool(
        name=name,
        role=role,
        replicas=tuple(sorted(member.id for member in members)),
        fresh=sum(member.fresh for member in members),
        majority_document=_majority_document(read),
        cohorts=tuple(cohorts),
        differences=_differences(read, np.flatnonzero(differing), places, unsupported),
        equal=_count_equal(read, active, differing | ignored),
        identity=max((member.identity for member in members), default=0),
        ignored=tuple(matching),
    )


def _read(members: Sequence[Member], documents: Mapping[str, Document], filled_in_later: Collection[str]) -> _Read:
    held: dict[str, list[str]] = {}
    fresh: Counter[str] = Counter()
    for member in members:
        if member.document is not None:
            held.setdefault(member.document, []).append(member.id)
            fresh[member.document] += member.fresh
    ids = sorted(held)
    return _Read(
        documents=tuple(documents[key] for key in ids),
        held=tuple(tuple(held[key]) for key in ids),
        fresh=np.array([fresh[key] for key in ids], dtype=np.int64),
        table=encode([documents[key].settings for key in ids], filled_in_later),
        filled_in_later=filled_in_later,
    )


def _by_path(read: _Read, flags: NDArray[np.bool_]) -> Iterable[tuple[str, bool]]:
    return zip(read.table.paths, flags.tolist(), strict=True)


def _matches(path: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(path, glob) for glob in globs)


def _count_equal(read: _Read, active: NDArray[np.bool_], apart_from: NDArray[np.bool_]) -> int:
    replicas = read.fresh if read.fresh.any() else np.array([len(held) for held in read.held], dtype=np.int64)
    telling = replicas[active] @ (read.table.codes[active] >= NULL)
    return int(((telling >= COMPARED_AT_LEAST) & ~apart_from).sum())


def _majority_document(read: _Read) -> str | None:
    most = int(read.fresh.argmax()) if read.documents else 0
    has_most = bool(read.documents) and is_majority(int(read.fresh[most]), int(read.fresh.sum()))
    return read.documents[most].id if has_most else None


def is_majority(count: int, total: int) -> bool:
    """Tell whether `count` of `total` replicas are enough to call what they say the majority."""
    return total >= MAJORITY_OF and 2 * count > total


def _cohorts(read: _Read, compared: NDArray[np.bool_]) -> tuple[list[Cohort], NDArray[np.int64]]:
    """Return the cohorts, and for every document the place of its cohort."""
    codes = read.table.codes[:, compared]
    groups = group(codes, [len(held) for held in read.held])
    unions = np.array([together(codes[rows]) for rows in groups], dtype=np.int32).reshape(len(groups), codes.shape[1])
    paths = [path for path, is_compared in _by_path(read, compared) if is_compared]
    distinctions = _distinctions(unions, paths, read.table.told)
    places = np.zeros(len(read.documents), dtype=np.int64)
    cohorts = []
    for place, rows in enumerate(groups):
        places[rows] = place
        whole = (unions[place] >= NULL).sum()
        less = [row for row in rows if (codes[row] >= NULL).sum() < whole]
        cohorts.append(_cohort(read, letter(place), rows, less, distinctions[place]))
    return cohorts, places


def _cohort(
    read: _Read, name: str, rows: Sequence[int], read_in_part: Sequence[int], distinguishing: tuple[Distinction, ...]
) -> Cohort:
    held = {replica: read.documents[row].id for row in rows for replica in read.held[row]}
    return Cohort(
        letter=name,
        document=read.documents[rows[0]].id,
        documents=tuple(read.documents[row].id for row in rows),
        replicas=tuple(sorted(held)),
        settings=_union([read.documents[row].settings for row in rows], read.filled_in_later),
        read_in_part=tuple(sorted(replica for row in read_in_part for replica in read.held[row])),
        distinguishing=distinguishing,
        held=held,
    )


def _union(documents: Sequence[Mapping[str, Setting]], filled_in_later: Collection[str]) -> Mapping[str, Setting]:
    """Return what the documents tell together: of each path the first value, else the first state."""
    if len(documents) == 1:
        return documents[0]
    union: dict[str, Setting] = {}
    values: set[str] = set()
    for settings in documents:
        for path, setting in settings.items():
            is_value = votes(setting.state) and not (setting.state is State.NULL and path in filled_in_later)
            if path not in union or (is_value and path not in values):
                union[path] = setting
            if is_value:
                values.add(path)
    return union


def _distinctions(unions: Codes, paths: Sequence[str], told: Sequence[SettingValue]) -> list[tuple[Distinction, ...]]:
    """Return for every cohort the fewest settings that tell it from all others, best known first."""
    candidates = sorted(np.flatnonzero(split(unions)).tolist(), key=lambda column: _preference(paths[column]))
    masks = [apart(unions[:, column].tolist()) for column in candidates]
    everyone = (1 << len(unions)) - 1
    distinctions = []
    for place, codes in enumerate(unions):
        columns = [candidates[index] for index in fewest([mask[place] for mask in masks], everyone & ~(1 << place))]
        distinctions.append(tuple(Distinction(paths[column], *told[codes[column]]) for column in columns))
    return distinctions


def _preference(path: str) -> tuple[int, int, str]:
    known = PREFIX_PATHS.index(path) if path in PREFIX_PATHS else len(PREFIX_PATHS)
    return known, len(path), path


def _differences(
    read: _Read, columns: NDArray[np.intp], places: NDArray[np.int64], unsupported: Unsupported
) -> tuple[Difference, ...]:
    letters = [letter(place) for place in range(len(read.documents))]
    found = []
    for column in columns.tolist():
        path = read.table.paths[column]
        values = _value_counts(read, column, places.tolist(), letters, unsupported)
        voting = [value for value in values if votes(value.state)]
        total = sum(value.count for value in voting)
        majority = SettingValue(voting[0].value, voting[0].state) if is_majority(voting[0].count, total) else None
        minority = total - voting[0].count
        found.append((path not in PREFIX_PATHS, minority, path, Difference(path, majority, values)))
    return tuple(difference for *_, difference in sorted(found, key=lambda entry: entry[:3]))


def _value_counts(
    read: _Read, column: int, places: Sequence[int], letters: Sequence[str], unsupported: Unsupported
) -> tuple[ValueCount, ...]:
    """Count every value of a path, most first, and after them what has no value."""
    counts: dict[int, int] = {}
    cohorts: dict[int, set[int]] = {}
    rows = zip(read.documents, read.table.codes[:, column].tolist(), read.fresh.tolist(), places, strict=True)
    for document, told_code, fresh, place in rows:
        code = told_code or why_missing(document.version, read.table.paths[column], unsupported)
        counts[code] = counts.get(code, 0) + fresh
        cohorts.setdefault(code, set()).add(place)
    told = read.table.told
    order = sorted(counts, key=lambda code: (code < NULL, -counts[code], min(cohorts[code]), told[code]))
    return tuple(
        ValueCount(*told[code], counts[code], tuple(letters[place] for place in sorted(cohorts[code])))
        for code in order
    )
