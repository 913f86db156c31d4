"""Compares the replicas of one pool: cohorts, differences, and the values of one setting."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dashboard.compare.cohorts import contradicting_rows, group_rows, letter, merge_rows, minimal_cover, order_keys
from dashboard.compare.encoding import (
    NULL,
    VALUELESS,
    Codes,
    CodeTable,
    encode,
    has_contradiction,
    is_comparable,
    lookup_setting,
    missing_code,
)
from dashboard.compare.prefix import PREFIX_PATHS
from dashboard.fleet import Cohort, Difference, Document, Pool, Role, Setting, SettingValue, Source, State, ValueCount
from dashboard.vllm.canonical import FILLED_IN_LATER

MAJORITY_OF = 3  # replicas at least: of two replicas neither is the majority
COMPARED_AT_LEAST = 2  # replicas: a setting of one replica is compared with nothing


class Member(NamedTuple):
    """A replica of a pool: its document if it was ever read, and how many identity settings it has."""

    id: str
    document: str | None
    fresh: bool
    identity: int


class ValueHolders(NamedTuple):
    """A value of a path, or a state without one: its replicas, their cohorts, and the sources that reported it.

    Stale replicas count with their last value.
    """

    value: SettingValue
    replicas: tuple[str, ...]
    cohorts: tuple[str, ...]
    sources: tuple[Source, ...]


class _Documents(NamedTuple):
    """The documents of a pool in the order of their ids: per document its replicas and the number of fresh ones."""

    documents: tuple[Document, ...]
    replicas: tuple[tuple[str, ...], ...]
    fresh: NDArray[np.int64]
    table: CodeTable


def compare_pool(
    name: str,
    role: Role,
    members: Sequence[Member],
    documents: Mapping[str, Document],
    ignore: Sequence[str] = (),
) -> Pool:
    """Compare the replicas of one pool. The order of `members` and `documents` has no meaning.

    `ignore` has globs over paths (`*` also matches dots): a matching path that would differ is in `Pool.ignored`
    instead. Stale members are in cohorts, but values count fresh ones only. Without fresh members the
    last documents are compared and nothing has a majority. `Pool.equal` counts paths that at least two replicas
    report, all with one value.
    """
    read = _read(members, documents)
    active = read.fresh > 0 if read.fresh.any() else np.ones(len(read.documents), dtype=bool)
    contradicted = (read.table.paths[column] for column in np.flatnonzero(has_contradiction(read.table.codes)))
    matching = [path for path in contradicted if any(fnmatchcase(path, glob) for glob in ignore)]
    ignored = np.isin(read.table.paths, matching)
    differing = has_contradiction(read.table.codes[active]) & ~ignored
    cohorts, places = _cohorts(read, ~ignored)
    return Pool(
        name=name,
        role=role,
        replicas=tuple(sorted(member.id for member in members)),
        fresh=sum(member.fresh for member in members),
        majority_document=_majority_document(read),
        cohorts=tuple(cohorts),
        differences=_differences(read, np.flatnonzero(differing), places),
        equal=_count_equal(read, active, differing | ignored),
        identity=max((member.identity for member in members), default=0),
        ignored=tuple(matching),
    )


def is_majority(count: int, total: int) -> bool:
    """Return whether `count` of `total` replicas are a majority: more than half of at least three."""
    return total >= MAJORITY_OF and 2 * count > total


def group_by_value(pool: Pool, documents: Mapping[str, Document], path: str) -> tuple[ValueHolders, ...]:
    """Return the values of a path, the most frequent first, then the states without a value.

    Every replica that was ever read is in exactly one of them.
    """
    found: dict[SettingValue, list[tuple[str, str, Source | None]]] = {}  # replica, cohort, source
    for cohort in pool.cohorts:
        for replica, key in cohort.documents_by_replica.items():
            setting = lookup_setting(documents[key].settings, path)
            if setting is None:
                value = SettingValue("null", VALUELESS[missing_code(documents[key].version, path)])
            else:
                value = SettingValue(setting.value, setting.state)
            found.setdefault(value, []).append((replica, cohort.letter, setting.source if setting else None))
    groups = []
    for value, holders in found.items():
        replicas, letters, known = zip(*holders, strict=True)
        sources = tuple(source for source in Source if source in known)
        groups.append(ValueHolders(value, tuple(sorted(replicas)), tuple(dict.fromkeys(letters)), sources))
    return tuple(
        sorted(groups, key=lambda each: (not is_comparable(each.value.state), -len(each.replicas), each.value))
    )


def _read(members: Sequence[Member], documents: Mapping[str, Document]) -> _Documents:
    replicas: dict[str, list[str]] = {}
    fresh: Counter[str] = Counter()
    for member in members:
        if member.document is not None:
            replicas.setdefault(member.document, []).append(member.id)
            fresh[member.document] += member.fresh
    ids = sorted(replicas)
    return _Documents(
        documents=tuple(documents[key] for key in ids),
        replicas=tuple(tuple(replicas[key]) for key in ids),
        fresh=np.array([fresh[key] for key in ids], dtype=np.int64),
        table=encode([documents[key].settings for key in ids]),
    )


def _count_equal(read: _Documents, active: NDArray[np.bool_], excluded: NDArray[np.bool_]) -> int:
    all_replicas = np.array([len(replicas) for replicas in read.replicas], dtype=np.int64)
    replicas = read.fresh if read.fresh.any() else all_replicas
    reporting = replicas[active] @ (read.table.codes[active] >= NULL)
    return int(((reporting >= COMPARED_AT_LEAST) & ~excluded).sum())


def _majority_document(read: _Documents) -> str | None:
    counts = read.fresh.tolist()
    found = (
        document.id for document, fresh in zip(read.documents, counts, strict=True) if is_majority(fresh, sum(counts))
    )
    return next(found, None)


def _cohorts(read: _Documents, compared: NDArray[np.bool_]) -> tuple[list[Cohort], NDArray[np.int64]]:
    """Return the cohorts, the largest first, and for every document the place of its cohort.

    Equally large ones are in the order of the values in which documents differ. So their letters stay through a restart
    and a change on all replicas.
    """
    codes, sizes = read.table.codes[:, compared], [len(replicas) for replicas in read.replicas]
    paths = [read.table.paths[column] for column in np.flatnonzero(compared).tolist()]
    columns = _differing(codes, paths)
    groups = group_rows(codes, sizes, order_keys(codes, columns, read.table.values))
    unions = np.array([merge_rows(codes[rows]) for rows in groups], dtype=np.int32).reshape(len(groups), codes.shape[1])
    keys = order_keys(unions, columns, read.table.values)
    order = sorted(range(len(groups)), key=lambda place: (-sum(sizes[row] for row in groups[place]), keys[place]))
    groups, unions = [groups[place] for place in order], unions[order]
    distinctions = _distinctions(unions, paths, read.table.values)
    places = np.zeros(len(read.documents), dtype=np.int64)
    cohorts = []
    for place, rows in enumerate(groups):
        places[rows] = place
        whole = (unions[place] >= NULL).sum()
        incomplete = [row for row in rows if (codes[row] >= NULL).sum() < whole]
        cohorts.append(_cohort(read, letter(place), rows, incomplete, distinctions[place]))
    return cohorts, places


def _cohort(
    read: _Documents,
    name: str,
    rows: Sequence[int],
    incomplete: Sequence[int],
    distinguishing: Mapping[str, SettingValue],
) -> Cohort:
    by_replica = {replica: read.documents[row].id for row in rows for replica in read.replicas[row]}
    return Cohort(
        letter=name,
        document=read.documents[rows[0]].id,
        documents=tuple(read.documents[row].id for row in rows),
        replicas=tuple(sorted(by_replica)),
        settings=_union([read.documents[row].settings for row in rows]),
        read_in_part=tuple(sorted(replica for row in incomplete for replica in read.replicas[row])),
        distinguishing=distinguishing,
        documents_by_replica=by_replica,
    )


def _union(documents: Sequence[Mapping[str, Setting]]) -> Mapping[str, Setting]:
    """Return the settings of several documents: of each path the first value, else the first state."""
    if len(documents) == 1:
        return documents[0]
    union: dict[str, Setting] = {}
    with_value: set[str] = set()
    for settings in documents:
        for path, setting in settings.items():
            is_value = is_comparable(setting.state) and not (setting.state is State.NULL and path in FILLED_IN_LATER)
            if path not in union or (is_value and path not in with_value):
                union[path] = setting
            if is_value:
                with_value.add(path)
    return union


def _differing(codes: Codes, paths: Sequence[str]) -> list[int]:
    """Return the columns with several values, the best known settings first."""

    def preference(column: int) -> tuple[int, int, str]:
        path = paths[column]
        return PREFIX_PATHS.index(path) if path in PREFIX_PATHS else len(PREFIX_PATHS), len(path), path

    return sorted(np.flatnonzero(has_contradiction(codes)).tolist(), key=preference)


def _distinctions(unions: Codes, paths: Sequence[str], values: Sequence[SettingValue]) -> list[dict[str, SettingValue]]:
    """Return for every cohort the fewest settings that distinguish it from all others, the best known first."""
    candidates = _differing(unions, paths)
    masks = [contradicting_rows(unions[:, column].tolist()) for column in candidates]
    all_cohorts = (1 << len(unions)) - 1
    distinctions = []
    for cohort, codes in enumerate(unions):
        cover = minimal_cover([mask[cohort] for mask in masks], all_cohorts & ~(1 << cohort))
        distinctions.append({paths[column]: values[codes[column]] for column in (candidates[place] for place in cover)})
    return distinctions


def _differences(read: _Documents, columns: NDArray[np.intp], places: NDArray[np.int64]) -> tuple[Difference, ...]:
    found = []
    for column in columns.tolist():
        path = read.table.paths[column]
        values = _value_counts(read, column, places.tolist())
        counted = [value for value in values if is_comparable(value.state)]
        total = sum(value.count for value in counted)
        first = counted[0]
        majority = SettingValue(first.value, first.state) if is_majority(first.count, total) else None
        found.append((path not in PREFIX_PATHS, total - first.count, path, Difference(path, majority, values)))
    return tuple(difference for *_, difference in sorted(found, key=lambda entry: entry[:3]))


def _value_counts(read: _Documents, column: int, places: Sequence[int]) -> tuple[ValueCount, ...]:
    """Count the replicas of every value of a path, the most first, then the states without a value."""
    counts: dict[int, int] = {}
    cohorts: dict[int, set[int]] = {}
    rows = zip(read.documents, read.table.codes[:, column].tolist(), read.fresh.tolist(), places, strict=True)
    for document, reported, fresh, place in rows:
        code = reported or missing_code(document.version, read.table.paths[column])
        counts[code] = counts.get(code, 0) + fresh
        cohorts.setdefault(code, set()).add(place)
    values = read.table.values
    order = sorted(counts, key=lambda code: (code < NULL, -counts[code], min(cohorts[code]), values[code]))
    return tuple(ValueCount(*values[code], counts[code], tuple(map(letter, sorted(cohorts[code])))) for code in order)
