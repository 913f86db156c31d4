"""The page Snapshots lists, finds, opens and compares snapshots, whatever is in the folder or typed."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.fleet import Note
from tests import builders
from tests.builders import HOSTILE, NOW
from tests.page_runner import freeze, html, opened, rerun, show_with_snapshots, visit
from tests.store.folders import damage


def earlier(days: int) -> Fleet:
    document = builders.document()
    return builders.fleet(builders.alike("chat", 4, document), [document], polled_at=NOW - timedelta(days=days))


def typed(text: str) -> AppTest:
    """The page after a text was typed into Open by id."""
    app = visit("snapshots")
    app.text_input(key="snapshot_id").set_value(text)
    return rerun(app)


@pytest.mark.parametrize("fleet", [empty_fleet("prod"), builders.fleet(polled_at=NOW)], ids=["unpolled", "no target"])
def test_snapshots_open_without_any_target(fleet: Fleet, tmp_path: Path) -> None:
    show_with_snapshots(fleet, tmp_path)
    assert "select Save snapshot under Share, or import files below" in html(visit("snapshots"))
    key = freeze(builders.story())

    assert "Ops review" in html(visit("snapshots"))
    assert "chat-70b" in html(visit(snapshot=key))


def test_a_row_has_the_facts_of_a_snapshot_and_links_to_it_its_findings_and_its_dialog(live: Fleet) -> None:
    key = freeze(live)
    service.snapshots().note(key, "x", Note("mind this"))
    page = html(visit("snapshots"))

    for cell in ("Ops review", "2026-03-02T11:42:05Z", "39 of 40", "3 critical", "10 warnings", "KiB"):
        assert cell in page
    assert f">{key[:10]}<" in page
    for url in (
        f"./?snapshot={key[:10]}",
        f"findings?search=severity%3Acritical&amp;snapshot={key[:10]}",
        f"snapshots?manage={key[:10]}",
    ):
        assert f'href="{url}"' in page


@pytest.mark.usefixtures("live")
def test_the_newest_data_is_first_and_many_snapshots_have_a_search() -> None:
    for day in range(9):
        freeze(earlier(day), f"review of day-{day}")
    app = visit("snapshots")
    assert html(app).index("day-1") < html(app).index("day-2")
    app.text_input(key="search").set_value("DAY-7 review")
    page = html(rerun(app))

    assert page.count("Export, manage") == 1
    assert ">review of day-7<" in page


def test_a_damaged_snapshot_is_a_warning_below_the_others(live: Fleet) -> None:
    freeze(live)
    key = freeze(earlier(1), "damaged")
    damage(service.snapshots(), key, metadata=b"{")
    page = html(visit("snapshots"))

    assert page.index("Ops review") < page.index(f"The name and notes of snapshot {key} are damaged")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://localhost:8501/findings?search=a%3Ab&snapshot={}", "findings?search=a%3Ab&snapshot={}"),
        (" https://ops.example.com/fleet?snapshot={}&screenshot=1#top ", "./?snapshot={}&screenshot=1"),
        ("https://ops.example.com/fleet/compare/?pool=a%2Fb&snapshot={}", "compare?pool=a%2Fb&snapshot={}"),
        ("./?snapshot={}", "./?snapshot={}"),
        ("changes?from={}&to=live", "changes?from={}&to=live"),
        (" {:.6} ", None),
    ],
)
def test_the_beginning_of_an_id_or_a_link_opens_its_page_with_its_choices(
    live: Fleet, text: str, url: str | None
) -> None:
    key = freeze(live)

    assert opened(typed(text.format(key))) == [(url or "./?snapshot={}").format(key)]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("ffff", "There is no snapshot “ffff” here; it may have been deleted."),
        ("3-9 a", "There is no snapshot “3-9 a” here; type at least four digits of its id."),
        ("Ops review", "There is no snapshot “Ops review” here; names are not looked up."),
        ("http://[", "There is no snapshot"),
        (f"{HOSTILE}?snapshot=", "There is no snapshot"),
        ("?snapshot=../../x", "There is no snapshot"),
        ("&".join("x=1" for _ in range(9)), "There is no snapshot"),
    ],
)
def test_any_other_text_opens_nothing_and_reveals_no_path(live: Fleet, tmp_path: Path, text: str, answer: str) -> None:
    freeze(live)
    app = typed(text)

    assert answer in html(app)
    assert "<script>" not in html(app)
    assert str(tmp_path) not in html(app)
    assert opened(app) == []


def test_any_two_can_be_compared_and_the_live_fleet_with_the_last_review(live: Fleet) -> None:
    last = freeze(builders.fleet([], name=live.name, polled_at=NOW - timedelta(days=7)), "Review last week")
    older = freeze(earlier(30), "prod-eu 2026-01-31T11:42:13Z")
    app = visit("snapshots")
    assert f"changes?from={last}&amp;to=live" in html(app)
    assert "Changes since the last review" in html(app)
    options = app.selectbox(key="snapshots_side_from").options
    assert f"Review last week · 2026-02-23T11:42:13Z · {last[:10]}" in options
    assert f"prod-eu 2026-01-31T11:42:13Z · {older[:10]}" in options, "the time is in the name"

    app.selectbox(key="snapshots_side_from").set_value(older)
    app.selectbox(key="snapshots_side_to").set_value(last)
    assert f"changes?from={older}&amp;to={last}" in html(rerun(app))


@pytest.mark.parametrize("fleet", [builders.story(), empty_fleet("prod")], ids=["with a live fleet", "without one"])
def test_by_default_two_of_one_fleet_are_compared(fleet: Fleet, tmp_path: Path) -> None:
    show_with_snapshots(fleet, tmp_path)
    newest, older = freeze(builders.story()), freeze(earlier(30))
    freeze(builders.fleet([], name="other", polled_at=NOW - timedelta(days=1)), "of another fleet")

    sides = f"from={newest}&amp;to=live" if fleet.polled_at else f"from={older}&amp;to={newest}"
    assert f"changes?{sides}" in html(visit("snapshots"))


def test_the_options_of_a_comparison_do_not_change_with_the_clock(live: Fleet) -> None:
    key = freeze(live)
    before = visit("snapshots", snapshot=key, screenshot="1").selectbox(key="snapshots_side_to").options
    show_with_snapshots(replace(live, polled_at=NOW + timedelta(minutes=1), generation=2), service.snapshots())

    assert before[0] == "prod-eu now"
    assert visit("snapshots", snapshot=key, screenshot="1").selectbox(key="snapshots_side_to").options == before
