"""Under ?snapshot=ID every page shows what was frozen, says so, keeps it in every link, and polls nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.rules.catalogue import RULE_SET
from tests import builders
from tests.builders import NOW
from tests.frozen import AT
from tests.page_runner import html, opened, rerun
from tests.snapshot_pages import EVERY_PAGE, address, shown_beside, visit

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


REPLICA = "http://chat-70b-16:8000"
FROZEN_AS_A_WHOLE = [page for page in EVERY_PAGE if page != "changes"]  # which says of each side what it is
OF_ONE_FLEET = [page for page in FROZEN_AS_A_WHOLE if page != "snapshots"]
REPLICA_QUOTED = "http%3A%2F%2Fchat-70b-16%3A8000"
GUIDE = 'class="guide"'
SHARE = re.compile("Freeze|Link to this page|Export this page|Saves all data|open it</a>|Notes |keeps no raw")
LINK = re.compile(r'href="([^"#]*)"')
# What the band says, and where the live fleet is left for others on purpose.
LEADS_OUT = re.compile(r'<div class="snapshot-banner">.*?</div>|<footer.*?</footer>', re.DOTALL)


@pytest.fixture
def frozen(tmp_path: Path) -> str:
    """A snapshot of the story; what is live by now is another fleet."""
    shown_beside(builders.fleet([builders.replica("new-1", pool="new")]), tmp_path / "kept")
    return service.snapshots().freeze(builders.story(), "Ops review", NOW + timedelta(days=1)).id


def on(page: str, **url: str) -> AppTest:
    return visit(page, **({"replica": REPLICA} if page == "replica" else {}), **url)


def body(app: AppTest) -> str:
    """Everything below the header but the band and the context line, links as they are on a live page."""
    parts = [part for part in html(app).split("\n") if "asof" not in part]
    return LEADS_OUT.sub("", "\n".join(parts))


@pytest.mark.parametrize("page", FROZEN_AS_A_WHOLE)
def test_every_page_says_that_it_is_frozen_and_where_its_data_is_from(frozen: str, page: str) -> None:
    shown = html(on(page, snapshot=frozen))

    assert f"<b>Snapshot</b> <b>“Ops review”</b> <code>{frozen}</code>" in shown
    assert "not polled" in shown
    assert f"snapshot {frozen[:10]} “Ops review”" in shown
    assert "data as of 2026-03-02T11:42:05Z" in shown
    assert "39 of 40 answered" in shown
    assert f"rule set {RULE_SET}" in shown


@pytest.mark.parametrize("page", OF_ONE_FLEET)
def test_every_page_shows_the_frozen_fleet_and_none_of_the_live_one(frozen: str, page: str) -> None:
    shown = body(on(page, snapshot=frozen))

    assert "new-1" not in shown
    assert shown.strip()


@pytest.mark.parametrize("page", OF_ONE_FLEET)
def test_every_link_of_a_page_stays_in_the_snapshot(frozen: str, page: str) -> None:
    links = LINK.findall(body(on(page, snapshot=frozen)))

    assert [link for link in links if f"snapshot={frozen}" not in link and not link.startswith("http")] == []


@pytest.mark.parametrize("page", FROZEN_AS_A_WHOLE)
def test_the_way_back_to_the_live_fleet_leads_to_the_same_page_and_its_choices(frozen: str, page: str) -> None:
    band = next(part for part in html(on(page, snapshot=frozen)).split("\n") if 'class="snapshot-banner"' in part)
    back = re.findall(r'href="([^"]*)">Back to the live fleet', band)

    assert back == [
        f"{'./' if page == 'overview' else page}" + (f"?replica={REPLICA_QUOTED}" if page == "replica" else "")
    ]


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_nothing_is_polled_and_nothing_can_be_paused(frozen: str, page: str) -> None:
    """No part of the page asks for a newer fleet: there is no fragment that runs by the clock, and no switch."""
    app = on(page, snapshot=frozen)

    assert not app.session_state["shown_fleet"].generation >= 0
    assert [toggle.label for toggle in app.toggle if toggle.label == "Pause"] == []
    assert app.get("auto_refresh") == []


@pytest.mark.parametrize("page", [page for page in OF_ONE_FLEET if page != "review"])
def test_a_snapshot_is_seen_as_the_live_fleet_was_seen_when_it_was_frozen(
    demo_fleet: Fleet, tmp_path: Path, page: str
) -> None:
    """Freezing changes nothing of what a page shows: same HTML, but for the snapshot in its links."""
    live, frozen = before_and_after_freezing(demo_fleet, tmp_path, page)

    assert pieces(frozen) == pieces(live)


def test_a_frozen_review_says_what_the_live_one_said(demo_fleet: Fleet, tmp_path: Path) -> None:
    """Its entries stand apart from each other, for notes; their words are the same."""
    live, frozen = before_and_after_freezing(demo_fleet, tmp_path, "review")

    assert words(frozen) == words(live)


def before_and_after_freezing(fleet: Fleet, folder: Path, page: str) -> tuple[str, str]:
    shown_beside(fleet, folder, at=AT)
    url = {"screenshot": "1", **({"replica": fleet.replicas[0].id} if page == "replica" else {})}  # times for ages
    app = visit(page, **url)
    live = body(app)
    app.button(key="freeze").click()
    rerun(app)
    (stored,) = service.snapshots().all()
    return live, body(visit(page, snapshot=stored.id, **url))


def pieces(shown: str) -> list[str]:
    """The pieces of a page without addresses, what Share offers, and the guide of a first visit."""
    without = [re.sub(r'href="[^"]*"', "", piece) for piece in shown.split("\n")]
    return [piece for piece in without if piece.strip() and not SHARE.search(piece) and GUIDE not in piece]


def words(shown: str) -> list[str]:
    return re.sub(r"<[^>]*>", " ", " ".join(pieces(shown))).split()


def test_freezing_offers_the_link_that_opens_exactly_this_page(tmp_path: Path) -> None:
    shown_beside(builders.story(), tmp_path)
    app = visit("compare", pool="embed-8b", search="version")
    app.text_input(key="freeze_name").set_value("Friday")
    rerun(app)
    app.button(key="freeze").click()
    rerun(app)

    (stored,) = service.snapshots().all()
    assert stored.beside.name == "Friday"
    assert f"compare?pool=embed-8b&amp;search=version&amp;snapshot={stored.id}" in html(app)
    assert f"compare?pool=embed-8b&search=version&snapshot={stored.id}" in app.code[-1].value


def test_what_a_click_opens_stays_in_the_snapshot_and_in_the_meeting(frozen: str) -> None:
    """The address is made for this session: what is drawn once for all holds the snapshot only."""
    app = visit("replicas", snapshot=frozen, meeting="1", screenshot="1")
    app.session_state["replicas"] = {"selection": {"rows": [0], "columns": [], "cells": []}}
    addresses = opened(rerun(app))

    for address_ in addresses:
        assert f"snapshot={frozen}" in address_
        assert "meeting=1" in address_
        assert "screenshot=1" in address_


def test_links_of_one_session_never_lead_another_one_into_its_snapshot_or_meeting(frozen: str) -> None:
    """Pages are drawn once for all sessions: what stands in one reader's address is not drawn for the others."""
    service.put(builders.story(), NOW, service.snapshots().folder)
    for page in OF_ONE_FLEET:
        on(page, snapshot=frozen, meeting="1", screenshot="1")
        on(page, snapshot="0000", meeting="1")
        shown = LINK.findall(body(on(page)))
        assert [link for link in shown if "snapshot=" in link or "meeting=" in link or "screenshot=" in link] == []


def test_who_types_half_an_id_does_not_put_it_into_the_links_of_others(frozen: str) -> None:
    """The snapshot is drawn once for all: its links bear the whole id, however it was asked for."""
    first = body(visit(snapshot=frozen[:5].upper()))
    second = body(visit(snapshot=frozen))

    assert first == second
    assert f"snapshot={frozen}" in first


@pytest.mark.parametrize("asked", ["ffffffffff", "x", "<script>alert(1)</script>", ""])
@pytest.mark.parametrize("page", EVERY_PAGE)
@pytest.mark.usefixtures("frozen")
def test_a_snapshot_that_is_not_there_says_so_on_every_page(page: str, asked: str) -> None:
    shown = html(on(page, snapshot=asked))

    assert "There is no snapshot" in shown
    assert "<script>" not in shown


def test_a_damaged_snapshot_says_so_instead_of_showing_anything(frozen: str) -> None:
    (service.snapshots().folder / f"{frozen}.json.gz").write_bytes(b"nonsense")
    service.put(builders.story(), NOW, service.snapshots().folder)  # as after a restart: nothing is in memory

    assert "was changed after it was frozen" in html(visit(snapshot=frozen))


def test_a_later_rule_set_judges_anew_and_the_page_says_what_was_found_then(frozen: str) -> None:
    """The numbers on the page are those of the rules of today: a reader of the old report must learn why."""
    file = service.snapshots().folder / f"{frozen}.notes.json"
    told = service.snapshots().get(frozen).beside
    file.write_text(told.model_copy(update={"rule_set": RULE_SET - 1, "critical": 7}).model_dump_json())
    shown = html(visit(snapshot=frozen))

    assert f"evaluated by rule set {RULE_SET}; rule set {RULE_SET - 1} found 7 critical" in shown
    assert "evaluated by" not in html(visit("snapshots"))


def test_the_raw_answers_are_said_not_to_be_kept(frozen: str) -> None:
    """A snapshot holds what was concluded from the answers, not the answers."""
    app = visit("replica", snapshot=frozen, replica=REPLICA, tab="Probes")

    assert "A snapshot keeps no raw answers" in html(app)


def test_ages_are_told_as_of_the_data_and_do_not_grow(frozen: str) -> None:
    before = html(visit(snapshot=frozen))
    service.put(service.current(), NOW + timedelta(days=400), service.snapshots().folder)

    assert html(visit(snapshot=frozen)) == before


def test_a_newer_poll_does_not_disturb_a_frozen_page(frozen: str) -> None:
    app = visit("findings", snapshot=frozen)
    before = html(app)
    live = service.current()
    service.put(replace(live, generation=live.generation + 7), NOW, service.snapshots().folder)

    assert html(rerun(app)) == before
    assert address(app, "snapshot") == frozen
