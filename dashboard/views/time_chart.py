"""A chart over time: lanes of stacked areas, rows of marks below, and gaps without data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from typing import NamedTuple

from dashboard.analysis.timeline import MarkKind, Period, Timeline, TimelineGroup, TimelineMark
from dashboard.fleet import Gap
from dashboard.fleet.formatting import count, hit_rate, missing_word
from dashboard.fleet.traffic import TrafficSum

COHORT_SHADES, FORMER_SHADES = 6, 3  # classes f0 to f5 and g0 to g2 of the style sheets
ROWS = {  # of marks, below the lanes
    "Rollouts": (MarkKind.ROLLOUT,),
    "Settings changed": (MarkKind.SETTINGS,),
    "Restarts": (MarkKind.RESTART,),
    "New or worse": (MarkKind.CRITICAL, MarkKind.WARNING),
    "Fixed": (MarkKind.ENDED,),
}
MOVES = frozenset({MarkKind.ROLLOUT, MarkKind.SETTINGS})  # drawn with their length; their number is that of replicas
FOUND = frozenset({MarkKind.CRITICAL, MarkKind.WARNING, MarkKind.ENDED})  # of findings: a text is about the first
CLUSTERS = 40  # of a row: marks that are closer to each other than a sign with its number is wide are one
RATE = 1_000  # of a lane: 100%
MOST_LINES = 8  # marks that a tooltip names


class Run(NamedTuple):
    """A part of a band: from one time to another, between two heights."""

    since: datetime
    until: datetime
    low: int
    high: int


class Band(NamedTuple):
    """The area of a group, its label, and the text of its key. `shade` is a cohort's letter, or a class in CSS.

    `lane_of` adds its `runs`.
    """

    group: TimelineGroup
    label: str
    shade: str
    text: str
    runs: tuple[Run, ...] = ()


class Moments(NamedTuple):
    """A part of a lane in which nothing changes, and what its tooltip says."""

    since: datetime
    until: datetime
    lines: tuple[str, ...]


class Lane(NamedTuple):
    """Areas on one another. `is_strip`: of one replica, so that its height says nothing.

    `rate_of` is the pool of a lane of prefix hit rates: in place of areas there are lines, 100% is at RATE.
    """

    label: str
    bands: tuple[Band, ...]
    moments: tuple[Moments, ...]
    highest: int
    is_strip: bool = False
    rate_of: str = ""


class Cluster(NamedTuple):
    """Marks that are drawn as one."""

    marks: tuple[TimelineMark, ...]

    @property
    def until(self) -> datetime:
        return max(each.until for each in self.marks)

    @property
    def number(self) -> int:
        return sum(1 if each.kind in MOVES else each.number for each in self.marks)

    @property
    def kind(self) -> MarkKind:
        return min((each.kind for each in self.marks), key=list(MarkKind).index)

    @property
    def lines(self) -> tuple[str, ...]:
        hidden = len(self.marks) - MOST_LINES
        lines = [mark_line(each) for each in self.marks[:MOST_LINES]]
        return (*lines, *([f"and {hidden:,} more"] if hidden > 0 else []))


@dataclass(frozen=True, slots=True)
class TimeChart:
    """Lanes, marks and gaps of a period. `shown` is the time that the page is about; `name` is for its file."""

    name: str
    title: str
    period: Period
    lanes: tuple[Lane, ...]
    marks: tuple[TimelineMark, ...] = ()
    gaps: tuple[Gap, ...] = ()
    shown: datetime | None = None

    @property
    def rows(self) -> Mapping[str, list[Cluster]]:
        """Return the marks of each row that has any, those that a drawing cannot separate together."""
        width = (self.period.until - self.period.since) / CLUSTERS
        rows: dict[str, list[Cluster]] = {name: [] for name in ROWS}
        for name, kinds in ROWS.items():
            for mark in (each for each in self.marks if each.kind in kinds):
                last = rows[name][-1] if rows[name] else None
                if last is not None and mark.at - last.marks[0].at < width:
                    rows[name][-1] = Cluster((*last.marks, mark))
                else:
                    rows[name].append(Cluster((mark,)))
        return {name: clusters for name, clusters in rows.items() if clusters}


def lane_of(label: str, bands: Sequence[Band], timeline: Timeline, *, is_strip: bool = False) -> Lane:
    """Stack bands, the first one at the bottom. Where no poll was recorded there is nothing."""
    since, until = timeline.period
    gaps = [(each.since, each.until or until) for each in timeline.gaps]
    steps = {step.at for each in bands for step in each.group.steps}
    ends = {time for gap in gaps for time in gap}
    edges = sorted({since, until, *(time for time in steps | ends if since < time < until)})
    numbers = [_numbers(each.group, edges) for each in bands]
    runs: list[list[Run]] = [[] for _ in bands]
    moments: list[Moments] = []
    highest = 0
    for place, (begin, end) in enumerate(pairwise(edges)):
        if any(gap[0] <= begin and end <= gap[1] for gap in gaps):
            continue
        heights = [each[place] for each in numbers]
        tops = list(accumulate(heights))
        highest = max([highest, *tops])
        for mine, top, height in zip(runs, tops, heights, strict=True):
            _extend(mine, Run(begin, end, top - height, top))
        words = [
            each.label if is_strip else f"{each.label}: {count(height, 'replica')}"
            for each, height in zip(bands, heights, strict=True)
            if height
        ]
        moments.append(Moments(begin, end, tuple(words or ["no replica"])))
    drawn = tuple(band._replace(runs=tuple(mine)) for band, mine in zip(bands, runs, strict=True) if mine)
    return Lane(label, drawn, tuple(moments), max(highest, 1), is_strip)


def rate_lane(
    pool: str,
    rates: Iterable[tuple[Band, Sequence[TrafficSum]]],
    period: Period,
    thickness: int,
    window: float = 0.0,
) -> Lane:
    """Return the prefix hit rates of cohorts as lines of a thickness in RATE.

    Without enough traffic there is none: on average in a `window` of seconds, so that each range shows the same.
    """
    bands: list[Band] = []
    ends: dict[datetime, datetime] = {}
    lines: dict[datetime, list[str]] = defaultdict(list)
    why = ""
    for band, sums in rates:
        runs = []
        for each in sums:
            since, until = max(each.since, period.since), min(each.until, period.until)
            ends[since] = max(until, ends.get(since, until))
            traffic = each.traffic.averaged(window)
            why = missing_word(traffic)
            lines[since].append(f"{band.label}: {why or hit_rate(traffic)}")
            if (rate := traffic.hit_rate) is not None:
                middle = round(rate * RATE)
                runs.append(Run(since, until, middle - thickness // 2, middle + thickness // 2))
        bands += [band._replace(runs=tuple(runs))] if runs else []
    moments = tuple(Moments(since, ends[since], tuple(lines[since])) for since in sorted(lines))
    label = "Prefix hit rate" if bands else f"Hit rate: {why}"
    return Lane(label, tuple(bands), moments, RATE, rate_of=pool)


def _numbers(group: TimelineGroup, edges: Sequence[datetime]) -> list[int]:
    found, place, number = [], 0, 0
    for edge in edges:
        while place < len(group.steps) and group.steps[place].at <= edge:
            number = group.steps[place].number
            place += 1
        found.append(number)
    return found


def _extend(runs: list[Run], run: Run) -> None:
    if run.low == run.high:
        return
    last = runs[-1] if runs else None
    if last is not None and (last.until, last.low, last.high) == (run.since, run.low, run.high):
        runs[-1] = last._replace(until=run.until)
    else:
        runs.append(run)


def time_text(time: datetime) -> str:
    """Write a time of a chart: `15 Nov 11:42`, in UTC as all of them."""
    return f"{time.day} {time:%b %H:%M}"


def range_text(since: datetime, until: datetime) -> str:
    """Write a range: `15 Nov 11:42 – 13:57 UTC`."""
    if until - since < timedelta(minutes=1):
        return f"{time_text(since)} UTC"
    is_one_day = since.date() == until.date()
    return f"{time_text(since)} – {f'{until:%H:%M}' if is_one_day else time_text(until)} UTC"


def mark_line(mark: TimelineMark) -> str:
    """Write a mark: `15 Nov 11:42 UTC, chat-70b: rollout 0.31.0 -> 0.32.0 (16/16)`."""
    pools = ", ".join(filter(None, mark.pools))
    happened = {MarkKind.CRITICAL: "new critical: ", MarkKind.WARNING: "new warning: ", MarkKind.ENDED: "fixed: "}
    word = "" if mark.before else happened.get(mark.kind, "")
    return f"{', '.join(filter(None, (range_text(mark.at, mark.until), pools)))}: {word}{details_of(mark)}"


def details_of(mark: TimelineMark) -> str:
    """Write what happened, without time and pools: `worse, warning -> critical: TEXT (and 2 more)`."""
    how = "on more replicas" if mark.before == mark.kind else f"{mark.before} -> {mark.kind}"
    worse = f"worse, {how}: " if mark.before else ""
    more = f" (and {mark.number - 1:,} more)" if mark.kind in FOUND and mark.number > 1 else ""
    return f"{worse}{mark.text}{more}"


def describe_times(chart: TimeChart) -> str:
    """Describe a chart for those who cannot see it: the tables below it have the rest."""
    ends = (f"{lane.label}: {'; '.join(lane.moments[-1].lines)}." for lane in chart.lanes if lane.moments)
    counts = [f"{name}: {sum(each.number for each in clusters):,}" for name, clusters in chart.rows.items()]
    counts += [count(len(chart.gaps), "gap")] if chart.gaps else []
    return " ".join(
        [f"{range_text(*chart.period)}.", "At the end:", *ends, f"{', '.join(counts)}." if counts else ""]
    ).strip()


def shades(number: int) -> Iterable[str]:
    """Return the shades of groups that are no cohorts: the same colours, then again from the first."""
    return (f"f{place % COHORT_SHADES}" for place in range(number))
