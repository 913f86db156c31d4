"""Compares settings by documents: a document that a thousand replicas share is compared once."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import NamedTuple, TypeVar

import numpy as np

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.comparison import is_read, letters_of_sides, pairs
from dashboard.analysis.changes.models import OneSidedSettings, Pools, ReplicaPair, SettingChanges, SettingGroup
from dashboard.compare.encoding import NULL, encode, is_comparable, missing_code
from dashboard.compare.equality import BY_PATH, counted
from dashboard.compare.prefix import PREFIX_PATHS
from dashboard.fleet import CodeTable, Document, SettingChange, State
from dashboard.fleet.grouping import grouped


class _DocumentPair(NamedTuple):
    """Replicas that are compared once: their pools and documents on both sides."""

    pools: Pools
    before: str
    after: str


_Key = TypeVar("_Key", bound=Hashable)
MembersByDocuments = Mapping[_DocumentPair, Sequence[ReplicaPair]]


def setting_changes(before: Fleet, after: Fleet) -> SettingChanges:
    """Compare the settings of the replicas that were read on both sides, pool by pool."""
    both = pairs(before, after)
    members: dict[_DocumentPair, list[ReplicaPair]] = defaultdict(list)
    for then, now in both:
        if is_read(then) and is_read(now):
            kind = _DocumentPair((then.pool, now.pool), str(then.document), str(now.document))
            members[kind].append(ReplicaPair(then, now))
    globs = (*before.ignored, *after.ignored)
    changed: list[tuple[_DocumentPair, SettingChange]] = []
    lost: list[tuple[_DocumentPair, tuple[str, State]]] = []
    new: list[tuple[_DocumentPair, tuple[str, State]]] = []
    ignored: set[str] = set()
    for kind, each in _differing(members, before.documents, after.documents):
        is_ignored = any(fnmatchcase(each.path, glob) for glob in globs)
        if _has_both_values(each):
            ignored.update([each.path] if is_ignored else [])
            changed += [(kind, each)] if not is_ignored else []
        elif not is_ignored and is_comparable(each.before.state):
            lost.append((kind, (each.path, each.after.state)))
        elif not is_ignored:
            new.append((kind, (each.path, each.before.state)))
    return SettingChanges(
        groups=tuple(sorted(_groups(changed, members, before, after), key=_group_place)),
        no_longer_reported=_one_sided(lost, members),
        newly_reported=_one_sided(new, members),
        ignored=tuple(sorted(ignored)),
        compared=sum(map(len, members.values())),
        unread_before=tuple(sorted(now.id for then, now in both if not is_read(then))),
        unread_after=tuple(sorted(now.id for _, now in both if not is_read(now))),
    )


def _has_both_values(change: SettingChange) -> bool:
    return is_comparable(change.before.state) and is_comparable(change.after.state)


def _means_the_same(change: SettingChange, before: Document, after: Document) -> bool:
    """Return whether a setting has another spelling only, such as a hub snapshot in place of its id."""
    if change.path not in BY_PATH or not _has_both_values(change):
        return False
    old = counted(change.path, change.before, before.settings)
    new = counted(change.path, change.after, after.settings)
    return old is None or new is None or old == new


def document_changes(before: Document, after: Document) -> tuple[SettingChange, ...]:
    """Return the settings that have another value in one document than in another one."""
    table = encode([before.settings, after.settings])
    found = _differences(table, (0, 1), (before.version, after.version))
    return tuple(sorted(each for each in found if _has_both_values(each) and not _means_the_same(each, before, after)))


def _differing(
    members: MembersByDocuments, before: Mapping[str, Document], after: Mapping[str, Document]
) -> Iterator[tuple[_DocumentPair, SettingChange]]:
    """Yield the differences of every kind of replicas. Documents with equal settings are not compared, others once."""
    unlike = [kind for kind in members if before[kind.before].settings != after[kind.after].settings]
    rows_before = {key: row for row, key in enumerate(dict.fromkeys(kind.before for kind in unlike))}
    rows_after = {key: row for row, key in enumerate(dict.fromkeys(kind.after for kind in unlike), len(rows_before))}
    table = encode([before[key].settings for key in rows_before] + [after[key].settings for key in rows_after])
    known: dict[tuple[str, str], list[SettingChange]] = {}
    for kind in unlike:
        old, new = kind.before, kind.after
        if (old, new) not in known:
            versions = (before[old].version, after[new].version)
            known[old, new] = [
                each
                for each in _differences(table, (rows_before[old], rows_after[new]), versions)
                if not _means_the_same(each, before[old], after[new])
            ]
        yield from ((kind, each) for each in known[old, new])


def _differences(
    table: CodeTable, rows: tuple[int, int], versions: tuple[str | None, str | None]
) -> Iterator[SettingChange]:
    """Yield the paths in which two documents differ; a path without a value on both sides is no difference.

    One without a value on one side has the state there, absent or other.
    """
    then, now = table.codes[rows[0]], table.codes[rows[1]]
    columns = np.flatnonzero((then != now) & ((then >= NULL) | (now >= NULL)))
    for column, old, new in zip(columns.tolist(), then[columns].tolist(), now[columns].tolist(), strict=True):
        path = table.paths[column]
        before, after = (
            table.values[code or missing_code(version, path)]
            for code, version in zip((old, new), versions, strict=True)
        )
        yield SettingChange(path, before, after)


def _grouped(
    found: Iterable[tuple[_DocumentPair, _Key]], kind_of: Callable[[_Key], object] = lambda _: None
) -> Iterator[tuple[Sequence[_DocumentPair], list[_Key]]]:
    """Yield the differences that have the same replicas and pools, and are of the same kind."""
    pairs_of = grouped(((pair.pools, each), pair) for pair, each in found)
    together = grouped(((tuple(own), kind_of(each)), each) for (_, each), own in pairs_of.items())
    return ((own, differences) for (own, _), differences in together.items())


def _groups(
    changed: Iterable[tuple[_DocumentPair, SettingChange]], members: MembersByDocuments, before: Fleet, after: Fleet
) -> Iterator[SettingGroup]:
    sizes = [Counter(each.pool for each in side.replicas if not each.is_second_address) for side in (before, after)]
    letters = letters_of_sides(before, after)
    for kinds, changes in _grouped(changed):
        both = [pair for kind in kinds for pair in members[kind]]
        pools = kinds[0].pools
        starts = [{then.started_at, now.started_at} for then, now in both]
        yield SettingGroup(
            pools=pools,
            changes=tuple(sorted(changes, key=lambda each: (_preference(each.path), each))),
            replicas=tuple(sorted(now.id for _, now in both)),
            pool_sizes=(sizes[0][pools[0]], sizes[1][pools[1]]),
            cohorts_before=_cohort_counts((then.id for then, _ in both), letters[0]),
            cohorts_after=_cohort_counts((now.id for _, now in both), letters[1]),
            restarted=sum(None not in times and len(times) > 1 for times in starts),
            start_unknown=sum(None in times for times in starts),
        )


def _one_sided(
    found: Iterable[tuple[_DocumentPair, tuple[str, State]]], members: MembersByDocuments
) -> tuple[OneSidedSettings, ...]:
    """Group the settings that only one side reports, each with the reason why the other has no value."""
    groups = [
        OneSidedSettings(
            kinds[0].pools,
            tuple(sorted(path for path, _ in same)),
            tuple(sorted(now.id for kind in kinds for _, now in members[kind])),
            same[0][1],
        )
        for kinds, same in _grouped(found, itemgetter(1))
    ]
    return tuple(sorted(groups, key=lambda each: (-len(each.replicas), -len(each.paths), each.paths, each.replicas)))


def _cohort_counts(replicas: Iterable[str], letters: Mapping[str, str]) -> Mapping[str, int]:
    numbers = Counter(letters.get(replica, "") for replica in replicas)
    return {letter: numbers[letter] for letter in sorted(numbers, key=lambda name: (len(name), name))}


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
