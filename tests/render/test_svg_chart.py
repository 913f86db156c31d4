"""A chart is drawn without a browser: every bar in its place, every text in its room, nothing foreign as markup."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.render.svg_chart import (
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


def drawn(svg: str) -> list[ET.Element]:
    """The bars: rectangles in a cohort's colour that are no ground and no letter."""
    return [each for each in parsed(svg).iter(f"{SVG}rect") if each.get("class", "").startswith("f")]


def words(svg: str) -> list[str]:
    return [each.text or "" for each in parsed(svg).iter(f"{SVG}text")]


def test_a_bar_is_as_long_as_its_value_from_zero() -> None:
    short, long = drawn(to_svg(chart(Bar("a", 50.0), Bar("b", 200.0))))

    assert short.get("x") == long.get("x")
    assert float(long.get("width", "")) == pytest.approx(4 * float(short.get("width", "")), rel=0.01)


def test_an_upper_bound_is_hatched_and_says_so() -> None:
    exact, most = to_svg(chart(Bar("a", 5.0))), to_svg(chart(Bar("a", 5.0, is_at_most=True)))

    assert 'class="hatch"' in most
    assert 'class="hatch"' not in exact
    assert "≤ 5" in words(most)
    assert "5" in words(exact)


def test_what_stands_out_has_a_shape_a_word_and_its_mark() -> None:
    svg = to_svg(chart(Bar("a", 5.0, letter="B", mark="−18 %", tone=Tone.CRITICAL)))

    assert 'class="critical"' in svg
    assert "−18 %" in words(svg)
    assert "B" in words(svg)
    assert "a (cohort B): 5, −18 %, critical" in described(
        chart(Bar("a", 5.0, letter="B", mark="−18 %", tone=Tone.CRITICAL))
    )


def test_a_long_description_counts_what_it_does_not_name() -> None:
    many = chart(*(Bar(f"bar {number}", 1.0) for number in range(MOST_DESCRIBED + 5)), more=7)

    assert described(many).endswith(f"bar {MOST_DESCRIBED - 1}: 1; 12 more bars")


def test_alone_it_has_its_title_a_ground_and_its_context_and_in_a_page_neither() -> None:
    alone = to_svg(chart(Bar("a", 5.0), more=3), context="prod-eu · not frozen")
    within = to_svg(chart(Bar("a", 5.0), more=3), context="prod-eu · not frozen", standalone=False)

    assert words(alone)[0] == "KV cache tokens"
    assert words(alone)[-2:] == ["and 3 more bars, not shown", "prod-eu · not frozen"]
    assert parsed(alone)[2].get("width") == str(WIDTH)
    assert "KV cache tokens" not in words(within)
    assert "prod-eu" not in within


def test_a_long_name_is_cut_in_the_middle_and_there_whole_as_its_title() -> None:
    name = "a-replica-with-a-very-long-name-" * 4 + "rank 7"
    svg = to_svg(chart(Bar(name, 5.0)))
    label = next(each for each in parsed(svg).iter(f"{SVG}text") if each.find(f"{SVG}title") is not None)

    assert label.findtext(f"{SVG}title") == name
    shown = "".join(label.itertext()).removeprefix(name)
    assert shown.startswith("a-replica")
    assert "…" in shown
    assert shown.endswith("rank 7")
    assert len(shown) < 50


def test_pieces_of_a_long_chart_have_one_scale_and_hold_every_bar_once() -> None:
    many = chart(*(Bar(f"rank {number}", number + 1.0) for number in range(MOST_ON_A_PAGE + 1)), median=20.0, more=7)
    first, second = to_svgs(many)

    assert len(drawn(first)) == MOST_ON_A_PAGE
    (last,) = drawn(second)
    per_unit = float(last.get("width", "")) / (MOST_ON_A_PAGE + 1)
    assert float(drawn(first)[9].get("width", "")) == pytest.approx(10 * per_unit, 0.01)
    assert "median 20" in words(first)
    assert "median 20" in words(second)
    assert (parsed(first).findtext(f"{SVG}desc") or "").endswith("; 10 more bars")
    assert (parsed(second).findtext(f"{SVG}desc") or "").endswith("; 7 more bars")


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


def test_a_bar_tells_its_value_its_bound_or_that_it_is_not_known() -> None:
    assert [bar_text(Bar("a", 5.0)), bar_text(Bar("a", 5.0, is_at_most=True)), bar_text(Bar("a", None))] == [
        "5",
        "≤ 5",
        "not known",
    ]


@pytest.mark.parametrize(
    ("longest", "ticks"),
    [
        (4.0, ["0", "1", "2", "3", "4"]),
        (1_700_000.0, ["0", "0.25 M", "0.5 M", "0.75 M", "1 M", "1.25 M", "1.5 M"]),
        (90_000.0, ["0", "20 k", "40 k", "60 k", "80 k"]),
    ],
)
def test_the_axis_has_round_values_in_one_unit(longest: float, ticks: list[str]) -> None:
    svg = to_svg(chart(Bar("a", longest)), standalone=False)
    below = [each for each in parsed(svg).iter(f"{SVG}text") if each.get("text-anchor") == "middle"]

    assert [each.text for each in below] == ticks


def test_no_bar_at_all_is_an_empty_chart_that_can_be_read() -> None:
    assert parsed(to_svg(chart())).findtext(f"{SVG}desc") == "0 bars in tokens. "
    assert parsed(to_svg(chart(Bar("a", 0.0)))).findtext(f"{SVG}desc") == "1 bar in tokens. a: 0"


def test_an_attack_stays_text() -> None:
    attack = Chart(HOSTILE, HOSTILE, HOSTILE, (Bar(HOSTILE, 1.0, letter=HOSTILE, mark=HOSTILE),))
    svg = to_svg(attack, context=HOSTILE)

    assert {each.tag.removeprefix(SVG) for each in parsed(svg).iter()} == {
        "svg",
        "title",
        "desc",
        "rect",
        "path",
        "text",
    }
    assert "<script" not in svg


@given(charts)
def test_any_chart_is_well_formed_fetches_nothing_and_is_the_same_twice(any_chart: Chart) -> None:
    svg = to_svg(any_chart, context=any_chart.title)

    parsed(svg)
    assert "url(" not in re.sub(r">[^<]*<", "><", svg)
    assert svg == to_svg(any_chart, context=any_chart.title)


@given(charts)
def test_everything_stands_inside_the_drawing(any_chart: Chart) -> None:
    root = parsed(to_svg(any_chart))

    for each in root.iter(f"{SVG}rect"):
        assert float(each.get("x", 0)) >= 0
        assert float(each.get("x", 0)) + float(each.get("width", 0)) <= WIDTH
    for each in root.iter(f"{SVG}text"):
        assert 0 <= float(each.get("x", "")) <= WIDTH
