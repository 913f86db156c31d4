"""Timelines as blocks: lanes, the letters of cohorts, gaps, and tables with the same content."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.timeline import CountStep, MarkKind, Period, Timeline, TimelineGroup, TimelineMark
from dashboard.fleet import Gap
from dashboard.fleet.traffic import Traffic, TrafficSum
from dashboard.views.blocks import Block, Paragraph, Table
from dashboard.views.pages import OVERVIEW
from dashboard.views.time_chart import MOST_LINES, Cluster, Lane, TimeChart, mark_line
from dashboard.views.timeline import (
    MOST_BANDS,
    MOST_LANES,
    NOTHING_RECORDED,
    default_range,
    drawn_pools,
    here_at,
    pool_blocks,
    replica_blocks,
    setting_blocks,
    timeline_report,
)
from tests.builders import story
from tests.used import traffic, with_traffic

SINCE = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = Period(SINCE, SINCE + 24 * HOUR)
CHAT = "chat-70b"
HERE = here_at(OVERVIEW, "24h")


def group(key: str, *numbers: int, pool: str = CHAT, version: str = "0.31.0") -> TimelineGroup:
    """A group with one number after the other, an hour each, and the last one until the end."""
    steps = tuple(CountStep(SINCE + place * HOUR, number, SINCE + place * HOUR) for place, number in enumerate(numbers))
    return TimelineGroup(pool, key, version, steps)


def shown(
    *groups: TimelineGroup, fleet: Fleet | None = None, marks: Sequence[TimelineMark] = (), gaps: Sequence[Gap] = ()
) -> tuple[Block, ...]:
    timeline = Timeline(DAY, groups, tuple(marks), tuple(gaps))
    pools = list(dict.fromkeys(each.pool for each in groups))
    return pool_blocks(fleet or story(), timeline, pools, HERE)


def chart_of(blocks: Sequence[Block]) -> TimeChart:
    assert isinstance(blocks[0], TimeChart)
    return blocks[0]


def lane(*groups: TimelineGroup, gaps: Sequence[Gap] = ()) -> Lane:
    return chart_of(shown(*groups, gaps=gaps)).lanes[0]


def rows(table: Block) -> list[tuple[str, ...]]:
    assert isinstance(table, Table)
    return [tuple(cell.text for cell in row) for row in table.rows]


def areas(lane: Lane) -> list[tuple[str, list[tuple[float, float, int, int]]]]:
    """The areas of a lane: label and parts, in hours and replicas."""
    return [
        (band.label, [((run.since - SINCE) / HOUR, (run.until - SINCE) / HOUR, run.low, run.high) for run in band.runs])
        for band in lane.bands
    ]


def test_cohorts_of_the_fleet_have_their_letters_and_former_ones_are_grey() -> None:
    pool = next(each for each in story().pools if each.name == CHAT)
    present = [group(each.document, 0, 3, version="0.32.0") for each in pool.cohorts[:2]]
    bands = lane(group("old1234567", 6, 0), *present).bands

    assert [(each.label, each.shade, each.text) for each in bands] == [
        ("A (0.32.0)", "A", "A"),
        ("B (0.32.0)", "B", "B"),
        ("former (0.31.0)", "g0", "former (0.31.0)"),
    ]


def sums(document: str, *used: Traffic | None, pool: str = CHAT) -> list[TrafficSum]:
    """The traffic of a document, an hour each; None: not recorded."""
    hours = [SINCE + place * HOUR for place in range(len(used))]
    return [TrafficSum(since, since + HOUR, pool, document, own) for since, own in zip(hours, used, strict=True) if own]


def test_hit_rates_are_lines_below_the_cohorts_with_gaps_where_nothing_was_recorded() -> None:
    pool = next(each for each in story().pools if each.name == CHAT)
    groups = [group(each.document, 3, version="0.32.0") for each in pool.cohorts[:2]]
    one, other = pool.cohorts[0].document, pool.cohorts[1].document
    used = [*sums(one, traffic(0.6), None, traffic(0.7)), *sums(other, traffic(0.0), traffic(0.1, requests=1))]
    timeline = Timeline(DAY, tuple(groups))
    blocks = pool_blocks(story(), timeline, [CHAT], HERE, traffic=used)
    cohorts, rates = chart_of(blocks).lanes

    middles = [
        (label, [(since, until, (low + high) / 2) for since, until, low, high in runs]) for label, runs in areas(rates)
    ]
    assert (cohorts.label, rates.rate_of, rates.highest) == (CHAT, CHAT, 1_000)
    assert middles == [("A (0.32.0)", [(0, 1, 600), (2, 3, 700)]), ("B (0.32.0)", [(0, 1, 0)])]
    assert [each.lines for each in rates.moments] == [
        ("A (0.32.0): 60%", "B (0.32.0): 0%"),
        ("B (0.32.0): not enough traffic",),
        ("A (0.32.0): 70%",),
    ]
    assert rows(blocks[-1]) == [
        (CHAT, "A (0.32.0)", "65%", "60%", "70%", "70%", "1.2 M"),
        (CHAT, "B (0.32.0)", "<1%", "0%", "0%", "not enough traffic", "602.0 k"),
    ]
    assert timeline_report(story(), blocks, None).lead == "Replicas and prefix hit rate (0 to 100%) per cohort."


def test_documents_of_one_cohort_have_one_rate_of_their_sums() -> None:
    pool = next(each for each in story().pools if each.name == CHAT)
    cohort = pool.cohorts[0]
    both = replace(cohort, documents=(cohort.document, "other"))
    fleet = replace(story(), pools=(replace(pool, cohorts=(both,)),))
    used = [*sums(cohort.document, traffic(0.5)), *sums("other", traffic(0.7)), *sums("unknown", traffic(0.9))]
    blocks = pool_blocks(fleet, Timeline(DAY, (group(cohort.document, 3),)), [CHAT], HERE, traffic=used)

    assert chart_of(blocks).lanes[1].moments[0].lines == ("A (0.31.0): 60%",)


def test_a_legend_of_hit_rates_has_the_present_rate_of_cohorts_and_none_of_a_past_time() -> None:
    pool = next(each for each in story().pools if each.name == CHAT)
    used = [*sums(pool.cohorts[0].document, traffic(0.5)), *sums("old", traffic(0.7))]
    timeline = Timeline(DAY, (group(pool.cohorts[0].document, 3), group("old", 3)))
    live = with_traffic(story(), {CHAT: 0.62})

    texts = {
        shown: [band.text for band in chart_of(pool_blocks(live, timeline, [CHAT], HERE, shown, used)).lanes[1].bands]
        for shown in (None, SINCE)
    }
    assert texts == {None: ["A 62%", "former (0.31.0)"], SINCE: ["A", "former (0.31.0)"]}


def test_what_is_enough_traffic_is_decided_over_one_window_in_every_range() -> None:
    pool = next(each for each in story().pools if each.name == CHAT)
    hour = traffic(0.5, requests=79)._replace(seconds=3600.0)  # 19.75 requests in 15 minutes
    used = sums(pool.cohorts[0].document, hour, hour._replace(requests=80))
    windowed = replace(story(), traffic_window=900.0)
    blocks = pool_blocks(windowed, Timeline(DAY, (group(pool.cohorts[0].document, 3),)), [CHAT], HERE, traffic=used)

    assert [each.lines for each in chart_of(blocks).lanes[1].moments] == [
        ("A (0.31.0): not enough traffic",),
        ("A (0.31.0): 50%",),
    ]


def test_a_pool_without_enough_traffic_says_so_in_place_of_lines() -> None:
    used = sums("old", traffic(0.5, requests=1))
    blocks = pool_blocks(story(), Timeline(DAY, (group("old", 3),)), [CHAT], HERE, traffic=used)

    assert chart_of(blocks).lanes[1].label == "Hit rate: not enough traffic"
    assert not chart_of(blocks).lanes[1].bands


def test_traffic_is_read_of_the_pools_with_a_lane_alone() -> None:
    many = [group("a", 1, pool=f"p{number:02}") for number in range(MOST_LANES)]
    timeline = Timeline(DAY, (*many, group("b", 1, 2, pool="changed")))

    assert drawn_pools(timeline, ["p00", "empty"]) == [
        "changed",
        *(f"p{number:02}" for number in range(MOST_LANES - 1)),
    ]


def test_former_cohorts_of_one_version_are_told_apart_by_their_settings() -> None:
    labels = [each.label for each in lane(group("old1234567", 6), group("older12345", 2)).bands]

    assert labels == ["former (0.31.0, settings old123)", "former (0.31.0, settings older1)"]
    assert lane(group("old1234567", 6, version="")).bands[0].label == "former (settings old123)"


def test_a_cohort_that_began_after_the_shown_time_is_no_former_one() -> None:
    timeline = Timeline(DAY, (group("a", 0, 0, 3), group("b", 3, 0)))
    found = chart_of(pool_blocks(story(), timeline, [CHAT], HERE, SINCE + HOUR))

    assert {band.label for band in found.lanes[0].bands} == {
        "later (0.31.0, settings a)",
        "former (0.31.0, settings b)",
    }


def test_areas_stand_on_one_another_and_last_until_the_next_change() -> None:
    drawn = lane(group("a", 3, 2, 2, 0), group("b", 0, 1))

    assert areas(drawn) == [
        ("former (0.31.0, settings a)", [(0, 1, 0, 3), (1, 3, 0, 2)]),
        ("former (0.31.0, settings b)", [(1, 3, 2, 3), (3, 24, 0, 1)]),
    ]
    assert drawn.highest == 3
    assert drawn.moments[1].lines == (
        "former (0.31.0, settings a): 2 replicas",
        "former (0.31.0, settings b): 1 replica",
    )


def test_nothing_is_drawn_where_no_poll_was_recorded() -> None:
    gaps = [Gap(SINCE + 2 * HOUR, SINCE + 5 * HOUR), Gap(SINCE + 20 * HOUR, None)]
    drawn = lane(group("a", 3), gaps=gaps)

    assert areas(drawn) == [("former (0.31.0)", [(0, 2, 0, 3), (5, 20, 0, 3)])]
    assert [(each.since, each.until) for each in drawn.moments] == [
        (SINCE, gaps[0].since),
        (gaps[0].until, gaps[1].since),
    ]


def test_a_range_without_polls_says_so() -> None:
    (only,) = shown(group("a", 3), gaps=[Gap(SINCE, None)])

    assert isinstance(only, Paragraph)
    assert only.line[0].text == NOTHING_RECORDED
    assert shown() == (only,)


def test_pools_that_changed_come_first_and_the_others_are_counted() -> None:
    groups = [group("a", 3, pool=f"pool-{number:02}") for number in range(MOST_LANES + 2)]
    groups.append(group("a", 3, 2, pool="z"))
    blocks = shown(*groups)

    assert [each.label for each in chart_of(blocks).lanes][:2] == ["z", "pool-00"]
    assert len(chart_of(blocks).lanes) == MOST_LANES
    assert isinstance(blocks[1], Paragraph)
    assert blocks[1].line[0].text == "3 more pools without a lane; the marks are those of all pools."


def test_a_lane_has_few_areas_and_the_others_as_one() -> None:
    drawn = lane(*(group(f"{number:06}", number) for number in range(1, MOST_BANDS + 4)))

    assert len(drawn.bands) == MOST_BANDS
    assert drawn.bands[-1].label == "4 others"
    assert drawn.highest == sum(range(1, MOST_BANDS + 4))


def test_the_tables_have_what_the_drawing_shows() -> None:
    rollout = TimelineMark(
        MarkKind.ROLLOUT, SINCE + HOUR, SINCE + 3 * HOUR, (CHAT,), "rollout 0.31.0 -> 0.32.0 (3/3)", 3
    )
    warning = TimelineMark(MarkKind.WARNING, SINCE + 4 * HOUR, SINCE + 4 * HOUR, (CHAT,), "Bad.", 3)
    worse = warning._replace(kind=MarkKind.CRITICAL, number=1, before="warning")
    ended = TimelineMark(MarkKind.ENDED, SINCE + 5 * HOUR, SINCE + 5 * HOUR, (CHAT,), "Worse.")
    _, marks, numbers = shown(group("a", 3, 2, 0), group("b", 0, 1, 3), marks=[rollout, warning, worse, ended])

    assert rows(marks) == [
        ("2026-11-20 05:00", "fixed", CHAT, "Worse."),
        ("2026-11-20 04:00", "critical", CHAT, "worse, warning -> critical: Bad."),
        ("2026-11-20 04:00", "warning", CHAT, "Bad. (and 2 more)"),
        ("2026-11-20 01:00 – 03:00", "rollout", CHAT, "rollout 0.31.0 -> 0.32.0 (3/3)"),
    ]
    assert rows(numbers) == [
        (CHAT, "former (0.31.0, settings a)", "3", "3", "0", "2026-11-20 00:00", "2026-11-20 02:00"),
        (CHAT, "former (0.31.0, settings b)", "0", "3", "3", "2026-11-20 01:00", "2026-11-21 00:00"),
    ]


@pytest.mark.parametrize("ago", [0, 1])
def test_the_number_at_the_start_is_unknown_where_no_poll_was_recorded(ago: int) -> None:
    _, numbers = shown(group("a", 0, 3), gaps=[Gap(SINCE - ago * HOUR, SINCE + HOUR)])

    assert rows(numbers) == [(CHAT, "former (0.31.0)", "–", "3", "3", "2026-11-20 01:00", "2026-11-21 00:00")]


def test_without_marks_the_headline_denies_only_what_the_timeline_shows() -> None:
    """Changes has more, such as a finding that was suppressed."""
    view = timeline_report(story(), shown(group("a", 3)), CHAT)

    assert view.headline == "chat-70b: no restarts or configuration changes since 20 Nov 00:00 UTC"


def test_marks_that_a_drawing_cannot_separate_are_one_with_their_number() -> None:
    near = [
        TimelineMark(MarkKind.WARNING, SINCE + minute * HOUR / 60, SINCE + minute * HOUR / 60, ("p",), f"W{minute}.")
        for minute in range(12)
    ]
    worst = TimelineMark(MarkKind.CRITICAL, SINCE + 12 * HOUR / 60, SINCE + 12 * HOUR / 60, ("p",), "C.", 2)
    far = TimelineMark(MarkKind.WARNING, SINCE + 9 * HOUR, SINCE + 9 * HOUR, ("p",), "Far.")
    first, second = chart_of(shown(group("a", 3), marks=[*near, worst, far])).rows["New or worse"]

    assert (first.kind, first.number, len(first.lines)) == (MarkKind.CRITICAL, 14, MOST_LINES + 1)
    assert first.lines[-1] == "and 5 more"
    assert second == Cluster((far,))
    assert mark_line(worst) == "20 Nov 00:12 UTC, p: new critical: C. (and 1 more)"
    assert mark_line(worst._replace(before="warning", number=1)) == (
        "20 Nov 00:12 UTC, p: worse, warning -> critical: C."
    )


def test_a_setting_has_one_shade_a_value_in_all_pools() -> None:
    groups = (group("16", 4, 0), group("32", 0, 4), group("32", 2, pool="embed"))
    blocks = setting_blocks("cache_config.block_size", Timeline(DAY, groups), [CHAT, "embed"], HERE)
    shades = {(each.label, band.label): band.shade for each in chart_of(blocks).lanes for band in each.bands}

    assert shades == {(CHAT, "32"): "f0", (CHAT, "16"): "f1", ("embed", "32"): "f0"}
    assert len(chart_of(setting_blocks("x", Timeline(DAY, groups), ["embed"], HERE)).lanes) == 1


def test_a_replica_has_strips_of_settings_state_and_version() -> None:
    pool = next(each for each in story().pools if each.name == CHAT)
    groups = (
        group("old1234567", 1, 0, pool="document"),
        group(pool.cohorts[0].document, 0, 1, pool="document", version="0.32.0"),
        group("up", 1, 0, 1, pool="state", version=""),
        group("down", 0, 1, 0, pool="state", version=""),
        group("0.32.0", 1, pool="version", version=""),
    )
    lanes = chart_of(replica_blocks(story(), CHAT, Timeline(DAY, groups), HERE)).lanes

    assert [(each.label, [(band.text, band.shade) for band in each.bands]) for each in lanes] == [
        ("Settings", [("A", "A"), ("0.31.0, settings old123", "g1")]),
        ("State", [("up", "up"), ("down", "down")]),
        ("Version", [("0.32.0", "f0")]),
    ]
    assert all(each.is_strip for each in lanes)
    assert lanes[1].moments[1].lines == ("down",)


@pytest.mark.parametrize(
    ("age", "name"),
    [(0.01, "1h"), (1, "1h"), (1.01, "6h"), (6, "6h"), (7, "24h"), (24, "24h"), (25, "24h"), (9000, "24h")],
)
def test_the_default_is_the_shortest_range_with_the_first_poll_at_most_a_day(age: float, name: str) -> None:
    assert default_range(SINCE - age * HOUR, SINCE) == name


def test_the_default_is_a_day_without_any_poll() -> None:
    assert default_range(None, SINCE) == "24h"
