"""Upright bars of pages: what is drawn where, and labels that can be read at any number of bars."""

import re
from typing import Any

import pytest

from dashboard.fleet.pieces import Kind, Link, page
from dashboard.render.bars import NARROWEST_ALONE, axis_of, draw_bars, positions, shortened, ticks
from dashboard.views.blocks import Bar, Chart, Tone


def bar(group: str = "a", tick: str = "0", value: float | None = 10.0, *, key: str = "", **more: Any) -> Bar:
    """A bar of cohort A, of its group's replica unless another key is given."""
    target = Link(Kind.REPLICA, key or f"http://{group}:8000")
    return Bar(f"{group}, rank {tick}", value, **{"letter": "A", "link": target, "group": group, "tick": tick, **more})


def draw(*bars: Bar, median: float | None = None, label: str = "") -> str:
    chart = Chart("c", "Title", "tokens", bars, median, median_label=label, is_wide=False)
    return str(draw_bars(chart, lambda link: link.key))


def columns(drawn: str) -> list[tuple[str, str]]:
    """The classes and the style of each bar."""
    return re.findall(r'class="column ([^"]*)" style="([^"]*)"', drawn)


def share(name: str, style: str) -> float:
    """A share of the plot, in percent."""
    (found,) = re.findall(rf"\b{name}:([\d.]+)%", style)
    return float(found)


def test_a_bar_has_the_colour_of_its_cohort_and_the_legend_counts_replicas() -> None:
    """Not bars; what is in no cohort has its own colour and no legend."""
    drawn = draw(bar("b", letter="B"), bar("a", "0"), bar("a", "1"), bar("c", letter=""))

    assert [css.split()[0] for css, _ in columns(drawn)] == ["c1", "c0", "c0", "no-cohort"]
    assert re.findall(r"</i> (\w+ ×\d+)</span>", drawn) == ["A ×1", "B ×1"]
    assert "×" not in draw(bar("a"), bar("b"))


def test_a_known_bar_links_to_its_replica_and_has_its_share_of_the_height() -> None:
    drawn = draw(bar(value=10.0), bar("b", value=None), bar("c", value=5.0))
    (_, first), (_, last) = columns(drawn)

    assert re.findall('<a tabindex="-1" href="([^"]*)"', drawn) == ["http://a:8000", "http://c:8000"]
    assert share("height", first) == pytest.approx(2 * share("height", last), abs=0.01)
    assert share("left", first) + share("left", last) + share("width", last) == pytest.approx(100, abs=0.01)
    assert '<i class="column' in draw(Bar("alone", 1.0))


def test_a_bar_of_a_waterfall_begins_where_the_one_before_ends() -> None:
    (_, first), (_, last) = columns(draw(bar("a", value=4.0), bar("b", value=6.0, start=4.0)))

    assert share("bottom", first) == 0
    assert share("bottom", last) == share("height", first)


def test_an_outlier_is_outlined_and_named() -> None:
    drawn = draw(bar("a"), bar("b", mark="−18%", tone=Tone.WARNING))

    assert ["off" in css.split() for css, _ in columns(drawn)] == [False, True]
    assert re.findall('class="mark">([^<]*)', drawn) == ["−18%"]


def test_among_many_bars_an_outlier_is_only_outlined() -> None:
    """Its name would cover its neighbours."""
    drawn = draw(*(bar(f"r{index}", mark="−18%", tone=Tone.WARNING) for index in range(200)))

    assert "mark" not in drawn
    assert all("off" in css for css, _ in columns(drawn))


def test_an_upper_bound_is_hatched_and_what_does_not_count_is_pale() -> None:
    found = columns(draw(bar("a"), bar("b", is_at_most=True), bar("c", is_faint=True)))

    assert [css.replace(" late", "") for css, _ in found] == ["c0", "c0 bound", "c0 faint"]


def test_a_bar_stands_inside_its_whole() -> None:
    """The whole is drawn first, behind it, and the axis reaches above it."""
    drawn = draw(bar("a", value=46.0, whole=80.0))

    assert drawn.index("whole") < drawn.index("column")
    assert share("height", columns(drawn)[0][1]) == pytest.approx(100 * 46 / 80 / 1.14, abs=0.01)


def test_a_median_is_a_line_over_all_bars() -> None:
    drawn = draw(bar("a"), bar("b"), bar("c"), median=9.5, label="median <9.5>")
    ((style, label),) = re.findall('class="median" style="([^"]*)"><b>([^/]*)</b>', drawn)

    assert (share("left", style), share("width", style)) == pytest.approx((100 * 0.2 / 3.4, 300 / 3.4), abs=0.01)
    assert label == "median &lt;9.5&gt;"
    assert "median 9.5" in draw(bar("a"), median=9.5)
    assert '"median"' not in draw(median=9.5)


def test_foreign_names_are_text_and_not_markup() -> None:
    drawn = draw(bar("<a href=x>", "0", hover=("<b>1</b>", "two")), bar("<a href=x>", "1"))

    assert 'data-tip="&lt;b&gt;1&lt;/b&gt;&#10;two"' in drawn
    assert '"label name" style="left:50.000%">&lt;a href=x&gt;</span>' in drawn


def test_a_screen_reader_reads_the_description_and_no_bar() -> None:
    drawn = draw(bar("a"), bar("b", value=None))

    assert '<p class="said">2 bars in tokens. a, rank 0 (cohort A): 10; b, rank 0 (cohort A): not known</p>' in drawn
    assert drawn.index('aria-hidden="true"') < drawn.index("column")


def test_groups_of_several_bars_stand_apart() -> None:
    assert positions(["a", "a", "b"]) == pytest.approx((0, 1, 2.7))
    assert positions(["a", "b", "c"]) == (0, 1, 2)
    assert positions([]) == ()


def test_bars_that_link_to_one_page_with_other_choices_each_have_a_name() -> None:
    drawn = draw(*(Bar(name, 10.0, link=page("capacity", pool=name)) for name in ("chat", "embed")))

    assert re.findall('class="label"[^>]*>([^<]*)', drawn) == ["chat", "embed"]


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

    assert axis(*pools).is_tilted
    assert (alone.is_tilted, alone.texts[2]) == (False, "deepseek-v3/prefill")


def test_several_cohorts_are_told_apart_by_letters_too() -> None:
    """To some eyes two of the colours are one; a bar without a cohort or value has no letter."""
    bars = (bar("a"), bar("b", letter="B"), bar("c", letter=""), bar("d", letter="C", value=None))

    assert re.findall('class="of">([^<]*)', draw(*bars)) == ["A", "B"]


def test_of_two_hundred_bars_some_are_named() -> None:
    """No label touches its neighbour."""
    labels = axis(*[bar(f"chat-{index:03}") for index in range(200)])
    assert 10 <= len(labels.texts) <= 25
    assert not labels.is_tilted


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
    assert '<p class="common">&lt;x&gt;-…</p>' in draw(bar("<x>-1"), bar("<x>-2"))
    assert "common" not in draw(bar("a"), bar("b"))


@pytest.mark.parametrize(
    ("highest", "marks"),
    [(1.87e6, (0, 5e5, 1e6, 1.5e6)), (91.2, (0, 25, 50, 75)), (1, (0, 0.25, 0.5, 0.75, 1)), (4.1, (0, 2, 4))],
)
def test_an_axis_has_round_marks(highest: float, marks: tuple[float, ...]) -> None:
    assert ticks(highest) == marks
