"""A chart over time as SVG: areas to scale, gaps, marks with tooltips, well-formed for any input."""

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis.timeline import CountStep, MarkKind, Period, Timeline, TimelineGroup, TimelineMark
from dashboard.fleet import Gap
from dashboard.fleet.traffic import TrafficSum
from dashboard.render.html import to_html
from dashboard.render.svg_timeline import MARGIN, MOST_TICKS, PLOT, RATES_ALONE, draw_times, ticks
from dashboard.views.overview import overview_report
from dashboard.views.time_chart import Band, TimeChart, lane_of, rate_lane
from dashboard.views.timeline import RANGES, with_timeline
from tests.builders import HOSTILE, story
from tests.used import traffic

SVG = "{http://www.w3.org/2000/svg}"
SINCE = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = Period(SINCE, SINCE + 24 * HOUR)
texts = st.text(max_size=40)
times = st.integers(-5, 40).map(lambda hours: SINCE + hours * HOUR)
marks = st.builds(
    TimelineMark, st.sampled_from(MarkKind), times, times, st.tuples(texts), texts, st.integers(1, 3)
).map(lambda mark: mark._replace(at=min(mark.at, mark.until), until=max(mark.at, mark.until)))
gaps = st.builds(Gap, times, st.none())
groups = st.builds(
    lambda numbers, key: TimelineGroup(
        "pool", key, "", tuple(CountStep(SINCE + place * HOUR, each, SINCE) for place, each in enumerate(numbers))
    ),
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
    texts,
)
named = st.builds(Band, groups, texts, st.sampled_from(["A", "AB", "f3", "g2", "up", "partial", "down"]), texts)


def chart(
    *numbers: int, marks: tuple[TimelineMark, ...] = (), gaps: tuple[Gap, ...] = (), shown: datetime | None = None
) -> TimeChart:
    """One lane with one area: a number of replicas for each hour, the last one until the end."""
    steps = tuple(CountStep(SINCE + place * HOUR, number, SINCE) for place, number in enumerate(numbers))
    timeline = Timeline(DAY, (), marks, gaps)
    lane = lane_of("chat", [Band(TimelineGroup("chat", "a", "", steps), "A (0.32.0)", "A", "A")], timeline)
    return TimeChart("timeline", "Replicas per cohort", DAY, (lane,), marks, gaps, shown)


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  our own


def by_class(svg: str, name: str) -> list[ET.Element]:
    return [each for each in parsed(svg).iter() if each.get("class") == name]


def words(svg: str) -> list[str]:
    return [each.text or "" for each in parsed(svg).iter(f"{SVG}text")]


def test_an_area_has_steps_at_the_times_of_the_changes() -> None:
    area, _ = by_class(draw_times(chart(4, 2)), "f0")  # the other one is the key
    hour = PLOT / 24
    (x1, low, high, end1), (x2, _, half, end2) = (
        [float(number) for number in re.findall(r"[\d.]+", part)][:4] for part in area.get("d", "").split("z")[:2]
    )

    assert [x1, end1, x2, end2] == pytest.approx([0, hour, hour, PLOT], abs=0.1)
    assert low - half == pytest.approx((low - high) / 2, abs=0.1)


def test_a_gap_is_hatched_and_named_and_has_no_area() -> None:
    svg = draw_times(chart(4, gaps=(Gap(SINCE + 6 * HOUR, SINCE + 18 * HOUR),)))

    assert len(by_class(svg, "gap")) == len(by_class(svg, "hatch")) == 1
    assert "no data" in words(svg)
    assert "20 Nov 06:00 – 18:00 UTC\nno data: no poll was recorded" in [
        each.text for each in parsed(svg).iter(f"{SVG}title")
    ]
    assert (by_class(svg, "f0")[0].get("d") or "").count("z") == 2


def test_each_kind_of_mark_has_its_row_shape_and_time() -> None:
    at = SINCE + 6 * HOUR
    every = tuple(TimelineMark(kind, at, at + HOUR, ("chat",), f"what {kind}") for kind in MarkKind)
    svg = draw_times(chart(4, marks=every))
    known = {"rollout", "moved", "restart", "critical", "good"}
    shapes = [
        next(name for part in each.iter() if (name := part.get("class")) in known) for each in by_class(svg, "mark")
    ]

    assert shapes == [
        "rollout",
        "moved",
        "restart",
        "critical",
        "good",
    ]  # a critical finding and a warning at one time are one
    assert {"Rollouts", "Settings changed", "Restarts", "New or worse", "Fixed", "2", "what rollout"} <= set(words(svg))
    assert {each.get("data-at") for each in by_class(svg, "mark")} == {str(int((at + HOUR).timestamp() * 1000))}
    assert len(by_class(svg, "begin")) == 2


def test_a_lane_of_rates_has_a_line_at_its_height_and_the_restarts_of_its_pool() -> None:
    restarts = tuple(TimelineMark(MarkKind.RESTART, SINCE + HOUR, SINCE + HOUR, (pool,), "") for pool in ("chat", "b"))
    band = Band(TimelineGroup("chat", "a", "", (CountStep(SINCE, 4, SINCE),)), "A (0.32.0)", "A", "A")
    used = [TrafficSum(SINCE, DAY.until, "chat", "a", traffic(0.25))]
    lanes = (*chart(4).lanes, rate_lane("chat", [(band, used)], DAY, 20))
    svg = draw_times(TimeChart("timeline", "Replicas per cohort", DAY, lanes, restarts))
    top = float(by_class(svg, "begin")[0].get("y1") or 0)
    outline = next(drawn for each in reversed(by_class(svg, "f0")) if (drawn := each.get("d")))
    low, high = map(float, re.findall(r"M[\d.]+ ([\d.]+)V([\d.]+)", outline)[0])

    assert len(by_class(svg, "begin")) == 1
    assert (low + high) / 2 == pytest.approx(top + 0.75 * RATES_ALONE, abs=0.2)
    assert {"Prefix hit rate", "A", "A ×4", "100%", "50%", "0%"} <= set(words(svg))


def test_the_time_that_the_page_shows_is_a_line_inside_of_the_range() -> None:
    lines = [by_class(draw_times(chart(4, shown=SINCE + hours * HOUR)), "shown") for hours in (12, 30)]

    assert [len(each) for each in lines] == [1, 0]
    assert lines[0][0].get("x1") == lines[0][0].get("x2") == f"{PLOT / 2:.0f}"


@pytest.mark.parametrize("width", RANGES.values(), ids=RANGES)
def test_ticks_are_round_times(width: timedelta) -> None:
    found = ticks(TimeChart("", "", Period(SINCE + HOUR / 7 - width, SINCE + HOUR / 7), ()))

    assert 5 <= len(found) <= MOST_TICKS + 1
    assert {each.second for each in found} == {0}
    assert {each.minute % 5 for each in found} == {0}


@given(st.lists(named, max_size=4), st.lists(marks, max_size=6), st.lists(gaps, max_size=2), texts)
def test_any_chart_is_well_formed(areas: list[Band], marks: list[TimelineMark], gaps: list[Gap], text: str) -> None:
    timeline = Timeline(DAY, (), tuple(marks), tuple(gaps))
    lanes = tuple(lane_of(text, areas, timeline, is_strip=is_strip) for is_strip in (False, True))
    drawn = TimeChart("timeline", text, DAY, lanes, tuple(marks), tuple(gaps), SINCE)

    for svg in (draw_times(drawn), draw_times(drawn, context=text), draw_times(drawn, is_wide=True)):
        assert all(float(each.get("width", "0").rstrip("%")) >= 0 for each in parsed(svg).iter(f"{SVG}rect"))


def test_a_file_has_its_size_and_a_page_gives_the_drawing_one() -> None:
    file, page = parsed(draw_times(chart(4))), parsed(draw_times(chart(4), is_wide=True))

    assert (file.get("viewBox"), file.get("width")) == (f"{-MARGIN:.0f} 0 1200 {file.get('height')}", "1200")
    assert (page.get("viewBox"), page.get("width"), page.get("height")) == (None, "100%", file.get("height"))
    assert MARGIN + PLOT + MARGIN == 1200


def test_on_a_page_times_are_shares_of_the_width_and_no_text_is_stretched() -> None:
    """Areas are in the unit of a file, and stretched with it; whatever has a size of its own is not."""
    at = SINCE + 6 * HOUR
    every = tuple(TimelineMark(kind, at, at + HOUR, ("chat",), f"what {kind}") for kind in MarkKind)
    svg = draw_times(chart(4, 2, marks=every, gaps=(Gap(at, at + 6 * HOUR),), shown=SINCE + 18 * HOUR), is_wide=True)
    stretched = [each for each in parsed(svg).iter(f"{SVG}svg") if each.get("preserveAspectRatio") == "none"]
    kept = {each.get("x"): [part.get("class") for part in each] for each in parsed(svg) if each.get("overflow")}

    assert {each.get("viewBox", "").split()[2] for each in stretched} == {f"{PLOT:.0f}"}
    assert {part.tag for each in stretched for part in each} == {f"{SVG}path"}
    assert [each.get("x1") for each in by_class(svg, "shown")] == ["75.000%"]
    assert [each.get("x") for each in by_class(svg, "moment")] == ["0.000%", "4.167%", "50.000%"]
    assert {each.get("x") for each in by_class(svg, "hit")} == {f"{(PLOT / 4 - 6) / PLOT * 100:.3f}%"}
    assert not kept or set(kept) <= {"25.000%"}


def test_a_page_has_room_for_fewer_texts_than_a_file() -> None:
    """The times of a page are at least 700 px wide, those of a file 1,172; on a wider page nothing is written over."""
    long = TimelineMark(MarkKind.ROLLOUT, SINCE, SINCE, ("chat",), "x" * 125)
    next_one = long._replace(at=SINCE + 22 * HOUR, until=SINCE + 22 * HOUR, text="next")
    file, page = (words(draw_times(chart(4, marks=(long, next_one)), is_wide=each)) for each in (False, True))

    assert "x" * 125 in file
    assert "x" * 125 not in page


def test_an_export_has_the_drawing_and_nothing_foreign_is_markup() -> None:
    mark = TimelineMark(MarkKind.ROLLOUT, SINCE, SINCE, (HOSTILE,), HOSTILE)
    html = to_html(with_timeline(overview_report(story()), (chart(4, marks=(mark,)),)))

    assert '<div class="drawing times"><svg' in html
    assert "<script" not in html
    assert "<img" not in html
