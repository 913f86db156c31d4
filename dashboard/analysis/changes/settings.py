"""Which settings changed, by documents: what a thousand replicas share is compared once."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.nouns import OneSidedSettings, Pools, SettingChanges, SettingGroup, Share, ValueChange
from dashboard.analysis.changes.replicas import pairs
from dashboard.compare.encoding import NULL, Table, encode, missing_code
from dashboard.compare.prefix import PREFIX_PATHS
from dashboard.fleet import Document, Replica, ReplicaState, State, cohort_letters
from dashboard.vllm.versions import is_unsupported


class _Kind(NamedTuple):
    """What replicas have in common that are compared once: their pools and their documents."""

    pools: Pools
    before: str
    after: str


Members = dict[_Kind, list[tuple["Replica", "Replica"]]]


class _Difference(NamedTuple):
    """One path of one kind of replicas. The change has a value on both sides, or `why` says why a side has none."""

    path: str
    change: ValueChange | None
    is_told_now: bool
    why: State | None


class _Counts(NamedTuple):
    """What a group says beside its settings."""

    sizes: tuple[Counter[str | None], Counter[str | None]]
    letters: tuple[Mapping[str, str], Mapping[str, str]]


def is_read(replica: Replica) -> bool:
    """Tell whether a side knows the settings of a replica as they are: it was read, and lately."""
    return replica.fresh and replica.document is not None and replica.state is not ReplicaState.DOWN


def setting_changes(before: Fleet, after: Fleet) -> SettingChanges:
    """Compare the settings of the replicas that both sides have and could read, pool by pool."""
    both = pairs(before, after)
    members: Members = defaultdict(list)
    for then, now in both:
        if is_read(then) and is_read(now):
            kind = _Kind((then.pool, now.pool), str(then.document), str(now.document))
            members[kind].append((then, now))
    globs = (*before.ignored, *after.ignored)
    found: dict[_Kind, list[_Difference]] = {}
    ignored: set[str] = set()
    for kind, differences in _differing(members, before.documents, after.documents):
        found[kind] = [each for each in differences if not _matches(each.path, globs)]
        ignored.update(each.path for each in differences if each.change and _matches(each.path, globs))
    counts = _Counts((_sizes(before), _sizes(after)), (cohort_letters(before.pools), cohort_letters(after.pools)))
    return SettingChanges(
        groups=_groups(found, members, counts),
        no_longer_told=_silences(found, members, is_told_now=False),
        now_told=_silences(found, members, is_told_now=True),
        ignored=tuple(sorted(ignored)),
        compared=sum(map(len, members.values())),
        unread_before=tuple(sorted(now.id for then, now in both if not is_read(then))),
        unread_after=tuple(sorted(now.id for _, now in both if not is_read(now))),
    )


def _differing(
    members: Members, before: Mapping[str, Document], after: Mapping[str, Document]
) -> Iterator[tuple[_Kind, list[_Difference]]]:
    """Yield what differs for every kind. Documents that say the same are not compared, whatever they are called."""
    unlike = [kind for kind in members if before[kind.before].settings != after[kind.after].settings]
    rows_before = {key: row for row, key in enumerate(dict.fromkeys(kind.before for kind in unlike))}
    rows_after = {key: row for row, key in enumerate(dict.fromkeys(kind.after for kind in unlike), len(rows_before))}
    told = [before[key].settings for key in rows_before] + [after[key].settings for key in rows_after]
    table = encode(told)
    known: dict[tuple[str, str], list[_Difference]] = {}
    for kind in unlike:
        documents = (kind.before, kind.after)
        if documents not in known:
            rows = (rows_before[kind.before], rows_after[kind.after])
            versions = (before[kind.before].version, after[kind.after].version)
            known[documents] = list(_differences(table, rows, versions))
        yield kind, known[documents]


def _differences(table: Table, rows: tuple[int, int], versions: tuple[str | None, str | None]) -> Iterator[_Difference]:
    """Yield the paths in which two documents differ; where neither has a value there is nothing to tell apart."""
    then, now = table.codes[rows[0]], table.codes[rows[1]]
    columns = np.flatnonzero((then != now) & ((then >= NULL) | (now >= NULL)))
    for column, old, new in zip(columns.tolist(), then[columns].tolist(), now[columns].tolist(), strict=True):
        path = table.paths[column]
        if old >= NULL and new >= NULL:
            yield _Difference(
                path, ValueChange(path, table.values[old], table.values[new]), is_told_now=False, why=None
            )
            continue
        code, version = (old, versions[0]) if old < NULL else (new, versions[1])
        why = table.values[code or missing_code(version, path, is_unsupported)].state
        yield _Difference(path, None, is_told_now=old < NULL, why=why)


def _groups(
    found: Mapping[_Kind, Sequence[_Difference]], members: Members, counts: _Counts
) -> tuple[SettingGroup, ...]:
    """Put replicas together in which a setting changed alike, then settings that changed in the same replicas."""
    kinds: dict[tuple[Pools, ValueChange], list[_Kind]] = defaultdict(list)
    for kind, differences in found.items():
        for each in differences:
            if each.change:
                kinds[kind.pools, each.change].append(kind)
    together: dict[tuple[_Kind, ...], list[ValueChange]] = defaultdict(list)
    for (_, change), holders in kinds.items():
        together[tuple(holders)].append(change)
    groups = (_group(holders, changes, members, counts) for holders, changes in together.items())
    return tuple(sorted(groups, key=_group_place))


def _group(kinds: Sequence[_Kind], changes: Iterable[ValueChange], members: Members, counts: _Counts) -> SettingGroup:
    both = [pair for kind in kinds for pair in members[kind]]
    pools = kinds[0].pools
    return SettingGroup(
        pools=pools,
        changes=tuple(sorted(changes, key=lambda each: (_preference(each.path), each))),
        replicas=tuple(sorted(now.id for _, now in both)),
        pool_sizes=(counts.sizes[0][pools[0]], counts.sizes[1][pools[1]]),
        cohorts_before=_shares((then.id for then, _ in both), counts.letters[0]),
        cohorts_after=_shares((now.id for _, now in both), counts.letters[1]),
        restarted=sum(None not in (started := _starts(pair)) and len(started) > 1 for pair in both),
        start_untold=sum(None in _starts(pair) for pair in both),
    )


def _silences(
    found: Mapping[_Kind, Sequence[_Difference]], members: Members, *, is_told_now: bool
) -> tuple[OneSidedSettings, ...]:
    """Put together the settings that only one side tells of the same replicas, for the same reason."""
    kinds: dict[tuple[Pools, str, State], list[_Kind]] = defaultdict(list)
    for kind, differences in found.items():
        for each in differences:
            if each.why is not None and each.is_told_now is is_told_now:
                kinds[kind.pools, each.path, each.why].append(kind)
    together: dict[tuple[tuple[_Kind, ...], State], list[str]] = defaultdict(list)
    for (_, path, why), holders in kinds.items():
        together[tuple(holders), why].append(path)
    told = [
        OneSidedSettings(
            holders[0].pools,
            tuple(sorted(paths)),
            tuple(sorted(now.id for kind in holders for _, now in members[kind])),
            why,
        )
        for (holders, why), paths in together.items()
    ]
    return tuple(sorted(told, key=lambda each: (-len(each.replicas), -len(each.paths), each.paths, each.replicas)))


def _starts(pair: tuple[Replica, Replica]) -> set[object]:
    return {each.started_at for each in pair}


def _sizes(fleet: Fleet) -> Counter[str | None]:
    return Counter(replica.pool for replica in fleet.replicas if not replica.is_second_address)


def _shares(replicas: Iterable[str], letters: Mapping[str, str]) -> tuple[Share, ...]:
    numbers = Counter(letters.get(replica, "") for replica in replicas)
    return tuple(Share(letter, numbers[letter]) for letter in sorted(numbers, key=lambda name: (len(name), name)))


def _group_place(group: SettingGroup) -> tuple[object, ...]:
    """Sort what decides prefix sharing first, then by how many replicas it is."""
    first = group.changes[0]
    decides = min(_preference(each.path)[0] for each in group.changes)
    return (decides, -len(group.replicas), group.pools[1] or "", group.pools[0] or "", first, group.replicas)


def _preference(path: str) -> tuple[int, str]:
    """Sort the settings that decide prefix sharing first; of these the version last, for it stands for much else."""
    if path not in PREFIX_PATHS:
        return 2, path
    return int(path == PREFIX_PATHS[0]), path


def _matches(path: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(path, glob) for glob in globs)
