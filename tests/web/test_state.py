"""The URL selects the fleet that is shown, and what updates."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from tests import builders
from tests.builders import NOW
from tests.page_runner import html, rerun, show_with_snapshots, visit
from tests.store.folders import execute


@pytest.fixture
def live(tmp_path: Path) -> Fleet:
    fleet = builders.fleet([builders.replica("now-1", pool="now")])
    show_with_snapshots(fleet, tmp_path)
    return fleet


def poll_again(fleet: Fleet, name: str) -> None:
    """Replace the live fleet by one with another replica."""
    newer = builders.fleet([builders.replica(name, pool="now")], generation=fleet.generation + 1)
    service.put(newer, NOW, service.snapshots().folder)


def shows(app: object, name: str) -> bool:
    return any(each.name == name for each in app.session_state["shown_fleet"].replicas)  # type: ignore[attr-defined]


def test_a_live_page_shows_the_newest_poll(live: Fleet) -> None:
    app = visit()
    poll_again(live, "now-2")

    assert shows(rerun(app), "now-2")


@pytest.mark.parametrize("url", [{"screenshot": "1"}, {"meeting": "1"}])
def test_a_meeting_and_a_screenshot_keep_their_fleet(live: Fleet, url: dict[str, str]) -> None:
    app = visit(**url)
    poll_again(live, "now-2")

    assert shows(rerun(app), "now-1")


def test_a_pause_keeps_the_fleet_until_it_ends(live: Fleet) -> None:
    app = visit()
    app.toggle(key="paused").set_value(True)
    rerun(app)
    poll_again(live, "now-2")
    assert shows(rerun(app), "now-1")

    app.toggle(key="paused").set_value(False)
    assert shows(rerun(app), "now-2")


def test_a_paused_page_is_the_same_after_a_snapshot(live: Fleet) -> None:
    key = service.snapshots().save(builders.story(), "x", NOW).id
    app = visit()
    app.toggle(key="paused").set_value(True)
    rerun(app)
    app.query_params["snapshot"] = key
    assert shows(rerun(app), "chat-70b-01")
    poll_again(live, "now-2")

    del app.query_params["snapshot"]
    assert not shows(rerun(app), "chat-70b-01")


ASKING = """
import streamlit as st
from dashboard.web import state
if "asked" not in st.session_state:
    state.begin_run("settings")
st.session_state["asked"] = [state.is_outdated(each) for each in ("settings", "compare")]
"""


def test_a_path_opens_a_dialog_on_compare_alone_so_that_settings_is_updated(live: Fleet) -> None:
    app = AppTest.from_string(ASKING)
    app.query_params["path"] = "cache_config.block_size"
    assert app.run().session_state["asked"] == [False, False]

    poll_again(live, "now-2")
    assert app.run().session_state["asked"] == [True, False]


@pytest.mark.usefixtures("live")
def test_the_clock_of_a_screenshot_stops_at_the_time_of_its_data() -> None:
    before = html(visit(screenshot="1"))
    service.put(service.current(), NOW + timedelta(days=9), service.snapshots().folder)

    assert html(visit(screenshot="1")) == before
    assert "0 s ago" in before


def test_an_ambiguous_id_needs_more_digits(live: Fleet) -> None:
    store = service.snapshots()
    key = store.save(live, "one", NOW).id
    store.save(live, "two", NOW)
    other = f"{key[:-4]}{'0000' if key[-4:] != '0000' else '1111'}"
    execute(store.folder, "INSERT INTO snapshot SELECT ?, sha, size_bytes, metadata, content FROM snapshot", (other,))

    assert f"2 snapshots begin with {key[:4]}; type more of the id." in html(visit(snapshot=key[:4]))


def test_a_snapshot_stays_in_memory_until_it_is_deleted(live: Fleet) -> None:
    key = service.snapshots().save(replace(live, name="old"), "one", NOW).id
    assert service.open_snapshot(key) is service.open_snapshot(key)

    service.snapshots().delete(key)
    assert "it may have been deleted" in html(visit(snapshot=key))


def test_a_live_overview_has_the_guide_of_a_first_visit_and_a_snapshot_has_none(live: Fleet) -> None:
    key = service.snapshots().save(live, "x", NOW).id

    assert ["New here?" in html(visit(**url)) for url in ({}, {"snapshot": key})] == [True, False]


def test_a_live_page_has_the_clock_for_ages_and_a_still_one_has_none(live: Fleet) -> None:
    key = service.snapshots().save(live, "x", NOW).id
    pages = [visit(**url) for url in ({}, {"snapshot": key}, {"screenshot": "1"})]
    values = [[json.loads(each.proto.json) for each in app.get("bidi_component") if each.proto.json] for app in pages]
    clocks = [[each["now"] for each in page if "now" in each] for page in values]

    assert clocks == [[NOW.timestamp() * 1000], [], []]
