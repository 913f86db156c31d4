"""Capacity: the KV cache of each DP rank, GPU and pool, with its controls."""

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Basis
from dashboard.views.capacity_blocks import NO_DEVICES
from dashboard.web.charts import DARK, LIGHT
from tests.builders import alike, document, down, engine, fleet, replica
from tests.page_runner import html, open_page, opened, rerun
from tests.used import with_traffic

DOCUMENT = document()
UNKNOWN = engine(None, basis=Basis.UNKNOWN, kv_cache_bytes=None, naive_tokens=None, reason="Blocks not reported.")


def uneven() -> Fleet:
    """An even pool, and one with a short rank."""
    short = replica("embed-09", pool="embed", document=DOCUMENT, engines=(engine(900_000),))
    return fleet([*alike("chat", 4, DOCUMENT), *alike("embed", 4, DOCUMENT), short], [DOCUMENT])


def figure(app: AppTest) -> dict[str, Any]:
    """The chart, as Plotly's JSON."""
    (chart,) = app.get("plotly_chart")
    drawn: dict[str, Any] = json.loads(chart.proto.spec)
    return drawn


def bars(app: AppTest) -> int:
    """The number of bars with a value."""
    return sum(value is not None for trace in figure(app)["data"] if "name" in trace for value in trace["y"])


@pytest.mark.parametrize(
    ("shown", "url", "number", "text"),
    [
        pytest.param(uneven(), {"length": "50,000"}, 5, "Requests at 50,000", id="a typed length"),
        pytest.param(
            uneven(),
            {"length": "<b>long</b>"},
            5,
            "<code>&lt;b&gt;long&lt;/b&gt;</code> is not a length in tokens, such as 32768 or 32k. ",
            id="an invalid length",
        ),
        pytest.param(fleet([replica(devices=())]), {"per": "GPU"}, 0, NO_DEVICES, id="devices not reported"),
        pytest.param(fleet([down("gone", pool="chat")]), {}, 0, "<h1>No engine data</h1>", id="all unreachable"),
        pytest.param(fleet([down(pool=None)]), {}, 0, "No pools to compare", id="no pool"),
    ],
)
def test_capacity_shows(shown: Fleet, url: dict[str, Any], number: int, text: str) -> None:
    app = open_page(shown, "capacity", **url)

    assert text in html(app)
    assert (bars(app) if app.get("plotly_chart") else 0) == number


def test_per_gpu_the_kv_cache_is_drawn_within_the_memory_in_gib() -> None:
    """The measure is not offered, and stays in the links to other bars."""
    app = open_page(uneven(), "capacity", per="GPU", pool="chat", measure="requests")
    wholes, held = figure(app)["data"]

    assert (set(wholes["y"]), set(held["y"]), len(held["y"])) == ({80}, {46}, 16)
    assert "One bar per device" in html(app)
    assert [each.key for each in app.segmented_control if each.key in {"per", "measure"}] == ["per"]
    assert "measure=requests&amp;per=GPU" in html(app)


def clicked(app: AppTest, key: str, selection: dict[str, Any]) -> list[str]:
    """The URLs that the browser opens after a selection in the element `key`."""
    app.session_state[key] = {"selection": selection}
    return opened(rerun(app))


@pytest.mark.parametrize("per", ["DP rank", "GPU"])
def test_the_share_in_use_is_drawn_inside_the_bars_of_ranks_and_of_gpus(per: str) -> None:
    used = with_traffic(uneven(), {"chat-01": 0.6, "chat-02": 0.6})
    app = open_page(used, "capacity", per=per, pool="chat")

    assert "Inner bars: KV cache in use, highest value in 15 min; unknown on 2 ranks." in html(app)
    assert any(trace["marker"]["color"] == LIGHT.ground for trace in figure(app)["data"])
    assert "Inner bars" not in html(open_page(uneven(), "capacity", per=per, pool="chat"))


def test_a_click_on_a_bar_opens_its_replica() -> None:
    app = open_page(uneven(), "capacity")

    selection = {"points": [{"customdata": [4]}]}
    assert clicked(app, "capacity_1_0_0", selection) == ["replica?replica=http%3A%2F%2Fembed-09%3A8000"]


def test_the_name_of_a_rank_opens_its_replica_and_can_be_ticked() -> None:
    shown = html(open_page(uneven(), "capacity"))

    assert '<a href="replica?replica=http%3A%2F%2Fembed-02%3A8000">' in shown
    assert 'data-tick="http://embed-02:8000"' in shown


@pytest.mark.parametrize(("theme", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_charts_follow_the_theme(theme: str, colours: Any) -> None:
    app = open_page(uneven(), "capacity")
    app.context["theme"] = theme
    rerun(app)

    assert figure(app)["layout"]["font"]["color"] == colours.ink


def test_the_fleet_comes_first_and_a_pool_says_what_is_short_elsewhere() -> None:
    assert "<h1>One rank has less KV cache than its peers</h1>" in html(open_page(uneven(), "capacity"))
    assert "1 short rank in other pools." in html(open_page(uneven(), "capacity", pool="chat"))


def test_the_pool_with_the_most_short_ranks_is_the_first_row_and_the_one_that_is_drawn() -> None:
    shown = html(open_page(uneven(), "capacity"))

    assert shown.index(">embed</a>") < shown.index(">chat</a>")
    assert '<h2 id="pool-embed">embed</h2>' in shown
    assert '<h2 id="pool-chat">' not in shown


def test_several_pools_with_short_ranks_are_counted_in_the_title() -> None:
    both = [*uneven().replicas, replica("chat-09", pool="chat", document=DOCUMENT, engines=(engine(900_000),))]

    assert "<h1>2 pools have a short rank</h1>" in html(open_page(fleet(both, [DOCUMENT]), "capacity"))


def test_devices_without_reported_kv_cache_are_counted_and_not_drawn() -> None:
    unread = engine(900_000, kv_cache_bytes=None, kv_cache_bytes_per_device=None)
    silent = replica("embed-09", pool="embed", document=DOCUMENT, engines=(unread,))
    app = open_page(fleet([*alike("embed", 4, DOCUMENT), silent], [DOCUMENT]), "capacity", per="GPU")

    assert "Left out: 4 devices whose KV cache bytes are not reported." in html(app)
