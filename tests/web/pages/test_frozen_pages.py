"""With ?snapshot=ID every page shows the snapshot and its banner, keeps it in every link, and does not poll."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.rules.catalogue import RULE_SET
from dashboard.store.snapshots import Snapshots
from tests import builders
from tests.builders import NOW
from tests.frozen import AT
from tests.page_runner import EVERY_PAGE, address, html, opened, rerun, show_with_snapshots, visit
from tests.store.folders import damage
from tests.used import with_traffic

REPLICA = "http://chat-70b-16:8000"
REPLICA_QUOTED = "http%3A%2F%2Fchat-70b-16%3A8000"
WITH_BANNER = [page for page in EVERY_PAGE if page != "changes"]  # where each side has its own name
OF_ONE_FLEET = [page for page in WITH_BANNER if page != "snapshots"]
SHARE = re.compile(
    "Freeze|Copy link|Link to this page|Export this page|Saves all data|open it</a>|Notes |No raw answers"
    '|class="paste"><pre><code>[^<]*snapshot='
)
LINK = re.compile(r'href="([^"#]*)"')
BANNER = re.compile(r'<div class="snapshot-banner">.*?</div>')
FOOTER = re.compile(r"<footer.*?</footer>", re.DOTALL)


@pytest.fixture
def frozen(tmp_path: Path) -> str:
    """The id of a snapshot of the story; the live fleet is another one."""
    show_with_snapshots(builders.fleet([builders.replica("new-1", pool="new")]), Snapshots(tmp_path / "kept"))
    return service.snapshots().save(builders.story(), "Ops review", NOW + timedelta(days=1)).id


def on(page: str, **url: str) -> AppTest:
    return visit(page, **({"replica": REPLICA} if page == "replica" else {}), **url)


def body(app: AppTest) -> str:
    """A page without header, banner and footer."""
    parts = [part for part in html(app).split("\n") if "asof" not in part]
    return FOOTER.sub("", BANNER.sub("", "\n".join(parts)))


@pytest.mark.parametrize("page", WITH_BANNER)
def test_every_page_has_the_banner_shows_the_snapshot_only_and_stays_in_it(frozen: str, page: str) -> None:
    app = on(page, snapshot=frozen)
    shown = html(app)
    (banner,) = BANNER.findall(shown)
    (footer,) = FOOTER.findall(shown)

    assert f"<b>Snapshot</b> <b>“Ops review”</b> <code>{frozen[:10]}</code>" in banner
    assert "not polled" in banner
    back = re.findall(r'href="([^"]*)">Back to the live fleet', banner)
    choice = f"?replica={REPLICA_QUOTED}" if page == "replica" else ""
    assert back == [f"{'./' if page == 'overview' else page}{choice}"], "the same page with its choices"
    for part in (f"snapshot {frozen[:10]} “Ops review”", "2026-03-02T11:42:05Z", "39 of 40", f"rule set {RULE_SET}"):
        assert part in footer
    assert is_still(app)
    if page != "snapshots":
        assert body(app).strip()
        assert "new-1" not in body(app)
        urls = LINK.findall(body(app))
        assert [url for url in urls if f"snapshot={frozen[:10]}" not in url and not url.startswith("http")] == []


def is_still(app: AppTest) -> bool:
    """Whether nothing is polled and nothing can be paused."""
    is_live = app.session_state["shown_fleet"].generation >= 0 or "Pause updates" in [
        toggle.label for toggle in app.toggle
    ]
    return not is_live and app.get("auto_refresh") == []


def test_a_comparison_inside_a_snapshot_is_still(frozen: str) -> None:
    assert is_still(on("changes", snapshot=frozen))


@pytest.mark.few(2)
@pytest.mark.parametrize("page", OF_ONE_FLEET)
def test_a_page_of_a_snapshot_is_the_page_of_the_fleet_when_it_was_frozen(
    demo_fleet: Fleet, tmp_path: Path, page: str
) -> None:
    """The same HTML, also of hit rates, except for the snapshot in links; the review splits its entries, for notes."""
    show_with_snapshots(with_traffic(demo_fleet, {"chat-70b-04": 0.04}, 0.62), Snapshots(tmp_path), at=AT)
    url = {"screenshot": "1", **({"replica": demo_fleet.replicas[0].id} if page == "replica" else {})}
    app = visit(page, **url)
    live = pieces(body(app))
    app.button(key="save_snapshot").click()
    rerun(app)
    (stored,) = service.snapshots().all()
    frozen = pieces(body(visit(page, snapshot=stored.id, **url)))

    assert words(frozen) == words(live)
    assert page == "review" or frozen == live


def pieces(shown: str) -> list[str]:
    """The pieces of a page without URLs, Share and the guide."""
    without = [re.sub(r'href="[^"]*"', "", piece) for piece in shown.split("\n")]
    return [piece for piece in without if piece.strip() and not SHARE.search(piece) and 'class="guide"' not in piece]


def words(shown: list[str]) -> list[str]:
    return re.sub(r"<[^>]*>", " ", " ".join(shown)).split()


def test_a_table_row_opens_within_the_snapshot(frozen: str) -> None:
    app = visit("replicas", snapshot=frozen, screenshot="1")
    app.session_state["replicas"] = {"selection": {"rows": [0], "columns": [], "cells": []}}

    for url in opened(rerun(app)):
        assert f"snapshot={frozen[:10]}" in url
        assert "screenshot=1" in url


def test_links_never_lead_into_the_snapshot_of_another_session(frozen: str) -> None:
    """Sessions share the HTML of a page."""
    service.put(builders.story(), NOW, service.snapshots())
    for page in OF_ONE_FLEET:
        on(page, snapshot=frozen, screenshot="1")
        on(page, snapshot="0000")
        urls = LINK.findall(body(on(page)))
        assert [url for url in urls if re.search("(snapshot|screenshot)=", url)] == []


def test_links_have_the_whole_id_however_it_was_typed(frozen: str) -> None:
    first = body(visit(snapshot=frozen[:5].upper()))

    assert first == body(visit(snapshot=frozen))
    assert f"snapshot={frozen[:10]}" in first


@pytest.mark.parametrize("page", EVERY_PAGE)
@pytest.mark.usefixtures("frozen")
def test_an_unknown_snapshot_is_an_error_on_every_page(page: str) -> None:
    shown = html(on(page, snapshot="<script>alert(1)</script>"))

    assert "There is no snapshot" in shown
    assert "<script>" not in shown


def test_a_damaged_snapshot_is_an_error(frozen: str) -> None:
    damage(service.snapshots(), frozen, content=b"nonsense")
    service.put(builders.story(), NOW, service.snapshots().folder)  # as after a restart: nothing is in memory

    assert "was changed after saving" in html(visit(snapshot=frozen))


def test_the_banner_has_what_an_earlier_rule_set_found(frozen: str) -> None:
    """The page shows findings of today's rules: they may differ from an old report."""
    metadata = service.snapshots().get(frozen).metadata
    older = metadata.model_copy(update={"rule_set": RULE_SET - 1, "critical": 7})
    damage(service.snapshots(), frozen, metadata=older.model_dump_json().encode())

    assert f"evaluated by rule set {RULE_SET}; rule set {RULE_SET - 1} found 7 critical" in html(visit(snapshot=frozen))
    assert "evaluated by" not in html(visit("snapshots"))


def test_a_pinned_snapshot_shows_its_raw_answers(tmp_path: Path, demo_fleet: Fleet) -> None:
    show_with_snapshots(demo_fleet, Snapshots(tmp_path), at=AT)
    replica = demo_fleet.replicas[3]
    url = {"replica": replica.id, "tab": "Probes", "screenshot": "1"}
    live = raw_shown(visit("replica", **url), "/version")
    key = service.snapshots().save(demo_fleet, "x", AT).id

    assert raw_shown(visit("replica", snapshot=key, **url), "/version") == live
    assert "version" in live


def raw_shown(app: AppTest, path: str) -> str:
    app.selectbox(key="raw").select(path)
    return next(each for each in html(rerun(app)).split("\n") if f"Raw answer of {path}" in each)


def test_neither_time_nor_a_newer_poll_changes_the_page_of_a_snapshot(frozen: str) -> None:
    app = visit("findings", snapshot=frozen)
    before, live = html(app), service.current()
    service.put(replace(live, generation=live.generation + 7), NOW + timedelta(days=400), service.snapshots())

    assert html(rerun(app)) == before
    assert address(app, "snapshot") == frozen
