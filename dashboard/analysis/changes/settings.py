"""Compares settings by documents: a document that a thousand replicas share is compared once."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.models import CohortCount, OneSidedSettings, Pools, SettingChanges, SettingGroup
from dashboard.analysis.changes.replicas import is_read, pairs
from dashboard.compare.encoding import NULL, Table, encode, missing_code
from dashboard.compare.prefix import PREFIX_PATHS
from dashboard.fleet import Document, Replica, SettingChange, State, cohort_letters


class _Kind(NamedTuple):
    """Replicas that are compared once: their pools and documents on both sides."""

    pools: Pools
    before: str
    after: str


class _OneSided(NamedTuple):
    """A path with a value on one side only, and the state of the other side."""

    path: str
    is_told_now: bool
    why: State


Members = Mapping[_Kind, Sequence[tuple[Replica, Replica]]]
_Found = Mapping[_Kind, Sequence[SettingChange | _OneSided]]


def setting_changes(before: Fleet, after: Fleet) -> SettingChanges:
    """Compare the settings of the replicas that were read on both sides, pool by pool."""
    both = pairs(before, after)
    members: dict[_Kind, list[tuple[Replica, Replica]]] = defaultdict(list)
    for then, now in both:
        if is_read(then) and is_read(now):
            members[_Kind((then.pool, now.pool), str(then.document), str(now.document))].append((then, now))
    globs = (*before.ignored, *after.ignored)
    found: dict[_Kind, list[SettingChange | _OneSided]] = {}
    ignored: set[str] = set()
    for kind, differences in _differing(members, before.documents, after.documents):
        found[kind] = [each for each in differences if not _matches(each.path, globs)]
        ignored.update(
            each.path for each in differences if isinstance(each, SettingChange) and _matches(each.path, globs)
        )
    return SettingChanges(
        groups=_groups(found, members, before, after),
        no_longer_told=_one_sided(found, members, is_told_now=False),
        now_told=_one_sided(found, members, is_told_now=True),
        ignored=tuple(sorted(ignored)),
        compared=sum(map(len, members.values())),
        unread_before=tuple(sorted(now.id for then, now in both if not is_read(then))),
        unread_after=tuple(sorted(now.id for _, now in both if not is_read(now))),
    )


def _differing(
    members: Members, before: Mapping[str, Document], after: Mapping[str, Document]
) -> Iterator[tuple[_Kind, list[SettingChange | _OneSided]]]:
    """Yield the differences of every kind. Documents with equal settings are not compared."""
    unlike = [kind for kind in members if before[kind.before].settings != after[kind.after].settings]
    rows_before = {key: row for row, key in enumerate(dict.fromkeys(kind.before for kind in unlike))}
    rows_after = {key: row for row, key in enumerate(dict.fromkeys(kind.after for kind in unlike), len(rows_before))}
    table = encode([before[key].settings for key in rows_before] + [after[key].settings for key in rows_after])
    known: dict[tuple[str, str], list[SettingChange | _OneSided]] = {}
    for kind in unlike:
        documents = (kind.before, kind.after)
        if documents not in known:
            rows = (rows_before[kind.before], rows_after[kind.after])
            versions = (before[kind.before].version, after[kind.after].version)
            known[documents] = list(_differences(table, rows, versions))
        yield kind, known[documents]


def _differences(
    table: Table, rows: tuple[int, int], versions: tuple[str | None, str | None]
) -> Iterator[SettingChange | _OneSided]:
    """Yield the paths in which two documents differ; a path without a value on both sides is no difference."""
    then, now = table.codes[rows[0]], table.codes[rows[1]]
    columns = np.flatnonzero((then != now) & ((then >= NULL) | (now >= NULL)))
    for column, old, new in zip(columns.tolist(), then[columns].tolist(), now[columns].tolist(), strict=True):
        path = table.paths[column]
        if old >= NULL and new >= NULL:
            yield SettingChange(path, table.values[old], table.values[new])
        else:
            code, version = (old, versions[0]) if old < NULL else (new, versions[1])
            why = table.values[code or missing_code(version, path)].state
            yield _OneSided(path, old < NULL, why)


def _groups(found: _Found, members: Members, before: Fleet, after: Fleet) -> tuple[SettingGroup, ...]:
    """Group replicas with the same change, then changes on the same replicas."""
    kinds: dict[tuple[Pools, SettingChange], list[_Kind]] = defaultdict(list)
    for kind, differences in found.items():
        for each in differences:
            if isinstance(each, SettingChange):
                kinds[kind.pools, each].append(kind)
    together: dict[tuple[_Kind, ...], list[SettingChange]] = defaultdict(list)
    for (_, change), own in kinds.items():
        together[tuple(own)].append(change)
    sizes = (_pool_sizes(before), _pool_sizes(after))
    letters = (cohort_letters(before.pools), cohort_letters(after.pools))
    groups = []
    for holders, changes in together.items():
        both = [pair for kind in holders for pair in members[kind]]
        pools = holders[0].pools
        starts = [{then.started_at, now.started_at} for then, now in both]
        groups.append(
            SettingGroup(
                pools=pools,
                changes=tuple(sorted(changes, key=lambda each: (_preference(each.path), each))),
                replicas=tuple(sorted(now.id for _, now in both)),
                pool_sizes=(sizes[0][pools[0]], sizes[1][pools[1]]),
                cohorts_before=_cohort_counts((then.id for then, _ in both), letters[0]),
                cohorts_after=_cohort_counts((now.id for _, now in both), letters[1]),
                restarted=sum(None not in times and len(times) > 1 for times in starts),
                start_untold=sum(None in times for times in starts),
            )
        )
    return tuple(sorted(groups, key=_group_place))


def _one_sided(found: _Found, members: Members, *, is_told_now: bool) -> tuple[OneSidedSettings, ...]:
    """Group the settings that only one side reports of the same replicas, for the same reason."""
    kinds: dict[tuple[Pools, str, State], list[_Kind]] = defaultdict(list)
    for kind, differences in found.items():
        for each in differences:
            if isinstance(each, _OneSided) and each.is_told_now is is_told_now:
                kinds[kind.pools, each.path, each.why].append(kind)
    together: dict[tuple[tuple[_Kind, ...], State], list[str]] = defaultdict(list)
    for (_, path, why), own in kinds.items():
        together[tuple(own), why].append(path)
    groups = []
    for (holders, why), paths in together.items():
        replicas = sorted(now.id for kind in holders for _, now in members[kind])
        groups.append(OneSidedSettings(holders[0].pools, tuple(sorted(paths)), tuple(replicas), why))
    return tuple(sorted(groups, key=lambda each: (-len(each.replicas), -len(each.paths), each.paths, each.replicas)))


def _pool_sizes(fleet: Fleet) -> Counter[str | None]:
    return Counter(replica.pool for replica in fleet.replicas if not replica.is_second_address)


def _cohort_counts(replicas: Iterable[str], letters: Mapping[str, str]) -> tuple[CohortCount, ...]:
    numbers = Counter(letters.get(replica, "") for replica in replicas)
    return tuple(CohortCount(letter, numbers[letter]) for letter in sorted(numbers, key=lambda name: (len(name), name)))


def _group_place(group: SettingGroup) -> tuple[object, ...]:
    """Return the sort key: settings that decide prefix sharing first, then the number of replicas."""
    first = group.changes[0]
    decides = min(_preference(each.path)[0] for each in group.changes)
    return (decides, -len(group.replicas), group.pools[1] or "", group.pools[0] or "", first, group.replicas)


def _preference(path: str) -> tuple[int, str]:
    """Return the sort key of a setting: those that decide prefix sharing first, of these the version last."""
    if path not in PREFIX_PATHS:
        return 2, path
    return int(path == PREFIX_PATHS[0]), path


def _matches(path: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(path, glob) for glob in globs)
