"""Timelines as blocks: the cohorts of pools, the values of a setting, the states of a replica. Each with its tables."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias

import pandas as pd

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.timeline import MarkKind, Timeline, TimelineGroup, TimelineMark, merged
from dashboard.fleet import Pool, ReplicaState
from dashboard.fleet.formatting import NOT_KNOWN, count, end_cut, iso, joined, one_line, share, short
from dashboard.fleet.grouping import grouped
from dashboard.fleet.pieces import Kind, Link
from dashboard.fleet.times import parse_period
from dashboard.fleet.traffic import TrafficSum, in_sequence, summed
from dashboard.views.blocks import Block, Section, Table, Tone, View, quiet_paragraph
from dashboard.views.context import context_of
from dashboard.views.summary import scoped_title
from dashboard.views.table import Field, to_table
from dashboard.views.time_chart import (
    FORMER_SHADES,
    Band,
    Lane,
    TimeChart,
    details_of,
    lane_of,
    range_text,
    rate_lane,
    shades,
    time_text,
)

ANCHOR, TITLE = "timeline", "Timeline"
RANGES = {each: parse_period(each) for each in ("1h", "6h", "24h", "7d", "30d", "90d")}
LONGEST_DEFAULT = "24h"
MOST_LANES = 12  # pools of one chart: those that changed, then those with problems
MOST_BANDS = 8  # of a lane
MOST_ROWS = 200  # of a table
SHORT_DOCUMENT = 6  # digits of a document's id
LONGEST_VALUE = 40
LANES = {"document": "Settings", "state": "State", "version": "Version"}  # of a replica
STATE_SHADES = {str(ReplicaState.UP): "up", str(ReplicaState.PARTIAL): "partial", str(ReplicaState.DOWN): "down"}
TONES = {MarkKind.CRITICAL: Tone.CRITICAL, MarkKind.WARNING: Tone.WARNING, MarkKind.ENDED: Tone.GOOD}
WORDS = {MarkKind.ENDED: "fixed"}
NOUNS = {  # of the marks in each row of a chart
    "Rollouts": ("rollout", "rollouts"),
    "Settings changed": ("settings change", "settings changes"),
    "Restarts": ("restart", "restarts"),
    "New or worse": ("new or worse finding", "new or worse findings"),
    "Fixed": ("finding fixed", "findings fixed"),
}
NOTHING_RECORDED = "No data in this range yet."
NOTHING_HAPPENED = "No restarts or configuration changes"  # a finding that was suppressed is a change without a mark

THICK, THIN = 45, 25  # lines of hit rates, in RATE: those of one pool have a higher lane
NO_RATE = "not enough traffic"

Rates: TypeAlias = Sequence[tuple[Band, Sequence[TrafficSum]]]  # of the cohorts of a pool, the first one first
NO_RATES: Mapping[str, Rates] = MappingProxyType({})
LinkAt = Callable[[datetime], Link]  # the page that is shown, at another time


def pool_blocks(
    fleet: Fleet,
    timeline: Timeline,
    pools: Sequence[str],
    here: LinkAt,
    shown: datetime | None = None,
    traffic: Sequence[TrafficSum] = (),
) -> tuple[Block, ...]:
    """Return the cohorts of pools over time. `pools` are in the order of the page; removed pools come last.

    Of pools with `traffic` there are the prefix hit rates, too.
    """
    by_name = {pool.name: pool for pool in fleet.pools}
    found = {
        name: _cohorts(by_name.get(name), [each for each in timeline.groups if each.pool == name], shown)
        for name in dict.fromkeys([*pools, *(each.pool for each in timeline.groups)])
    }
    drawn = [name for name, bands in found.items() if bands]
    title = f"Replicas per cohort of {drawn[0]}" if len(drawn) == 1 else "Replicas per cohort"
    letters = {name: _letters(by_name.get(name)) for name in found}
    rates: dict[str, Rates] = {}
    for name, bands in found.items():
        now = _present_rates(fleet, by_name.get(name)) if shown is None else {}
        own = _rates(bands, letters[name], [each for each in traffic if each.pool == name])
        rates[name] = [(band._replace(text=f"{band.text}{now.get(band.text, '')}"), sums) for band, sums in own]
    of_marks = "; the marks are those of all pools"
    return _by_pool("timeline", title, "Cohort", found, timeline, here, shown, of_marks, rates, fleet.traffic_window)


def _present_rates(fleet: Fleet, pool: Pool | None) -> dict[str, str]:
    """Return the prefix hit rates of cohorts by their letters, as their texts in a legend end."""
    known = {each.letter: fleet.traffic_of(each.replicas).hit_rate for each in (pool.cohorts if pool else ())}
    return {letter: f" {share(rate)}" for letter, rate in known.items() if rate is not None}


def drawn_pools(timeline: Timeline, pools: Iterable[str]) -> list[str]:
    """Return the pools with a lane: those that changed first."""
    groups: dict[str, list[TimelineGroup]] = {name: [] for name in pools}
    for each in timeline.groups:
        groups.setdefault(each.pool, []).append(each)
    has_changed = {name: any(len(each.steps) > 1 for each in own) for name, own in groups.items() if own}
    return sorted(has_changed, key=lambda name: not has_changed[name])[:MOST_LANES]


def _rates(bands: Sequence[Band], letters: Mapping[str, str], sums: Iterable[TrafficSum]) -> Rates:
    """Return the sums of each cohort that has an area, in order of time: those of its documents together."""
    alike = grouped(((letters.get(each.document, each.document), each.since), each) for each in sorted(sums))
    together: dict[str, list[TrafficSum]] = defaultdict(list)
    for (key, _), same in alike.items():
        until, traffic = max(each.until for each in same), summed(each.traffic for each in same)
        together[key].append(same[0]._replace(until=until, traffic=traffic))
    keys = [letters.get(each.group.key, each.group.key) for each in bands]
    return [(band, together[key]) for band, key in zip(bands, keys, strict=True) if key in together]


def setting_blocks(
    path: str, timeline: Timeline, pools: Sequence[str], here: LinkAt, shown: datetime | None = None
) -> tuple[Block, ...]:
    """Return how many replicas had which value of a setting over time, a lane for each pool."""
    values = sorted(merged(timeline.groups, lambda each: each.key).values(), key=_most_now)
    shade_of = dict(zip((each.key for each in values), shades(len(values)), strict=True))
    bands: dict[str, list[Band]] = {name: [] for name in pools or [each.pool for each in timeline.groups]}
    for each in sorted(timeline.groups, key=_most_now):
        if each.pool in bands:
            bands[each.pool].append(Band(each, each.key, shade_of[each.key], end_cut(each.key, LONGEST_VALUE)))
    found = {name: _limited(own) for name, own in bands.items()}
    return _by_pool("timeline-setting", f"Replicas per value of {path}", "Value", found, timeline, here, shown)


def _most_now(group: TimelineGroup) -> tuple[float, float]:
    """Return the key that sorts groups: those that most replicas have now, then those that most replicas had."""
    return -group.steps[-1].number, -group.weight


def replica_blocks(
    fleet: Fleet, pool: str | None, timeline: Timeline, here: LinkAt, shown: datetime | None = None
) -> tuple[Block, ...]:
    """Return settings, state and version of a replica over time, and its restarts."""
    own = next((each for each in fleet.pools if each.name == pool), None)
    letters = _letters(own)
    lanes, rows = [], []
    for key, label in LANES.items():
        groups = [each for each in timeline.groups if each.pool == key]
        groups.sort(key=lambda each: -each.steps[-1].number)
        named = _replica_bands(key, groups, letters)
        if named:
            lanes.append(lane_of(label, named, timeline, is_strip=True))
            rows += [(label, each) for each in named]
    return _blocks("timeline-replica", TITLE, timeline, lanes, _band_table("Value", rows, timeline), "", here, shown)


def timeline_report(fleet: Fleet, blocks: tuple[Block, ...], pool: str | None) -> View:
    """Return the page of all pools, or of one, with a timeline as `pool_blocks` makes it."""
    chart = next((each for each in blocks if isinstance(each, TimeChart)), None)
    has_rates = chart is not None and any(each.rate_of for each in chart.lanes)
    return View(
        title=TITLE,
        headline=scoped_title(_happened(chart) if chart else TITLE, pool),
        lead="Replicas and prefix hit rate (0 to 100%) per cohort." if has_rates else "Replicas per cohort.",
        context=context_of(fleet, filters=[("pool", pool)]),
        parts=(Section(ANCHOR, "", blocks),) if blocks else (),
    )


def _happened(chart: TimeChart) -> str:
    """Write what the marks of a chart are: `1 rollout and 3 restarts since 14 Nov 11:42 UTC`."""
    numbers = {name: sum(each.number for each in clusters) for name, clusters in chart.rows.items()}
    what = joined([count(number, *NOUNS[name]) for name, number in numbers.items()]) or NOTHING_HAPPENED
    since, until = chart.period
    return f"{what}, {range_text(since, until)}" if chart.shown else f"{what} since {time_text(since)} UTC"


def with_timeline(view: View, blocks: tuple[Block, ...]) -> View:
    """Return a view with a timeline as a section before its glossary and appendices; the same view without one."""
    if not blocks:
        return view
    place = next(
        (place for place, part in enumerate(view.parts) if part.is_appendix or part.is_exported_only), len(view.parts)
    )
    return replace(view, parts=(*view.parts[:place], Section(ANCHOR, TITLE, blocks), *view.parts[place:]))


def _replica_bands(key: str, groups: Sequence[TimelineGroup], letters: dict[str, str]) -> list[Band]:
    if key == "state":
        return [Band(each, each.key, STATE_SHADES.get(each.key, "g0"), each.key) for each in groups]
    found = []
    for place, each in enumerate(groups):
        is_now = each.steps[-1].number > 0
        if letter := letters.get(each.key, "") if key == "document" else "":
            found.append(Band(each, _lettered(letter, each), letter, letter))
        else:
            text = each.key if key == "version" else _former(each, is_named=True)
            shade = "f0" if is_now and key == "version" else f"g{place % FORMER_SHADES}"
            found.append(Band(each, one_line(text), shade, one_line(text)))
    return found


def _cohorts(pool: Pool | None, groups: Sequence[TimelineGroup], shown: datetime | None = None) -> list[Band]:
    """Return the cohorts of a pool: those of the fleet by their letters, then former ones in greys.

    Of a past time that is `shown` some of the others began later.
    """
    letters = _letters(pool)
    known = merged(groups, lambda each: letters.get(each.key, each.key))
    present = sorted(
        (each for each in known.values() if each.key in letters),
        key=lambda each: (len(letters[each.key]), letters[each.key]),
    )
    former = sorted(
        (each for each in known.values() if each.key not in letters), key=lambda each: (-each.weight, each.key)
    )
    versions = [each.version for each in former]
    named = [Band(each, _lettered(letters[each.key], each), letters[each.key], letters[each.key]) for each in present]
    for place, each in enumerate(former):
        label = _former(each, is_named=versions.count(each.version) > 1 or not each.version)
        is_later = shown is not None and all(step.at > shown for step in each.steps if step.number)
        label = f"{'later' if is_later else 'former'} ({label})"
        named.append(Band(each, label, f"g{place % FORMER_SHADES}", label))
    return _limited(named)


def _letters(pool: Pool | None) -> dict[str, str]:
    return {document: each.letter for each in (pool.cohorts if pool else ()) for document in each.documents}


def _lettered(letter: str, group: TimelineGroup) -> str:
    return f"{letter} ({one_line(group.version)})" if group.version else letter


def _former(group: TimelineGroup, *, is_named: bool) -> str:
    """Write what tells former settings apart: their version, and the beginning of their document's id."""
    document = f"settings {group.key[:SHORT_DOCUMENT]}"
    return one_line(f"{group.version}, {document}" if group.version and is_named else group.version or document)


def _limited(named: Sequence[Band]) -> list[Band]:
    rest = [each.group for each in named[MOST_BANDS - 1 :]]
    if len(rest) <= 1:
        return list(named)
    (other,) = merged(rest, lambda _: 0).values()
    label = count(len(rest), "other")
    return [*named[: MOST_BANDS - 1], Band(other, label, "g2", label)]


def _by_pool(
    name: str,
    title: str,
    what: str,
    found: Mapping[str, Sequence[Band]],
    timeline: Timeline,
    here: LinkAt,
    shown: datetime | None,
    of_marks: str = "",
    rates: Mapping[str, Rates] = NO_RATES,
    window: float = 0.0,
) -> tuple[Block, ...]:
    """Return a lane for each pool with bands, those that changed first; `of_marks` says which marks there are.

    Below it is a lane of its `rates`; `window` is that of the others in the product, in seconds.
    """
    order = sorted(
        filter(found.__getitem__, found), key=lambda pool: not any(len(each.group.steps) > 1 for each in found[pool])
    )
    thickness = THIN if len(order) == 1 else THICK
    lanes = []
    for pool in order[:MOST_LANES]:
        lanes.append(lane_of(pool, found[pool], timeline))
        lanes += [rate_lane(pool, rates[pool], timeline.period, thickness, window)] if rates.get(pool) else []
    hidden = len(order) - MOST_LANES
    note = f"{count(hidden, 'more pool')} without a lane{of_marks}." if hidden > 0 else ""
    named = [(pool, each) for pool in order for each in found[pool]]
    blocks = _blocks(name, title, timeline, lanes, _band_table(what, named, timeline), note, here, shown)
    shown_rates = ((pool, *each) for pool in order for each in rates.get(pool, ()))
    return (*blocks, *_rate_tables(shown_rates, window))


def _rate_tables(rates: Iterable[tuple[str, Band, Sequence[TrafficSum]]], window: float) -> Iterator[Table]:
    """Yield the hit rates of each cohort: of the whole period, the lowest, the highest and the last one."""
    rows = []
    for pool, band, sums in rates:
        rated = [each.traffic.averaged(window).hit_rate for each in sums]
        known = [rate for rate in rated if rate is not None]
        whole = in_sequence(each.traffic for each in sums)
        rate = whole.averaged(window).hit_rate
        numbers = (rate, min(known, default=None), max(known, default=None), rated[-1])
        rows.append((one_line(pool), band.label, *numbers, whole.prompt_tokens))
    shares = {"rate": "Prefix hit rate", "lowest": "Lowest", "highest": "Highest", "last": "Last"}
    fields = (
        Field("pool", "Pool"),
        Field("label", "Cohort"),
        *(
            Field(name, title, partial(_share_of, name), missing=NO_RATE, is_number=True)
            for name, title in shares.items()
        ),
        Field("tokens", "Prompt tokens", lambda row: short(row.tokens), missing=NOT_KNOWN, is_number=True),
    )
    if rows:
        frame = pd.DataFrame(rows, columns=[each.name for each in fields])
        yield to_table(frame, fields, "timeline-rates", "Prefix hit rate over time", most=MOST_ROWS)


def _share_of(name: str, row: Any) -> str:
    return share(getattr(row, name))


def _blocks(
    name: str,
    title: str,
    timeline: Timeline,
    lanes: Sequence[Lane],
    bands: Table,
    note: str,
    here: LinkAt,
    shown: datetime | None,
) -> tuple[Block, ...]:
    if not any(lane.moments for lane in lanes):
        return (quiet_paragraph(NOTHING_RECORDED),)
    chart = TimeChart(name, title, timeline.period, tuple(lanes), timeline.marks, timeline.gaps, shown)
    notes = (quiet_paragraph(note),) if note else ()
    marks = (_mark_table(name, timeline.marks, here),) if timeline.marks else ()
    return (chart, *notes, *marks, bands)


def _mark_table(name: str, marks: Sequence[TimelineMark], here: LinkAt) -> Table:
    """Return what happened, the newest first; a time leads to the page at that time."""
    fields = (
        Field(
            "at", "Time (UTC)", _span_text, lambda mark: iso(mark.at), link=lambda mark: here(mark.until), key="time"
        ),
        Field(
            "kind",
            "What",
            lambda mark: WORDS.get(mark.kind, str(mark.kind)),
            tone=lambda mark: TONES.get(mark.kind, Tone.PLAIN),
            key="kind",
        ),
        Field("pools", "Pool", lambda mark: ", ".join(map(one_line, mark.pools))),
        Field("", "Details", lambda mark: end_cut(details_of(mark)), key="details"),
    )
    older = "{:,} older ones are not listed.".format
    return to_table(reversed(marks), fields, f"{name}-marks", "Marks", most=MOST_ROWS, rest=older)


def _span_text(mark: TimelineMark) -> str:
    if mark.until - mark.at < timedelta(minutes=1):
        return f"{mark.at:%Y-%m-%d %H:%M}"
    return (
        f"{mark.at:%Y-%m-%d %H:%M} – {mark.until:{'%H:%M' if mark.until.date() == mark.at.date() else '%m-%d %H:%M'}}"
    )


def _band_table(what: str, named: Sequence[tuple[str, Band]], timeline: Timeline) -> Table:
    """Return the numbers of a chart: of each area how many replicas it had at both ends, and when it had any."""
    where = "Of" if what == "Value" and any(name in LANES.values() for name, _ in named) else "Pool"
    since, until = timeline.period
    is_known = not any(gap.since <= since < (gap.until or until) for gap in timeline.gaps)  # at the start
    rows = []
    for name, each in named:
        steps = each.group.steps
        present = [place for place, step in enumerate(steps) if step.number]
        if not present:
            continue
        is_there = present[-1] == len(steps) - 1
        last = until if is_there else steps[present[-1] + 1].at
        numbers = (steps[0].number if is_known else None, each.group.weight, steps[-1].number)
        rows.append((one_line(name), each.label, *numbers, steps[present[0]].at, last))
    fields = (
        Field("where", where),
        Field("label", what, attrgetter("label")),
        Field("start", "At start", is_number=True, missing="–"),
        Field("most", "Most", is_number=True),
        Field("end", "At end", is_number=True),
        Field("first", "First (UTC)", lambda row: f"{row.first:%Y-%m-%d %H:%M}", key="first"),
        Field("last", "Last (UTC)", lambda row: f"{row.last:%Y-%m-%d %H:%M}", key="last"),
    )
    frame = pd.DataFrame(rows, columns=[each.name for each in fields])
    return to_table(frame, fields, f"timeline-{what.lower()}s", f"{what}s over time", most=MOST_ROWS)


def default_range(first: datetime | None, newest: datetime) -> str:
    """Return the name of the shortest range until the newest poll that has the first one, at most LONGEST_DEFAULT."""
    shorter = list(RANGES)[: list(RANGES).index(LONGEST_DEFAULT)] if first else []
    return next((name for name in shorter if first and newest - RANGES[name] <= first), LONGEST_DEFAULT)


def here_at(page: str, range_: str, /, **choices: str) -> LinkAt:
    return lambda time: Link(
        Kind.PAGE, page, "", (*choices.items(), ("range", range_), ("at", f"{time:%Y-%m-%dT%H:%M:%SZ}"))
    )
