"""Capacity shows how much KV cache each DP rank, each GPU and each pool really holds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Basis
from dashboard.views.capacity_blocks import NO_DEVICES
from dashboard.views.capacity_data import NO_BYTES
from dashboard.web.charts import DARK, LIGHT
from tests.builders import alike, document, down, engine, fleet, hostile, replica, story
from tests.page_runner import html, open_page, opened, rerun

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

DOCUMENT = document()


def uneven() -> Fleet:
    """A calm pool first by name, and one in which a rank is short."""
    short = replica("embed-09", pool="embed", document=DOCUMENT, engines=(engine(900_000),))
    return fleet([*alike("chat", 4, DOCUMENT), *alike("embed", 4, DOCUMENT), short], [DOCUMENT])


def figure(app: AppTest) -> dict[str, Any]:
    """The one chart, as Plotly's own JSON."""
    (chart,) = app.get("plotly_chart")
    drawn: dict[str, Any] = json.loads(chart.proto.spec)
    return drawn


def bars(app: AppTest) -> int:
    """How many bars carry a value."""
    return sum(value is not None for trace in figure(app)["data"] if "name" in trace for value in trace["y"])


def test_the_pool_whose_ranks_are_short_is_shown_first() -> None:
    app = open_page(uneven(), "capacity")

    assert "<h1>One rank has less KV cache than its peers</h1>" in html(app)
    assert app.selectbox(key="pool").value == "embed"
    assert bars(app) == 5
    assert "<b>embed-09</b></a>: 900,000 tokens, 25 % less than the median (1,200,000)" in html(app)


def test_a_calm_fleet_has_no_outlier() -> None:
    app = open_page(fleet(alike("chat", 4, DOCUMENT), [DOCUMENT]), "capacity")

    assert "<h1>All ranks are close to the median of their peers</h1>" in html(app)
    assert '<ul class="entries">' not in html(app)


def test_the_url_holds_every_choice() -> None:
    app = open_page(uneven(), "capacity", pool="chat", measure="requests", length="32k")

    assert bars(app) == 4
    assert figure(app)["data"][0]["y"] == pytest.approx([1_200_000 / 32_768] * 4)
    assert "Requests at 32 k" in html(app)


def test_a_length_can_be_typed() -> None:
    app = open_page(uneven(), "capacity", length="50,000")

    assert "Requests at 50,000" in html(app)


def test_what_is_no_length_is_said_to_be_none() -> None:
    app = open_page(uneven(), "capacity", length="<b>long</b>")

    assert "<code>&lt;b&gt;long&lt;/b&gt;</code> is not a length in tokens, such as 32768 or 32k. " in html(app)
    assert "Requests at own length" in html(app)


def test_a_length_above_its_own_is_not_served() -> None:
    app = open_page(uneven(), "capacity", measure="requests", length="256k")

    assert "not served" in html(app)
    assert "No requests to draw." in html(app)
    assert not app.get("plotly_chart")


def test_replicas_without_engine_data_are_counted() -> None:
    """One is down, one was last read too long ago, one tells no engine; a second address is no replica of its own."""
    second = replica("z", fresh=False, same_process=("http://chat-00:8000",))
    silent = (down("gone"), replica("old", fresh=False), replica("mute", engines=()))
    app = open_page(fleet([*alike("chat", 4, DOCUMENT), second, *silent], [DOCUMENT]), "capacity")

    assert "4 ranks known; 3 replicas without engine data." in html(app)


def test_per_gpu_shows_kv_cache_inside_memory() -> None:
    app = open_page(uneven(), "capacity", per="GPU", pool="chat")

    wholes, held = figure(app)["data"]
    assert (set(wholes["y"]), set(held["y"])) == ({80}, {46})
    assert len(held["y"]) == 16


def test_per_gpu_says_why_devices_are_not_known() -> None:
    app = open_page(fleet([replica(devices=())]), "capacity", per="GPU")

    assert NO_DEVICES in html(app)
    assert not app.get("plotly_chart")


def test_per_pool_shows_one_bar_a_pool() -> None:
    app = open_page(uneven(), "capacity", per="pool")

    assert figure(app)["data"][0]["y"] == [4_800_000, 5_700_000]


def test_a_pool_of_which_nothing_is_known_says_why() -> None:
    bare = engine(None, basis=Basis.UNKNOWN, kv_cache_bytes=None, naive_tokens=None, reason="No reply tells blocks.")
    app = open_page(fleet([replica(engines=(bare,), devices=())]), "capacity")

    assert "<h1>KV cache capacity: not reported</h1>" in html(app)
    assert "<b>No tokens to draw. </b>No reply tells blocks." in html(app)
    assert "No pool reports its tokens." in html(open_page(fleet([replica(engines=(bare,))]), "capacity", per="pool"))


def test_a_stock_server_tells_no_bytes() -> None:
    stock = engine(kv_cache_bytes=None, kv_cache_bytes_per_device=None)
    app = open_page(fleet([replica(engines=(stock,), devices=())]), "capacity", measure="GiB")

    assert NO_BYTES in html(app)


def test_a_pool_that_is_down_has_no_engines() -> None:
    app = open_page(fleet([down("gone", pool="chat")]), "capacity")

    assert "<h1>No engine data</h1>" in html(app)
    assert "No engine data: " in html(app)


def test_without_any_pool_there_is_an_empty_state() -> None:
    app = open_page(fleet([down(pool=None)]), "capacity")

    assert "No pools to compare" in html(app)
    assert not app.selectbox


def test_one_replica_is_drawn_without_a_median() -> None:
    app = open_page(fleet([replica(document=DOCUMENT)], [DOCUMENT]), "capacity")

    assert bars(app) == 1
    assert "shapes" not in figure(app)["layout"]


def test_two_hundred_ranks_are_drawn_with_few_labels() -> None:
    app = open_page(fleet(alike("chat", 200, DOCUMENT), [DOCUMENT]), "capacity")

    assert bars(app) == 200
    assert len(figure(app)["layout"]["xaxis"]["ticktext"]) <= 25


def clicked(app: AppTest, key: str, selection: dict[str, Any]) -> list[str]:
    """The addresses that the browser is sent to after something was selected in the element of this key."""
    app.session_state[key] = {"selection": selection}
    return opened(rerun(app))


def test_a_click_on_a_bar_opens_its_replica() -> None:
    app = open_page(uneven(), "capacity")

    selection = {"points": [{"customdata": [4]}]}
    assert clicked(app, "capacity_1_0_0", selection) == ["replica?replica=http%3A%2F%2Fembed-09%3A8000"]


def test_a_row_of_the_table_opens_its_replica() -> None:
    app = open_page(uneven(), "capacity")

    selection = {"rows": [1], "columns": [], "cells": []}
    assert clicked(app, "capacity_3_0", selection) == ["replica?replica=http%3A%2F%2Fembed-02%3A8000"]


def test_per_gpu_is_told_in_gib_whatever_is_chosen_elsewhere() -> None:
    """The choice is not asked for, and is kept for the other bars."""
    app = open_page(uneven(), "capacity", per="GPU", measure="requests")

    assert "One bar per device" in html(app)
    assert "per" in [each.key for each in app.segmented_control]
    assert "measure" not in [each.key for each in app.segmented_control]
    assert "measure=requests&amp;per=GPU" in html(app)


def test_where_bars_are_pools_no_pool_is_chosen() -> None:
    app = open_page(uneven(), "capacity", per="pool")

    assert [each.key for each in app.selectbox] == ["length"]
    assert not app.dataframe


@pytest.mark.parametrize(("theme", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_charts_follow_the_theme(theme: str, colours: Any) -> None:
    app = open_page(uneven(), "capacity")
    app.context["theme"] = theme
    rerun(app)

    assert figure(app)["layout"]["font"]["color"] == colours.ink


def test_foreign_text_is_never_markup() -> None:
    for per in ("DP rank", "GPU", "pool"):
        app = open_page(hostile(), "capacity", per=per)
        assert "<script" not in html(app)
        assert "<img" not in html(app)
        assert "<script" not in json.dumps(figure(app)["layout"])


def test_the_story_is_told() -> None:
    """Assumed values are hatched and the unknown rank is named with its reason."""
    app = open_page(story(), "capacity", pool="embed-8b")

    assert "/" in figure(app)["data"][0]["marker"]["pattern"]["shape"]
    assert "9 of 10 known" in html(app)
    assert "1 rank unknown (" in html(app)


def test_a_second_address_of_one_process_is_drawn_pale_and_not_added() -> None:
    first, second = alike("chat", 2, DOCUMENT)
    pair = [replace(first, same_process=(second.id,)), replace(second, same_process=(first.id,))]
    app = open_page(fleet(pair, [DOCUMENT]), "capacity")

    assert "second address of one process" in html(app)
    assert '<td class="number">1,200,000</td>' in html(app)
