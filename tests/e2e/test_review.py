"""Review in Chromium: the keys of a meeting, notes that survive a reload, and larger type."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from dashboard.analysis.assembly import Fleet
from dashboard.store.snapshots import Snapshots
from tests.browser import settle, tab, url_has, visit
from tests.frozen import AT
from tests.serving import ROOT, free_port, started, wait_until_healthy

pytestmark = [pytest.mark.browser, pytest.mark.long]

APP = """\
from pathlib import Path
import streamlit as st
from dashboard import service
from dashboard.config import Options
from dashboard.web import edge, server
from dashboard.store.snapshots import Snapshots
from tests.frozen import AT
folder = Path({folder!r})
service.put(Snapshots(folder).fleet({key!r}), AT, folder)
page = Path(st.__file__).with_name("static") / "index.html"
guard = edge.middleware(Options(), lambda: "127.0.0.1", page)
app = st.App({main!r}, routes=server.routes(), middleware=[guard])
"""
AGENDA = [
    "Status",
    "Fix plan",
    "New",
    "Findings",
    "Differences",
    "Capacity",
    "Traffic",
    "Incomplete data",
    "Suppressed",
]
MEETING = "&meeting=1"
SIDEWAYS = "(e => e.scrollWidth - e.clientWidth)(document.querySelector('[data-testid=stMain]'))"
TYPE_SIZE = "parseFloat(getComputedStyle(document.documentElement).fontSize)"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    return Snapshots(tmp_path_factory.mktemp("review") / "snapshots")


@pytest.fixture(scope="module")
def url(store: Snapshots, demo_fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the review of a snapshot, served with a folder of its own."""
    key = store.save(demo_fleet, "Review", AT).id
    script: Path = tmp_path_factory.mktemp("app") / "review_app.py"
    main = str(ROOT / "dashboard" / "web" / "pages" / "main.py")
    script.write_text(APP.format(folder=str(store.folder), key=key, main=main))
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.headless=true"]
    with started([*command, f"--server.port={port}"], environment={"PYTHONPATH": str(ROOT)}):
        address = f"http://127.0.0.1:{port}"
        wait_until_healthy(address)
        yield f"{address}/review?snapshot={key}"


def is_at(page: Page, title: str) -> None:
    """Wait until the bar marks a section, which is the only one."""
    expect(page.locator(".meeting [aria-current=true]")).to_contain_text(title)
    expect(page.locator("[class*=st-key-review_]:has(> * [id^=agenda-])")).to_have_count(1)
    settle(page)


def first_note(page: Page) -> Locator:
    return page.locator("[class*=st-key-topic_] textarea").first


def test_arrows_move_through_the_sections_whose_name_is_in_the_url(page: Page, url: str) -> None:
    visit(page, url + MEETING)
    is_at(page, AGENDA[0])
    for title in AGENDA[1:]:
        page.keyboard.press("ArrowRight")
        is_at(page, title)
    url_has(page, "section=suppressed")
    page.keyboard.press("ArrowRight")
    is_at(page, AGENDA[-1])
    page.keyboard.press("ArrowLeft")
    is_at(page, AGENDA[-2])
    page.reload()
    is_at(page, AGENDA[-2])
    page.go_back()
    is_at(page, AGENDA[-1])


def test_page_down_scrolls_through_a_long_section_before_the_next(page: Page, url: str) -> None:
    """A presenter's button sends Page Down: no finding is skipped."""
    visit(page, f"{url}{MEETING}&section=findings")
    is_at(page, "Findings")
    page.keyboard.press("PageDown")
    is_at(page, "Findings")
    for _ in range(60):
        page.keyboard.press("PageDown")
        if "section=findings" not in page.url:
            break
    is_at(page, "Differences")
    page.keyboard.press("PageUp")
    is_at(page, "Findings")


def test_keys_are_text_in_fields_and_escape_ends_the_meeting(page: Page, url: str) -> None:
    visit(page, f"{url}{MEETING}&section=findings")
    first_note(page).click()
    page.keyboard.type("jk 5?")
    page.keyboard.press("ArrowLeft")
    expect(first_note(page)).to_have_value("jk 5?")
    is_at(page, "Findings")
    first_note(page).fill("")
    page.keyboard.press("Escape")
    settle(page)
    assert "meeting=1" in page.url

    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("meeting|section"))
    expect(page).to_have_url(re.compile("snapshot="))
    expect(page.get_by_role("link", name="Meeting mode")).to_be_visible()


def test_a_meeting_is_one_section_without_the_application_around_it(browser: Browser, url: str) -> None:
    """The bar is on one line at every width, and covers nothing at the end of a section."""
    with tab(browser, height=900) as page:
        visit(page, url)
        before = page.evaluate(TYPE_SIZE)
        page.get_by_role("link", name="Meeting mode").click()
        url_has(page, "meeting=1")
        settle(page)
        assert page.evaluate(TYPE_SIZE) == pytest.approx(before * 1.35)
        for part in ("[data-testid=stHeader]", ".st-key-header", ".snapshot-banner", "footer.context"):
            expect(page.locator(part)).to_be_hidden()
        for width in (390, 760, 1024, 1240, 1600):
            page.set_viewport_size({"width": width, "height": 900})
            settle(page)
            bar = page.locator("nav.meeting").bounding_box()
            leave = page.locator(".meeting .leave").bounding_box()

            assert bar
            assert leave
            assert bar["y"] + bar["height"] == pytest.approx(900, abs=1)
            assert bar["height"] < 60
            assert leave["x"] + leave["width"] <= width
            assert page.evaluate(SIDEWAYS) <= 0, f"at {width} pixels"


def test_a_link_leaves_the_meeting_and_back_returns_to_its_section(page: Page, url: str) -> None:
    visit(page, f"{url}{MEETING}&section=findings")
    page.locator("[class*=st-key-topic_] a").first.click()
    url_has(page, "/findings?")
    expect(page.get_by_test_id("stHeader")).to_be_visible()
    assert "meeting" not in page.url
    page.go_back()
    is_at(page, "Findings")


def test_the_agenda_leads_to_a_section_below_it(page: Page, url: str) -> None:
    visit(page, url)
    page.locator(".agenda a", has_text="Differences").click()
    heading = page.locator("#agenda-differences")
    expect(heading).to_be_in_viewport()
    settle(page)
    agenda, place = page.locator("nav.agenda").bounding_box(), heading.bounding_box()

    assert agenda
    assert place
    assert place["y"] >= agenda["y"] + agenda["height"] - 1


def test_an_edited_note_is_not_marked_as_saved(page: Page, url: str) -> None:
    visit(page, url)
    topic = page.locator("[class*=st-key-topic_]").nth(4)
    field, saved = topic.locator("textarea"), topic.locator(".saved")
    field.fill("First.")
    field.blur()
    expect(saved).to_be_visible()

    field.press_sequentially(" Second.")
    expect(saved).to_be_hidden()
    field.press("Control+Enter")
    expect(saved).to_be_visible()


def test_a_note_of_two_lines_is_there_after_a_reload(page: Page, url: str, store: Snapshots) -> None:
    """In a field, letters and digits are text, and Enter starts a line."""
    visit(page, f"{url}{MEETING}&section=findings")
    for keeps in ("Control+Enter", "Escape", "Tab"):
        is_at(page, "Findings")
        topic = page.locator("[class*=st-key-topic_]").first
        topic.get_by_placeholder("Owner").fill("ana")
        first_note(page).fill("")
        page.keyboard.type("Restart it.")
        page.keyboard.press("Enter")
        page.keyboard.type(f"7 jobs, {keeps}.")
        is_at(page, "Findings")
        page.keyboard.press(keeps)

        text = f"Restart it.\n7 jobs, {keeps}."
        expect(topic.get_by_text("saved 11:42")).to_be_visible()
        settle(page)
        page.reload()
        settle(page)
        expect(first_note(page)).to_have_value(text)
        expect(topic.get_by_placeholder("Owner")).to_have_value("ana")
        (stored,) = store.all()
        assert (text, "ana") in {(note.text, note.owner) for note in stored.metadata.notes.values()}


@pytest.mark.parametrize("place", ["Owner", "What was agreed"])
def test_leaving_with_an_unsaved_note_asks_and_saves_it(page: Page, url: str, place: str) -> None:
    visit(page, url)
    topic = page.locator("[class*=st-key-topic_]").nth(3)
    topic.get_by_placeholder(place).fill(f"{place}: not left yet")
    asked: list[str] = []
    page.on("dialog", lambda dialog: asked.append(dialog.type))
    page.on("dialog", lambda dialog: dialog.dismiss())  # stay
    page.evaluate("setTimeout(() => location.reload())")

    expect(topic.get_by_text("saved 11:42")).to_be_visible()
    settle(page)
    page.reload()
    settle(page)
    assert asked == ["beforeunload"]  # and not again: nothing was typed since
    expect(topic.get_by_placeholder(place)).to_have_value(f"{place}: not left yet")


def test_saving_by_key_keeps_focus_and_caret(page: Page, url: str) -> None:
    """And the line that was just started."""
    visit(page, f"{url}{MEETING}&section=findings")
    field = page.locator("[class*=st-key-topic_] textarea").nth(2)
    field.click()
    page.keyboard.type("First.")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[class*=st-key-topic_]").nth(2).get_by_text("saved 11:42")).to_be_visible()
    settle(page)

    page.keyboard.type("7 jobs.")
    expect(field).to_have_value("First.\n7 jobs.")
    expect(field).to_be_focused()


def test_typed_text_survives_the_saving_of_the_previous_field(page: Page, url: str) -> None:
    """Leaving the owner saves and draws the page again while the note is being typed."""
    visit(page, url)
    topic = page.locator("[class*=st-key-topic_]").nth(1)
    topic.get_by_placeholder("Owner").fill("bo")
    topic.locator("textarea").click()
    page.keyboard.type("A note that is typed while the owner is being saved, letter by letter.", delay=15)
    settle(page)

    expect(topic.locator("textarea")).to_have_value(
        "A note that is typed while the owner is being saved, letter by letter."
    )
