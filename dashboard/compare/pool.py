"""Compares the replicas of one pool: cohorts, differences, equal settings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dashboard.compare.cohorts import (
    contradicting_rows,
    give_letters,
    group_rows,
    merge_rows,
    minimal_cover,
    order_keys,
)
from dashboard.compare.encoding import NULL, Codes, encode, has_contradiction, is_comparable, missing_code
from dashboard.compare.prefix import PREFIX_PATHS
from dashboard.fleet import (
    CodeTable,
    Cohort,
    Difference,
    Document,
    Pool,
    Replica,
    Role,
    Setting,
    SettingValue,
    State,
    ValueCount,
)
from dashboard.vllm.canonical import FILLED_IN_LATER

MAJORITY_OF = 3  # replicas at least: of two replicas neither is the majority
COMPARED_AT_LEAST = 2  # replicas: a setting of one replica is compared with nothing


def compare_pool(
    name: str,
    role: Role,
    replicas: Sequence[Replica],
    documents: Mapping[str, Document],
    ignore: Sequence[str] = (),
    letters: Mapping[str, str] = MappingProxyType({}),
) -> Pool:
    """Compare the replicas of one pool. Their order and that of `documents` has no meaning.

    `ignore` has globs over paths (`*` also matches dots): a matching path that would differ is in `Pool.ignored`
    instead. `letters` has the known letters of cohorts: see `give_letters`. Stale replicas are in cohorts, but values
    count fresh ones only. Without fresh ones the last documents are compared and nothing has a majority. `Pool.equal`
    counts paths that at least two replicas report, all with one value.
    """
    members: dict[str, list[str]] = {}  # by document
    fresh: Counter[str] = Counter()
    for replica in replicas:
        if replica.document is not None:
            members.setdefault(replica.document, []).append(replica.id)
            fresh[replica.document] += replica.fresh
    keys = tuple(sorted(members))
    read = [documents[key] for key in keys]
    table = encode([document.settings for document in read])
    sizes = np.array([len(members[key]) for key in keys], dtype=np.int64)
    fresh_sizes = np.array([fresh[key] for key in keys], dtype=np.int64)
    active = fresh_sizes > 0 if fresh_sizes.any() else np.ones(len(read), dtype=bool)
    contradicted = [table.paths[column] for column in np.flatnonzero(has_contradiction(table.codes))]
    matching = [path for path in contradicted if any(fnmatchcase(path, glob) for glob in ignore)]
    ignored = np.isin(table.paths, matching)
    differing = has_contradiction(table.codes[active]) & ~ignored
    groups, distinctions = _cohorts(table, ~ignored, sizes.tolist())
    given = give_letters([[keys[row] for row in rows] for rows, _ in groups], letters)
    cohorts, places = [], [0] * len(keys)
    for place, (rows, incomplete) in enumerate(groups):
        for row in rows:
            places[row] = place
        by_replica = {replica: keys[row] for row in rows for replica in members[keys[row]]}
        cohort = Cohort(
            letter=given[place],
            document=keys[rows[0]],
            documents=tuple(keys[row] for row in rows),
            replicas=tuple(sorted(by_replica)),
            settings=_union([read[row].settings for row in rows]),
            read_in_part=tuple(sorted(replica for row in incomplete for replica in members[keys[row]])),
            distinguishing=distinctions[place],
            documents_by_replica=by_replica,
        )
        cohorts.append(cohort)
    counted = fresh_sizes if fresh_sizes.any() else sizes
    reporting = counted[active] @ (table.codes[active] >= NULL)
    return Pool(
        name=name,
        role=role,
        replicas=tuple(sorted(replica.id for replica in replicas)),
        fresh=sum(replica.fresh for replica in replicas),
        majority_document=next((key for key in fresh if is_majority(fresh[key], fresh.total())), None),
        cohorts=tuple(cohorts),
        differences=_differences(read, table, np.flatnonzero(differing).tolist(), fresh_sizes.tolist(), places, given),
        equal=int(((reporting >= COMPARED_AT_LEAST) & ~(differing | ignored)).sum()),
        identity=max((len(replica.identity) for replica in replicas), default=0),
        ignored=tuple(matching),
        documents=keys,
        table=table,
    )


def is_majority(count: int, total: int) -> bool:
    """Return whether `count` of `total` replicas are a majority: more than half of at least three."""
    return total >= MAJORITY_OF and 2 * count > total


def _cohorts(
    table: CodeTable, compared: NDArray[np.bool_], sizes: Sequence[int]
) -> tuple[list[tuple[list[int], list[int]]], list[dict[str, SettingValue]]]:
    """Return the rows of each cohort and which of them are incomplete, the largest cohort first; and distinctions.

    Equally large ones are in the order of the values in which documents differ: the same on other replicas.
    """
    codes = table.codes[:, compared]
    paths = [table.paths[column] for column in np.flatnonzero(compared).tolist()]
    columns = _differing(codes, paths)
    groups = group_rows(codes, sizes, order_keys(codes, columns, table.values))
    unions = np.array([merge_rows(codes[rows]) for rows in groups], dtype=np.int32).reshape(len(groups), codes.shape[1])
    keys = order_keys(unions, columns, table.values)
    order = sorted(range(len(groups)), key=lambda place: (-sum(sizes[row] for row in groups[place]), keys[place]))
    cohorts = []
    for place in order:
        whole = (unions[place] >= NULL).sum()
        cohorts.append((groups[place], [row for row in groups[place] if (codes[row] >= NULL).sum() < whole]))
    return cohorts, _distinctions(unions[order], paths, table.values)


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


def _differences(
    documents: Sequence[Document],
    table: CodeTable,
    columns: Sequence[int],
    fresh: Sequence[int],
    places: Sequence[int],
    letters: Sequence[str],
) -> tuple[Difference, ...]:
    """Return the differences in some columns. `fresh` and the `places` of cohorts are by document.

    `letters` are by place.
    """
    found = []
    for column in columns:
        path = table.paths[column]
        counts: dict[int, int] = {}  # by code
        holding: dict[int, set[int]] = {}  # places of cohorts by code
        rows = zip(documents, table.codes[:, column].tolist(), fresh, places, strict=True)
        for document, reported, number, place in rows:
            code = reported or missing_code(document.version, path)
            counts[code] = counts.get(code, 0) + number
            holding.setdefault(code, set()).add(place)
        values = table.values
        # The most frequent value first, then the states without a value.
        order = sorted(counts, key=lambda code: (code < NULL, -counts[code], min(holding[code]), values[code]))
        counted = [code for code in order if code >= NULL]
        total, first = sum(counts[code] for code in counted), counted[0]
        majority = values[first] if is_majority(counts[first], total) else None
        by_value = (
            ValueCount(*values[code], counts[code], tuple(letters[place] for place in sorted(holding[code])))
            for code in order
        )
        difference = Difference(path, majority, tuple(by_value))
        found.append((path not in PREFIX_PATHS, total - counts[first], path, difference))
    return tuple(difference for *_, difference in sorted(found, key=lambda entry: entry[:3]))
