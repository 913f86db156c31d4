"""Figures of capacity: what is drawn where, and labels that can be read at any number of bars."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dashboard.fleet.pieces import Kind, Link, page
from dashboard.views.blocks import Bar, Chart, Tone
from dashboard.web.charts import (
    DARK,
    LIGHT,
    NARROWEST_ALONE,
    Palette,
    axis_of,
    figure_of,
    first_html,
    positions,
    shortened,
    ticks,
)

CONFIG = tomllib.loads((Path(__file__).parents[2] / ".streamlit" / "config.toml").read_text(encoding="utf-8"))


def bar(group: str = "a", tick: str = "0", value: float | None = 10.0, *, key: str = "", **more: Any) -> Bar:
    """A bar of cohort A, of its group's replica unless another key is given."""
    target = Link(Kind.REPLICA, key or f"http://{group}:8000")
    return Bar(f"{group}, rank {tick}", value, **{"letter": "A", "link": target, "group": group, "tick": tick, **more})


def draw(*bars: Bar, median: float | None = None, label: str = "") -> dict[str, Any]:
    """The figure as Plotly's own JSON."""
    chart = Chart("c", "Title", "tokens", bars, median, median_label=label, is_wide=False)
    drawn: dict[str, Any] = figure_of(chart, LIGHT).to_plotly_json()
    return drawn


@pytest.mark.parametrize(("colours", "theme"), [(LIGHT, "light"), (DARK, "dark")])
def test_charts_have_the_colours_of_the_theme(colours: Palette, theme: str) -> None:
    """Colours are written twice, for Streamlit and for Plotly, and are the same."""
    theme_options = CONFIG["theme"][theme]
    assert list(colours.cohorts) == theme_options["chartCategoricalColors"]
    assert (colours.ink, colours.line, colours.ground) == (
        theme_options["textColor"],
        theme_options["borderColor"],
        theme_options["backgroundColor"],
    )
    assert (colours.critical, colours.unknown) == (theme_options["redColor"], theme_options["grayColor"])


def test_there_is_one_trace_a_cohort_in_the_order_of_letters() -> None:
    """The legend counts replicas, not bars; what is in no cohort comes last and has no legend."""
    drawn = draw(bar("b", letter="B"), bar("a", "0"), bar("a", "1"), bar("c", letter=""))
    assert [trace["name"] for trace in drawn["data"]] == ["A ×1", "B ×1", "no cohort"]
    assert [trace["showlegend"] for trace in drawn["data"]] == [True, True, False]
    assert drawn["data"][0]["marker"]["color"] == LIGHT.cohorts[0]
    assert drawn["data"][2]["marker"]["color"] == LIGHT.unknown


def test_a_click_returns_the_place_of_its_bar() -> None:
    drawn = draw(bar("a"), bar("b", letter="B"), bar("c"))
    assert [[list(place) for place in trace["customdata"]] for trace in drawn["data"]] == [[[0], [2]], [[1]]]


def test_an_outlier_is_outlined_and_named() -> None:
    trace = draw(bar("a"), bar("b", mark="−18%", tone=Tone.WARNING))["data"][0]
    assert list(trace["marker"]["line"]["width"]) == [0, 2]
    assert list(trace["text"]) == ["", "<b>−18%</b>"]
    assert trace["marker"]["line"]["color"] == LIGHT.critical


def test_a_named_bar_can_be_clicked() -> None:
    """When a bar with text is selected plotly.js reads the text's look from here, and fails when it is not there."""
    (trace,) = draw(bar("a"), bar("b", mark="−18%", tone=Tone.WARNING))["data"]
    assert trace["selected"]["textfont"] == {"color": LIGHT.critical}


def test_among_many_bars_an_outlier_is_only_outlined() -> None:
    """Its name would cover its neighbours."""
    trace = draw(
        *[
            bar(f"r{index}", mark="−18%" if index == 7 else "", tone=Tone.WARNING if index == 7 else Tone.PLAIN)
            for index in range(200)
        ]
    )["data"][0]
    assert set(trace["text"]) == {""}
    assert trace["marker"]["line"]["width"][7] == 1


def test_an_upper_bound_is_hatched_and_what_does_not_count_is_pale() -> None:
    marker = draw(bar("a"), bar("b", is_at_most=True), bar("c", is_faint=True))["data"][0]["marker"]
    assert list(marker["pattern"]["shape"]) == ["", "/", ""]
    assert marker["opacity"][2] < marker["opacity"][0]


def test_a_bar_stands_inside_its_whole() -> None:
    """The whole is drawn first, behind it, and the axis reaches above it."""
    drawn = draw(bar("a", value=46.0, whole=80.0))
    assert [list(trace["y"]) for trace in drawn["data"]] == [[80.0], [46.0]]
    assert drawn["layout"]["barmode"] == "overlay"
    assert drawn["layout"]["yaxis"]["range"][1] > 80


def test_a_median_is_a_dashed_line_over_all_bars() -> None:
    drawn = draw(bar("a"), bar("b"), bar("c"), median=9.5, label="median <9.5>")
    line, label = drawn["layout"]["shapes"][0], drawn["layout"]["annotations"][0]
    assert (line["x0"], line["x1"], line["y0"], line["y1"]) == (-0.5, 2.5, 9.5, 9.5)
    assert label["text"] == "median &lt;9.5&gt;"


def test_foreign_names_are_text_and_not_markup() -> None:
    """Plotly reads tags in labels and hover texts."""
    drawn = draw(bar("<a href=x>", "0", hover=("<b>1</b>", "two")), bar("<a href=x>", "1"))
    assert drawn["data"][0]["hovertext"][0] == "&lt;b&gt;1&lt;/b&gt;<br>two"
    assert drawn["layout"]["annotations"][0]["text"] == "<b>&lt;a href=x&gt;</b>"


def test_groups_of_several_bars_stand_apart() -> None:
    assert positions(["a", "a", "b"]) == pytest.approx((0, 1, 2.7))
    assert positions(["a", "b", "c"]) == (0, 1, 2)
    assert positions([]) == ()


def test_bars_that_link_to_one_page_with_other_choices_each_have_a_name() -> None:
    drawn = draw(*(Bar(name, 10.0, link=page("capacity", pool=name)) for name in ("chat", "embed")))

    assert drawn["layout"]["xaxis"]["ticktext"] == ["chat", "embed"]


def axis(*bars: Bar) -> Any:
    """The labels under these bars."""
    return axis_of(bars, positions([each.link.key for each in bars if each.link]))


def test_ranks_are_numbered_above_the_names_of_their_replicas() -> None:
    labels = axis(*[bar(name, str(rank)) for name in ("decode-0", "prefill-0") for rank in range(8)])
    assert labels.texts[:9] == ("0", "1", "2", "3", "4", "5", "6", "7", "0")
    assert [name for _, name in labels.names] == ["decode-0", "prefill-0"]


def test_a_chart_on_its_own_has_room_for_longer_names() -> None:
    """Five pools by their whole names, level."""
    pools = [bar(name) for name in ("chat-70b", "deepseek-v3/decode", "deepseek-v3/prefill", "gemma-27b", "qwen3-8b")]
    alone = axis_of(pools, positions([each.link.key for each in pools if each.link]), NARROWEST_ALONE)

    assert axis(*pools).angle == -45
    assert (alone.angle, alone.texts[2]) == (0, "deepseek-v3/prefill")


def test_several_cohorts_are_told_apart_by_letters_too() -> None:
    """To some eyes two of the colours are one; a bar without a cohort or value has no letter."""
    bars = (bar("a"), bar("b", letter="B"), bar("c", letter=""), bar("d", letter="C", value=None))

    letters = [each["text"] for each in draw(*bars)["layout"]["annotations"]]
    assert letters == ["<b>A</b>", "<b>B</b>"]


def test_of_two_hundred_bars_some_are_named() -> None:
    """No label touches its neighbour."""
    labels = axis(*[bar(f"chat-{index:03}") for index in range(200)])
    assert 10 <= len(labels.texts) <= 25
    assert labels.angle == 0


def test_the_share_in_use_is_drawn_inside_each_bar_that_reports_one() -> None:
    drawn = draw(bar("a", value=10.0, used=0.5), bar("b", value=10.0), bar("c", value=None, used=0.5))
    inner = drawn["data"][-1]

    assert list(inner["y"]) == [5.0, None, None]
    assert inner["width"] < drawn["data"][0]["width"]
    assert len(draw(bar("a"), bar("b"))["data"]) == 1


@pytest.mark.parametrize(
    ("names", "common", "short"),
    [
        (["chat-70b-01", "chat-70b-02"], "chat-70b-", ["01", "02"]),
        (["10.0.0.1:8000", "10.0.0.12:8000"], "10.0.0.", ["1:8000", "12:8000"]),
        (["alone-1"], "", ["alone-1"]),
        (["a-", "a-b"], "a-", ["a-", "b"]),
        (["decode", "decoy"], "", ["decode", "decoy"]),
        ([], "", []),
    ],
)
def test_what_all_names_begin_with_is_told_once(names: list[str], common: str, short: list[str]) -> None:
    assert shortened(names) == (common, short)


def test_what_labels_leave_out_stands_under_the_axis() -> None:
    assert draw(bar("<x>-1"), bar("<x>-2"))["layout"]["xaxis"]["title"]["text"] == "&lt;x&gt;-*"
    assert draw(bar("a"), bar("b"))["layout"]["xaxis"]["title"]["text"] == ""


@pytest.mark.parametrize(
    ("highest", "marks"),
    [(1.87e6, (0, 5e5, 1e6, 1.5e6)), (91.2, (0, 25, 50, 75)), (1, (0, 0.25, 0.5, 0.75, 1)), (4.1, (0, 2, 4))],
)
def test_an_axis_has_round_marks(highest: float, marks: tuple[float, ...]) -> None:
    assert ticks(highest) == marks


def test_the_first_drawing_has_a_box_for_each_known_bar_at_its_place_in_the_plot() -> None:
    chart = Chart(
        "c", "Title", "tokens", (bar(value=10.0), bar("b", value=None), bar("c", value=5.0, letter="B")), None
    )
    html = first_html(figure_of(chart, LIGHT))

    heights = [float(each) for each in re.findall(r"height:([\d.]+)%", html)]
    lefts = [float(each) for each in re.findall(r"left:([\d.]+)%", html)]
    assert heights == [pytest.approx(2 * heights[1], abs=0.01), heights[1]]
    assert lefts[0] + lefts[1] == pytest.approx(100 * (1 - 0.56 / 3.4), abs=0.01), "symmetrical"
    assert [each for each in LIGHT.cohorts if each in html] == list(LIGHT.cohorts[:2])
