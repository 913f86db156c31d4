"""With ?at=TIME every page shows the fleet of the last poll before, names time and poll, and stays there."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.fleet import PastTime
from dashboard.render.export import Format, written
from dashboard.store.history.database import Database
from dashboard.store.history.reader import HistoryReader
from dashboard.store.history.writer import HistoryWriter
from dashboard.views.context import context_line
from dashboard.views.traffic import no_traffic_text, why_no_rates, why_no_traffic
from dashboard.web import share
from tests import builders
from tests.builders import NOW
from tests.frozen import AT
from tests.page_runner import EVERY_PAGE, copied, html, rerun, show_with_snapshots, visit
from tests.past_fleets import LAST, ODD, fleet_at, show_with_history

TEN = "2026-03-02T10:00Z"  # between the polls of 09:42 and 10:42
IN_GAP = "2026-03-02T11:00Z"
REPLICA = "http://chat-04:8000"
WITH_BANNER = [page for page in EVERY_PAGE if page != "changes"]
OF_ONE_FLEET = [page for page in WITH_BANNER if page not in {"snapshots", "timeline"}]
LINK = re.compile(r'href="([^"#]*)"')
BANNER = re.compile(r'<div class="snapshot-banner">(.*?)</div>')
FOOTER = re.compile(r"<footer.*?</footer>", re.DOTALL)
SHARE = re.compile(r"Link to this page|keeps? raw answers|<div class=\"paste\"><pre><code>[^<]*at=")
MENU = re.compile(r'Open a past time|class="go"|quick-times|class="copy-link"|Changes since(?: then)?<')


@pytest.fixture(autouse=True)
def history(tmp_path: Path) -> Database:
    return show_with_history(tmp_path)


def on(page: str, **url: str) -> AppTest:
    return visit(page, **({"replica": REPLICA} if page == "replica" else {}), **url)


def body(app: AppTest) -> str:
    """A page without header, banner, menu and footer."""
    parts = [part for part in html(app).split("\n") if "asof" not in part and not MENU.search(part)]
    return FOOTER.sub("", BANNER.sub("", "\n".join(parts)))


@pytest.mark.parametrize("page", WITH_BANNER)
def test_every_page_names_the_time_shows_the_past_only_and_stays_there(page: str) -> None:
    app = on(page, at=TEN)
    shown = html(app)
    (banner,) = BANNER.findall(shown)
    (footer,) = FOOTER.findall(shown)

    assert "<b>As of 2026-03-02 10:00 UTC</b>, last poll 09:42:05<" in banner
    choice = f"?replica={REPLICA.replace(':', '%3A').replace('/', '%2F')}" if page == "replica" else ""
    back = re.findall(r'href="([^"]*)">Back to live', banner)
    assert back == [f"{'./' if page == 'overview' else page}{choice}"], "the same page with its choices"
    for part in ("history at 2026-03-02T10:00Z", "data as of 2026-03-02T09:42:05Z", "4 of 4 answered"):
        assert part in footer
    assert is_still(app)
    if page in OF_ONE_FLEET:
        assert body(app).strip()
        assert "chat-05" not in body(app), "it was added later"
        urls = LINK.findall(body(app))
        assert [url for url in urls if "at=2026-03-02T10%3A00Z" not in url and not url.startswith("http")] == []


def is_still(app: AppTest) -> bool:
    """Whether nothing is polled and nothing can be paused."""
    return app.get("auto_refresh") == [] and "Pause updates" not in [toggle.label for toggle in app.toggle]


def test_a_comparison_of_past_times_is_still() -> None:
    assert is_still(on("changes", at=TEN, **{"from": TEN, "to": IN_GAP}))


@pytest.mark.parametrize("page", ["overview", "review", "snapshots"])
def test_a_gap_is_named_on_every_page_and_in_its_footer(page: str) -> None:
    shown = html(on(page, at=IN_GAP))

    gap = "o poll was recorded between 2026-03-02T10:42:05Z and 2026-03-02T11:42:05Z: the fleet may have changed"
    assert f"N{gap}." in BANNER.findall(shown)[0]
    assert f"(n{gap})" in FOOTER.findall(shown)[0]
    assert "Nothing changed" not in shown


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("", "“” is not a time; write 2026-11-22T14:00Z."),
        ("2026-03-02T08:00Z", "no poll at 2026-03-02T08:00:00Z or before; the first one is of 2026-03-02T08:42:05Z."),
        ("2027-01-01", "2027-01-01T00:00Z is in the future"),
    ],
)
def test_a_time_that_cannot_be_opened_is_one_sentence(at: str, why: str) -> None:
    assert why in html(visit(at=at))


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_a_hostile_time_is_text_on_every_page(page: str) -> None:
    shown = html(on(page, at="<script>alert(1)</script>"))

    assert "is not a time; write 2026-11-22T14:00Z." in shown
    assert "<script>" not in shown


def test_without_a_history_the_page_says_so() -> None:
    service.put(builders.story(), NOW)

    assert "This dashboard keeps no history" in html(visit(at=TEN))
    assert "Open a past time" not in html(visit())


def test_an_unreadable_history_is_one_sentence(history: Database) -> None:
    assert history.file is not None
    history.file.write_bytes(b"nonsense" * 1000)

    assert "The history history.db cannot be used: file is not a database." in html(visit(at=TEN))


def test_a_snapshot_wins_over_a_time_which_is_ignored_with_a_warning() -> None:
    key = service.snapshots().save(fleet_at(ODD), "odd", NOW).id
    shown = html(visit(snapshot=key, at=TEN))

    assert "<b>Snapshot</b>" in shown
    assert "Ignored invalid URL parameter <code>at=2026-03-02T10:00Z</code>." in shown


def test_neither_time_nor_a_newer_poll_changes_the_page(history: Database) -> None:
    app = visit("findings", at=TEN)
    before = body(app)
    service.put(fleet_at(LAST), NOW + timedelta(days=4), service.snapshots().folder, history=HistoryReader(history))

    assert body(rerun(app)) == before


def test_sessions_at_two_times_of_one_poll_keep_their_own_links() -> None:
    """They share the fleet of the poll, and no HTML."""
    pages = [body(visit("findings", at=at)) for at in (TEN, "2026-03-02T10:01Z")]

    assert "10%3A00Z" in pages[0]
    assert "10%3A01Z" not in pages[0]
    assert pages[0] == pages[1].replace("10%3A01Z", "10%3A00Z")


def test_a_link_to_the_page_is_shared_and_the_moment_can_be_frozen() -> None:
    app = visit("findings", at=TEN, search="severity:critical")
    assert copied(app)[0].endswith("/findings?search=severity%3Acritical&at=2026-03-02T10%3A00Z")
    app.button(key="save_snapshot").click()
    rerun(app)

    (stored,) = service.snapshots().all()
    assert stored.metadata.data_as_of == ODD
    assert "Saved as <b>prod-eu 2026-03-02T09:42:05Z</b>, data as of 2026-03-02T09:42:05Z." in html(app)
    assert "RT-01" in html(visit("findings", snapshot=stored.id))


def test_a_review_that_is_frozen_opens_its_snapshot() -> None:
    app = visit("review", at=TEN)
    app.button(key="save_for_review").click()
    rerun(app)

    assert "at" not in app.query_params
    assert "<b>Snapshot</b>" in html(app)


@pytest.mark.parametrize("output", [Format.HTML, Format.MARKDOWN, Format.JSON])
def test_every_export_has_the_time_and_the_last_poll(output: Format) -> None:
    app = visit("findings", at=TEN)
    view = app.session_state[share.OFFERED]()
    content = written(view, output).decode()

    assert "history at 2026-03-02T10:00Z" in context_line(view.context)
    assert "2026-03-02T10:00" in content.replace("\\", "")
    assert "2026-03-02T09:42:05Z" in content.replace("\\", "")


def test_the_menu_opens_a_time_and_keeps_the_choices_of_the_page() -> None:
    app = visit("findings", search="severity:critical")
    now = "findings?search=severity%3Acritical&amp;at=2026-03-02T11%3A42Z"
    assert now in html(app), "until another time is chosen"
    app.date_input(key="past_day").set_value(ODD.date())
    app.time_input(key="past_clock").set_value(ODD.time().replace(hour=10, minute=0, second=0))
    shown = html(rerun(app))

    assert 'href="findings?search=severity%3Acritical&amp;at=2026-03-02T10%3A00Z"' in shown
    quick = re.findall(r'at=([^"]*)">([^<]* ago|first poll)<', shown)
    assert quick == [
        ("2026-03-02T10%3A42Z", "1 h ago"),
        ("2026-03-02T08%3A42%3A05Z", "first poll"),
    ], "the history begins less than a day ago"


@pytest.mark.parametrize(("page", "more"), [("findings", ""), ("compare", "&amp;pool=chat")])
def test_the_menu_leads_to_what_changed_since(page: str, more: str) -> None:
    menu = html(visit(page, **({"pool": "chat"} if more else {}))).partition("Changes since")[2]

    assert re.findall(r'href="changes\?from=([^"]*)">([^<]*)<', menu) == [
        (f"2026-03-02T10%3A42Z&amp;to=live{more}", "last hour"),
        (f"2026-03-02T08%3A42%3A05Z&amp;to=live{more}", "start of the history"),
    ]


def test_a_past_time_and_a_snapshot_lead_to_what_changed_since() -> None:
    key = service.snapshots().save(fleet_at(ODD), "odd", NOW).id
    banners = [BANNER.findall(html(visit("findings", **url)))[0] for url in ({"at": TEN}, {"snapshot": key})]

    assert 'href="changes?from=2026-03-02T10%3A00Z&amp;to=live">Changes since then<' in banners[0]
    assert f'href="changes?from={key[:10]}&amp;to=live">Changes since then<' in banners[1]


@pytest.mark.few(2)
@pytest.mark.parametrize("page", OF_ONE_FLEET)
def test_a_page_of_the_past_is_the_page_of_the_fleet_as_it_was_then(
    demo_fleet: Fleet, tmp_path: Path, page: str
) -> None:
    """The same words, except for what belongs to live pages."""
    database = Database(f"sqlite:///{tmp_path / 'demo.db'}")
    writer = HistoryWriter(database)
    assert demo_fleet.polled_at is not None
    recorded = replace(demo_fleet, sightings=writer.record(demo_fleet, demo_fleet.polled_at + timedelta(minutes=1)))
    writer.close()
    url = {"screenshot": "1", **({"replica": demo_fleet.replicas[0].id} if page == "replica" else {})}
    show_with_snapshots(recorded, tmp_path, at=AT)
    live = words(body(visit(page, **url)))
    service.put(recorded, AT, tmp_path, history=HistoryReader(database))
    past = words(body(visit(page, at=AT.isoformat(timespec="seconds").replace("+00:00", "Z"), **url)))

    without_rates = replace(recorded, past=PastTime(AT), recorded_traffic={})  # the history has no rates of replicas
    whys = f"{why_no_traffic(without_rates)} {why_no_rates(without_rates)} {no_traffic_text(without_rates)}".split()
    assert [each for each in past if each not in {*live, *whys}] == []


def words(shown: str) -> set[str]:
    """The words of a page without Share and raw answers."""
    parts = [part for part in shown.split("\n") if not SHARE.search(part)]
    return set(re.sub(r"<[^>]*>", " ", " ".join(parts)).split())
