"""A fleet over time: how many replicas had what, and marks of what happened. A state lasts until the next change.

A change that is undone within one column of a period (1/COLUMNS of it) is left out: a drawing has no room for it.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from dashboard.fleet import Gap
from dashboard.fleet.grouping import grouped
from dashboard.vllm.versions import build

COLUMNS = 240  # of a period: four pixels each on a wide page
MOST_MARKS = 60  # of one kind in a period; with more, those of one column are one
MARK_COLUMNS = 48
_time = itemgetter(0)  # of a step, and of a change
JOINED = timedelta(hours=6)  # replicas that move to the same settings within this time of each other are one mark
LOADING = timedelta(hours=1)  # a replica may be down for so long before it has its new settings


SameCohort = Callable[[str, str], bool]  # of two documents


class Period(NamedTuple):
    """A range of time."""

    since: datetime
    until: datetime

    @property
    def column(self) -> timedelta:
        return (self.until - self.since) / COLUMNS


class MarkKind(StrEnum):
    """What happened: the first three to replicas, the others to findings.

    A rollout replaces a version, as in `rules/rollout.py`; other settings that replicas start with are just settings.
    """

    ROLLOUT = "rollout"
    SETTINGS = "settings changed"
    RESTART = "restart"
    CRITICAL = "critical"
    WARNING = "warning"
    ENDED = "ended"


class TimelineMark(NamedTuple):
    """Something that happened `number` times from `at` until `until`, in pools; `text` is about the first of it.

    `before` is the former severity of a finding that became worse, the same of one that spread; empty for a new one.
    """

    kind: MarkKind
    at: datetime
    until: datetime
    pools: tuple[str, ...]
    text: str
    number: int = 1
    before: str = ""


class CountChange(NamedTuple):
    """How many replicas more (`by`) a group had after a column of a period; `first` and `last` are polls in it."""

    pool: str
    key: str
    version: str
    column: int
    first: datetime
    last: datetime
    by: int


class CountStep(NamedTuple):
    """The number of replicas from `at` on; `began` is the first poll of the change that led to it."""

    at: datetime
    number: int
    began: datetime


class TimelineGroup(NamedTuple):
    """Replicas of a pool that have something in common, such as a document (`key`): their number over time."""

    pool: str
    key: str
    version: str
    steps: tuple[CountStep, ...]

    def number_at(self, time: datetime) -> int:
        place = bisect_right(self.steps, time, key=_time)
        return self.steps[place - 1].number if place else 0

    @property
    def weight(self) -> int:
        return max(step.number for step in self.steps)


@dataclass(frozen=True)
class Timeline:
    """A period of a fleet, a pool, a setting or a replica. Of a replica the pool of a group is what its key is of."""

    period: Period
    groups: tuple[TimelineGroup, ...] = ()
    marks: tuple[TimelineMark, ...] = ()
    gaps: tuple[Gap, ...] = ()


def stepped(
    period: Period, at_start: Mapping[tuple[str, str, str], int], changes: Iterable[CountChange]
) -> list[TimelineGroup]:
    """Return groups from their numbers at the start of a period and what changed; pools in order, then groups.

    Changes in one column of one pool are at the same time: replicas that move are never counted twice or not at all.
    """
    every = list(changes)
    times: dict[tuple[str, int], datetime] = {}
    by_group: dict[tuple[str, str, str], list[CountChange]] = {key: [] for key in at_start}
    for each in every:
        place = each.pool, each.column
        times[place] = max(each.last, times.get(place, each.last))
        by_group.setdefault((each.pool, each.key, each.version), []).append(each)
    groups = []
    for name, mine in sorted(by_group.items()):
        mine.sort(key=lambda each: each.column)
        numbers = accumulate((each.by for each in mine), initial=at_start.get(name, 0))
        starts = [(period.since, period.since), *((times[each.pool, each.column], each.first) for each in mine)]
        steps = tuple(CountStep(at, number, began) for (at, began), number in zip(starts, numbers, strict=True))
        groups.append(TimelineGroup(*name, steps))
    return groups


def merged(
    groups: Iterable[TimelineGroup], key_of: Callable[[TimelineGroup], Hashable]
) -> dict[Hashable, TimelineGroup]:
    """Return the sums of groups with one key, under the name of the first of them."""
    alike = grouped((key_of(each), each) for each in groups)
    return {key: same[0] if len(same) == 1 else _sum(same) for key, same in alike.items()}


def _sum(groups: Sequence[TimelineGroup]) -> TimelineGroup:
    began: dict[datetime, datetime] = {}
    by_time: dict[datetime, int] = defaultdict(int)
    for group in groups:
        before = 0
        for step in group.steps:
            by_time[step.at] += step.number - before
            began[step.at] = min(step.began, began.get(step.at, step.began))
            before = step.number
    times = sorted(by_time)
    numbers = accumulate(by_time[at] for at in times)
    return groups[0]._replace(
        steps=tuple(CountStep(at, number, began[at]) for at, number in zip(times, numbers, strict=True))
    )


def moves(
    groups: Iterable[TimelineGroup], is_one_cohort: SameCohort = lambda _one, _other: False
) -> list[TimelineMark]:
    """Return the rollouts and the changed settings of all pools: replicas of a group that had other settings before.

    Those of one pool between the same versions are one where one begins before the other has ended for long, unless
    the second one changes back. A cohort is named by its most complete document, which may be another one at the next
    poll: `is_one_cohort` returns whether the documents of two groups do not contradict each other.
    """
    by_pool = grouped((each.pool, each) for each in groups)
    found = []
    for members in by_pool.values():
        last: dict[tuple[str, bool], TimelineMark] = {}
        changes = sorted(((step.at, each) for each in members for step in each.steps[1:]), key=_time)
        for mark, is_back in sorted(
            (move for group in members for move in _moves_to(group, changes, is_one_cohort)),
            key=lambda move: move[0].at,
        ):
            before = last.get((mark.text, is_back))
            if before is not None and mark.at - before.until <= LOADING:
                last[mark.text, is_back] = before._replace(
                    until=max(before.until, mark.until), number=before.number + mark.number
                )
                continue
            found += [before] if before else []
            last[mark.text, is_back] = mark
        found += last.values()
    totals = [sum(each.number_at(mark.until) for each in by_pool[mark.pools[0]]) for mark in found]
    return [
        mark._replace(text=f"{mark.text} ({min(mark.number, total):,}/{total:,})")
        for mark, total in zip(found, totals, strict=True)
    ]


def _moves_to(
    group: TimelineGroup, changes: Sequence[tuple[datetime, TimelineGroup]], is_one_cohort: SameCohort
) -> Iterator[tuple[TimelineMark, bool]]:
    """Yield moves to a group, and whether replicas had left it within LOADING for other settings.

    `changes` are those of its pool, in order: a group that loses replicas changes.
    """
    for run in _runs(group):
        begin, end = run[0].began, run[-1].at
        before = begin - LOADING
        near = changes[bisect_left(changes, before, key=_time) : bisect_right(changes, end, key=_time)]
        others = dict.fromkeys(each for _, each in near if each is not group)
        losses = {each: _most(each, before, begin) - each.number_at(end) for each in others}
        # A replica that left is loading, and comes back as it was, unless another group got it in the meantime.
        left = _most(group, before, begin) - (low := group.steps[group.steps.index(run[0]) - 1].number)
        loading = max(left - sum(_most(each, before, begin) - each.number_at(before) for each in others), 0)
        moved = min(run[-1].number - low - loading, sum(losses.values()))
        if moved > 0 and not any(
            _ends_where(each, run) and is_one_cohort(each.key, group.key) for each in losses if losses[each] > 0
        ):
            old = _old_version(losses, group, moved)
            kind = MarkKind.ROLLOUT if old else MarkKind.SETTINGS
            text = f"rollout {old} -> {group.version}" if old else str(kind)
            yield TimelineMark(kind, begin, end, (group.pool,), text, moved), loading < left


def _ends_where(group: TimelineGroup, run: Sequence[CountStep]) -> bool:
    """Return whether a group ends at the one poll at which another one begins."""
    return (
        len(run) == 1 and run[0].began == run[0].at and any(step == run[0]._replace(number=0) for step in group.steps)
    )


def _runs(group: TimelineGroup) -> Iterator[list[CountStep]]:
    """Yield the steps at which a group has more replicas than before, those within JOINED together."""
    run: list[CountStep] = []
    for before, step in zip(group.steps, group.steps[1:], strict=False):
        if step.number <= (run[-1].number if run and step.began - run[-1].at <= JOINED else before.number):
            continue
        if run and step.began - run[-1].at > JOINED:
            yield run
            run = []
        run.append(step)
    if run:
        yield run


def _most(group: TimelineGroup, since: datetime, until: datetime) -> int:
    """Return the most replicas of a group between two times, the second one excluded."""
    return max([group.number_at(since), *(step.number for step in group.steps if since <= step.at < until)])


def _old_version(losses: Mapping[TimelineGroup, int], group: TimelineGroup, moved: int) -> str:
    """Return the version that a rollout replaced; empty where enough replicas left settings of the same version.

    A version without an order, such as `dev`, is in no rollout: see `rules/rollout.py`.
    """
    within = sum(max(lost, 0) for each, lost in losses.items() if each.version == group.version)
    before = max(
        (each for each in losses if each.version != group.version), key=lambda each: losses[each], default=group
    )
    is_rollout = within < moved and build(before.version) is not None and build(group.version) is not None
    return before.version if is_rollout else ""


def bounded(marks: Iterable[TimelineMark], period: Period) -> tuple[TimelineMark, ...]:
    """Return marks, the first one first; of a kind with too many those of one column are one, with their number."""
    ordered = sorted(marks, key=lambda mark: (mark.at, mark.pools, mark.text))
    by_kind = grouped((each.kind, each) for each in ordered)
    found = [mark for same in by_kind.values() for mark in (same if len(same) <= MOST_MARKS else _joined(same, period))]
    return tuple(sorted(found, key=lambda mark: (mark.at, list(MarkKind).index(mark.kind), mark.pools)))


def _joined(marks: Iterable[TimelineMark], period: Period) -> Iterator[TimelineMark]:
    width = (period.until - period.since) / MARK_COLUMNS
    for same in grouped(((each.at - period.since) // width, each) for each in marks).values():
        pools = tuple(dict.fromkeys(pool for each in same for pool in each.pools))
        until, number = max(each.until for each in same), sum(each.number for each in same)
        yield same[0]._replace(until=until, pools=pools, number=number)
