"""Timelines on pages: closed until they are wanted, at a range of the URL, and nothing without a history."""

import json
import re
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import iso
from dashboard.render.export import Format, written
from dashboard.store.history.database import Database
from dashboard.store.history.reader import HistoryReader
from dashboard.web.share import HAS_CHARTS, OFFERED
from tests.e2e.frozen_fleets import STORY, frozen
from tests.page_runner import address, html, open_page, rerun, visit
from tests.store.history.recorded import Recorded
from tests.store.history.week import BEGIN, CHAT, CHAT_ROLLOUT, GAP, HOUR, MOST_SEQUENCES, record_week
from tests.used import traffic


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return frozen(STORY)


@pytest.fixture(scope="module")
def week(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Database:
    history = Recorded(tmp_path_factory.mktemp("week"))
    record_week(history, fleet)
    history.writer.close()
    return history.database


@pytest.fixture(autouse=True)
def _recorded(fleet: Fleet, week: Database, tmp_path: Path) -> None:
    service.put(fleet, fleet.polled_at, tmp_path, history=HistoryReader(week))


def charts(app: AppTest) -> list[dict[str, Any]]:
    """What the browser gets of each timeline: the drawing, and the address of the page at a time."""
    values = [json.loads(each.proto.json) for each in app.get("bidi_component") if each.proto.json]
    return [each for each in values if "at" in each]


def test_a_timeline_is_closed_and_costs_nothing_until_it_is_opened() -> None:
    app = visit("compare", pool=CHAT)

    assert app.expander[-1].label == "Timeline"
    assert charts(app) == []
    assert address(app, "range") is None


@pytest.mark.parametrize("page", ["timeline", "compare", "replica", "settings"])
def test_without_a_history_there_is_no_timeline(page: str, fleet: Fleet) -> None:
    app = open_page(fleet, page, range="7d", replica=fleet.replicas[0].id, path=MOST_SEQUENCES)

    assert "Timeline" not in [each.label for each in app.expander]
    assert charts(app) == []


def moved(fleet: Fleet, hours: float, name: str = "") -> Fleet:
    """The same fleet of another time, also under another name."""
    assert fleet.polled_at is not None
    return replace(fleet, polled_at=fleet.polled_at - hours * HOUR, name=name or fleet.name)


def test_a_snapshot_has_the_timeline_around_its_moment(fleet: Fleet) -> None:
    """The links of the timeline leave the snapshot."""
    snapshot = service.snapshots().save(moved(fleet, CHAT_ROLLOUT - 1), "Review", service.now()).id
    (chart,) = charts(app := visit("timeline", snapshot=snapshot, range="6h"))

    assert 'class="shown"' in chart["html"]
    assert "rollout 0.31.0 -&gt; 0.32.0" in chart["html"]
    assert "Restarts" not in chart["html"]
    assert chart["at"] == "timeline?range=6h"
    assert re.search(r'href="timeline\?range=6h&amp;at=2026-11-15T13', html(app))


@pytest.mark.parametrize(
    ("hours", "name"),
    [
        pytest.param(BEGIN + 1, "", id="before the first poll"),
        pytest.param(GAP - 1, "", id="in a gap"),
        pytest.param(1, "other", id="of another fleet"),
    ],
)
def test_a_snapshot_that_the_history_does_not_cover_has_no_timeline(fleet: Fleet, hours: float, name: str) -> None:
    snapshot = service.snapshots().save(moved(fleet, hours, name), "Review", service.now()).id
    app = visit("timeline", snapshot=snapshot, range="7d")

    assert "<b>Snapshot</b>" in html(app)
    assert "Timeline" not in [each.label for each in app.expander]


def test_a_range_can_be_chosen_and_is_in_the_url() -> None:
    app = visit("timeline", range="7d")
    app.segmented_control(key="range").set_value("90d")
    rerun(app)

    assert address(app, "range") == "90d"
    assert charts(app)[0]["at"] == "timeline?range=90d"


def test_the_default_range_begins_with_a_new_history_and_a_chosen_one_wins(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    history = Recorded(tmp_path / "new")
    for hours in (3, 2, 0):
        history.record(moved(fleet, hours), HOUR)
    history.writer.close()
    service.put(fleet, fleet.polled_at, tmp_path / "snapshots", history=history.reader)

    assert [charts(visit("timeline", range=each))[0]["at"] for each in ("nonsense", "24h")] == [
        "timeline?range=6h",
        "timeline?range=24h",
    ]
    (dialog,) = charts(visit("compare", pool=CHAT, path=MOST_SEQUENCES))
    assert dialog["at"].endswith("range=6h")


def test_a_new_history_has_the_numbers_of_its_first_poll_also_within_a_second(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    history = Recorded(tmp_path / "new")
    first = moved(fleet, 1)
    assert first.polled_at is not None
    history.record(replace(first, polled_at=first.polled_at.replace(microsecond=300_000)), HOUR)
    history.record(fleet, HOUR)
    history.writer.close()
    service.put(fleet, fleet.polled_at, tmp_path / "snapshots", history=history.reader)
    (table,) = re.findall("Cohorts over time.*?</table>", html(visit("timeline", range="24h")), re.DOTALL)

    assert "<td" in table
    assert "–" not in table
    assert re.search(r">14</td>\s*<td[^>]*>14</td>\s*<td[^>]*>14</td>", table)


def test_recorded_traffic_is_a_lane_of_hit_rates_below_the_cohorts_of_its_pool(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    history = Recorded(tmp_path / "new")
    used = {each.id: traffic(0.62) for each in fleet.replicas if each.pool == CHAT}
    for hours in (1, 0.5, 0.25, 0):
        history.record(replace(moved(fleet, hours), counted=used), HOUR)
    history.writer.close()
    service.put(fleet, fleet.polled_at, tmp_path / "snapshots", history=history.reader)
    app = visit("timeline", range="1h")

    (drawn,) = charts(app)
    assert drawn["html"].count("Prefix hit rate") >= 1
    assert "A (0.32.0): 62%" in drawn["html"]
    assert "Prefix hit rate over time" in html(app)


def test_an_unknown_range_is_ignored_with_a_warning() -> None:
    app = visit("timeline", range="1y")

    assert charts(app)[0]["at"] == "timeline?range=24h"
    assert "range=1y" in html(app)


def test_a_setting_has_its_values_over_time_on_its_page_and_in_its_dialog() -> None:
    (chart,) = charts(visit("settings", path=MOST_SEQUENCES, range="7d"))
    page, dialog = charts(visit("compare", pool=CHAT, path=MOST_SEQUENCES, range="7d"))

    assert ">77</text>" in chart["html"]
    assert ">77</text>" in dialog["html"]
    assert ">77</text>" not in page["html"]
    assert dialog["at"] == f"compare?pool={CHAT}&path={MOST_SEQUENCES}&range=7d"


def test_at_a_past_time_the_range_is_around_it_and_the_time_is_marked(fleet: Fleet) -> None:
    assert fleet.polled_at is not None
    past = fleet.polled_at - CHAT_ROLLOUT * HOUR + HOUR
    (near,), (far,) = (charts(visit("timeline", at=iso(past), range=each)) for each in ("6h", "30d"))

    assert 'class="shown"' in near["html"]
    assert 'class="shown"' in far["html"]
    assert "rollout 0.31.0 -&gt; 0.32.0" in near["html"]
    assert "Restarts" not in near["html"]
    assert "Restarts" in far["html"]
    assert 'class="shown"' not in charts(visit("timeline", range="6h"))[0]["html"]


def test_a_history_that_cannot_be_read_is_a_sentence(fleet: Fleet, tmp_path: Path) -> None:
    service.put(fleet, fleet.polled_at, tmp_path, history=HistoryReader(Database(f"sqlite:///{tmp_path / 'none.db'}")))

    assert "There is no history none.db" in html(visit("timeline", range="7d"))


def test_an_export_has_the_timeline_that_the_page_shows() -> None:
    closed, shown = (visit("compare", pool=CHAT, **url).session_state for url in ({}, {"range": "7d"}))
    with zipfile.ZipFile(BytesIO(written(shown[OFFERED](), Format.SVG))) as archive:
        drawing = archive.read("timeline.svg").decode()

    assert "Replicas per cohort" in drawing
    assert "rollout 0.31.0" in drawing
    assert (closed[HAS_CHARTS], shown[HAS_CHARTS]) == (False, True)
    assert "Replicas per cohort" not in written(closed[OFFERED](), Format.HTML).decode()
    assert "<figcaption>Replicas per cohort of chat-70b</figcaption>" in written(shown[OFFERED](), Format.HTML).decode()
