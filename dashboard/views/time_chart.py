"""A chart over time: lanes of stacked areas, rows of marks below, and gaps without data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from typing import NamedTuple

from dashboard.analysis.timeline import Group, Mark, MarkKind, Period, Timeline
from dashboard.fleet import Gap
from dashboard.fleet.formatting import count

COHORT_SHADES, FORMER_SHADES = 6, 3  # classes f0 to f5 and g0 to g2 of the style sheets
ROWS = {  # of marks, below the lanes
    "Rollouts": (MarkKind.ROLLOUT,),
    "Restarts": (MarkKind.RESTART,),
    "Findings": (MarkKind.CRITICAL, MarkKind.WARNING, MarkKind.ENDED),
}


class Run(NamedTuple):
    """A part of a band: from one time to another, between two heights."""

    since: datetime
    until: datetime
    low: int
    high: int


class Band(NamedTuple):
    """One area, its label, and a text to write into it. `shade` is a cohort's letter, or a class in CSS."""

    label: str
    shade: str
    text: str
    runs: tuple[Run, ...]


class Moments(NamedTuple):
    """A part of a lane in which nothing changes, and what its tooltip says."""

    since: datetime
    until: datetime
    lines: tuple[str, ...]


class Lane(NamedTuple):
    """Areas on one another. `is_strip`: of one replica, so that its height says nothing."""

    label: str
    bands: tuple[Band, ...]
    moments: tuple[Moments, ...]
    highest: int
    is_strip: bool = False


@dataclass(frozen=True, slots=True)
class TimeChart:
    """Lanes, marks and gaps of a period. `shown` is the time that the page is about; `name` is for its file."""

    name: str
    title: str
    period: Period
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...] = ()
    gaps: tuple[Gap, ...] = ()
    shown: datetime | None = None

    @property
    def rows(self) -> Mapping[str, list[Mark]]:
        """Return the marks of each row that has any."""
        rows = {name: [each for each in self.marks if each.kind in kinds] for name, kinds in ROWS.items()}
        return {name: marks for name, marks in rows.items() if marks}


class Named(NamedTuple):
    """A group to draw: its label, shade and text."""

    group: Group
    label: str
    shade: str
    text: str


def lane_of(label: str, named: Sequence[Named], timeline: Timeline, *, is_strip: bool = False) -> Lane:
    """Stack groups, the first one at the bottom. Where no poll was recorded there is nothing."""
    since, until = timeline.period
    gaps = [(each.since, each.until or until) for each in timeline.gaps]
    steps = {step.at for each in named for step in each.group.steps}
    ends = {time for gap in gaps for time in gap}
    edges = sorted({since, until, *(time for time in steps | ends if since < time < until)})
    numbers = [_numbers(each.group, edges) for each in named]
    runs: list[list[Run]] = [[] for _ in named]
    moments: list[Moments] = []
    highest = 0
    for place, (begin, end) in enumerate(pairwise(edges)):
        if any(gap[0] <= begin and end <= gap[1] for gap in gaps):
            continue
        heights = [each[place] for each in numbers]
        tops = list(accumulate(heights))
        highest = max(highest, *tops)
        for mine, top, height in zip(runs, tops, heights, strict=True):
            _extend(mine, Run(begin, end, top - height, top))
        words = [
            each.label if is_strip else f"{each.label}: {count(height, 'replica')}"
            for each, height in zip(named, heights, strict=True)
            if height
        ]
        moments.append(Moments(begin, end, tuple(words or ["no replica"])))
    bands = tuple(
        Band(each.label, each.shade, each.text, tuple(mine)) for each, mine in zip(named, runs, strict=True) if mine
    )
    return Lane(label, bands, tuple(moments), max(highest, 1), is_strip)


def _numbers(group: Group, edges: Sequence[datetime]) -> list[int]:
    """Return the number of replicas from each edge on."""
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


def mark_lines(mark: Mark) -> tuple[str, ...]:
    """Return the lines of a mark's tooltip."""
    pools = ", ".join(filter(None, mark.pools))
    happened = {MarkKind.CRITICAL: "new critical finding", MarkKind.WARNING: "new warning", MarkKind.ENDED: "fixed"}
    word = happened.get(mark.kind, "")
    more = f" (and {mark.number - 1:,} more)" if word and mark.number > 1 else ""
    text = f"{word}: {mark.text}{more}" if word else mark.text
    return tuple(filter(None, (range_text(mark.at, mark.until), pools, text)))


def describe_times(chart: TimeChart) -> str:
    """Describe a chart for those who cannot see it: the tables below it have the rest."""
    ends = (f"{lane.label}: {'; '.join(lane.moments[-1].lines)}." for lane in chart.lanes if lane.moments)
    counts = [count(len(marks), name.lower().removesuffix("s") + " mark") for name, marks in chart.rows.items()]
    counts += [count(len(chart.gaps), "gap")] if chart.gaps else []
    return " ".join(
        [f"{range_text(*chart.period)}.", "At the end:", *ends, f"{', '.join(counts)}." if counts else ""]
    ).strip()


def shades(number: int) -> Iterable[str]:
    """Return the shades of groups that are no cohorts: the same colours, then again from the first."""
    return (f"f{place % COHORT_SHADES}" for place in range(number))
