"""A chart as SVG: bars to scale, bounds and marks, cut texts, well-formed for any input."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.render.svg import (
    MOST_DESCRIBED,
    MOST_ON_A_PAGE,
    WIDTH,
    amount,
    bar_text,
    described,
    to_svg,
    to_svgs,
)
from dashboard.views.blocks import Bar, Chart, Tone
from tests.builders import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"
texts = st.text(max_size=60)
bars = st.builds(
    Bar,
    texts,
    st.none() | st.floats(),
    st.booleans(),
    st.sampled_from(["", "A", "F", "AB", "?"]),
    texts,
    st.sampled_from(list(Tone)),
)
charts = st.builds(
    Chart,
    st.just("ranks"),
    texts,
    texts,
    st.lists(bars, max_size=8).map(tuple),
    st.none() | st.floats(),
    st.integers(0, 9),
)


def chart(*given_bars: Bar, median: float | None = None, more: int = 0) -> Chart:
    return Chart("ranks", "KV cache tokens", "tokens", given_bars, median, more)


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  our own


def widths(svg: str) -> list[float]:
    """The widths of the bars: rectangles in the colour of a cohort."""
    return [float(each.get("width", "")) for each in parsed(svg).iter(f"{SVG}rect") if each.get("class", "")[:1] == "f"]


def words(svg: str) -> list[str]:
    return [each.text or "" for each in parsed(svg).iter(f"{SVG}text")]


def test_a_bar_is_as_long_as_its_value_and_an_upper_bound_is_hatched() -> None:
    exact, bound = to_svg(chart(Bar("a", 50.0), Bar("b", 200.0))), to_svg(chart(Bar("a", 5.0, is_at_most=True)))
    short, long = widths(exact)

    assert long == pytest.approx(4 * short, rel=0.01)
    assert ('class="hatch"' in exact, 'class="hatch"' in bound) == (False, True)
    assert "≤ 5" in words(bound)
    assert [bar_text(Bar("a", 5.0)), bar_text(Bar("a", None))] == ["5", "unknown"]


def test_the_share_in_use_is_a_narrow_bar_inside_its_bar_and_unknown_use_is_none() -> None:
    used, unknown = to_svg(chart(Bar("a", 50.0, used=0.6))), to_svg(chart(Bar("a", 50.0)))
    (inner,) = (each for each in parsed(used).iter(f"{SVG}rect") if each.get("class") == "used")

    assert float(inner.get("width", "")) == pytest.approx(0.6 * widths(used)[0], rel=0.01)
    assert 'class="used"' not in unknown
    assert "a: 50, 60% in use" in described(chart(Bar("a", 50.0, used=0.6)))


def test_a_description_counts_the_bars_that_it_does_not_name() -> None:
    many = chart(*(Bar(f"bar {number}", 1.0) for number in range(MOST_DESCRIBED + 5)), more=7)

    assert described(many).endswith(f"bar {MOST_DESCRIBED - 1}: 1; 12 more bars")
    assert [described(chart()), described(chart(Bar("a", 0.0)))] == ["0 bars in tokens. ", "1 bar in tokens. a: 0"]


def test_a_long_name_is_cut_in_the_middle_with_the_whole_as_its_title() -> None:
    name = "a-replica-with-a-very-long-name-" * 4 + "rank 7"
    svg = to_svg(chart(Bar(name, 5.0)))
    label = next(each for each in parsed(svg).iter(f"{SVG}text") if each.find(f"{SVG}title") is not None)

    assert label.findtext(f"{SVG}title") == name
    assert re.fullmatch(r"a-replica.{0,30}….{0,30}rank 7", "".join(label.itertext()).removeprefix(name))


def test_a_long_chart_is_split_into_parts_of_one_scale() -> None:
    many = chart(*(Bar(f"rank {number}", number + 1.0) for number in range(MOST_ON_A_PAGE + 1)), median=20.0, more=7)
    first, second = to_svgs(many)
    (last,) = widths(second)

    assert len(widths(first)) == MOST_ON_A_PAGE
    assert widths(first)[9] == pytest.approx(10 * last / (MOST_ON_A_PAGE + 1), 0.01)
    for part, more in ((first, 10), (second, 7)):
        assert "median 20" in words(part)
        assert (parsed(part).findtext(f"{SVG}desc") or "").endswith(f"; {more} more bars")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.0, "0"),
        (0.35, "0.35"),
        (3.0, "3"),
        (46.42, "46.4"),
        (131_072.0, "131,072"),
        (1_640_000.0, "1.64 M"),
        (2_000_000.0, "2 M"),
        (3.4e12, "3.4 T"),
        (7e117, "7e+117"),
    ],
)
def test_a_value_is_written_short(value: float, written: str) -> None:
    assert amount(value) == written


@pytest.mark.parametrize(
    ("longest", "ticks"),
    [
        (4.0, ["0", "1", "2", "3", "4"]),
        (1_700_000.0, ["0", "0.25 M", "0.5 M", "0.75 M", "1 M", "1.25 M", "1.5 M"]),
        (90_000.0, ["0", "20 k", "40 k", "60 k", "80 k"]),
    ],
)
def test_the_axis_has_round_values_in_one_unit(longest: float, ticks: list[str]) -> None:
    (svg,) = to_svgs(chart(Bar("a", longest)))

    assert [each.text for each in parsed(svg).iter(f"{SVG}text") if each.get("text-anchor") == "middle"] == ticks


def test_foreign_text_is_never_markup() -> None:
    attack = Chart(HOSTILE, HOSTILE, HOSTILE, (Bar(HOSTILE, 1.0, letter=HOSTILE, mark=HOSTILE),))
    tags = {each.tag.removeprefix(SVG) for each in parsed(to_svg(attack, context=HOSTILE)).iter()}

    assert tags == {"svg", "title", "desc", "rect", "path", "text"}


@given(charts)
def test_any_chart_is_well_formed_inside_its_frame_and_fetches_nothing(any_chart: Chart) -> None:
    svg = to_svg(any_chart, context=any_chart.title)
    root = parsed(svg)

    assert "url(" not in re.sub(r">[^<]*<", "><", svg)
    assert svg == to_svg(any_chart, context=any_chart.title)
    for each in root.iter(f"{SVG}rect"):
        assert 0 <= float(each.get("x", 0)) <= float(each.get("x", 0)) + float(each.get("width", 0)) <= WIDTH
    for each in root.iter(f"{SVG}text"):
        assert 0 <= float(each.get("x", "")) <= WIDTH
