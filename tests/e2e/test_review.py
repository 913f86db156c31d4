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
from tests.browser import settle, tab, visit
from tests.frozen import AT
from tests.serving import ROOT, free_port, started, wait_until_healthy

pytestmark = pytest.mark.browser

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
AGENDA = ["Status", "New", "Findings", "Differences", "Capacity", "Unreachable or partial", "Suppressed"]
MEETING = "&meeting=1"
SIDEWAYS = "(e => e.scrollWidth - e.clientWidth)(document.querySelector('[data-testid=stMain]'))"
COUNT_AGENDAS = """() => {
  window.agendas = 1;
  new MutationObserver(changes => changes.flatMap(change => [...change.addedNodes])
    .forEach(node => window.agendas += node.querySelectorAll?.('.agenda-surface').length ?? 0)
  ).observe(document.body, {childList: true, subtree: true});
}"""


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


def current(page: Page) -> Locator:
    """The entry of the agenda that is marked."""
    return page.locator(".agenda [aria-current=step]")


def is_at(page: Page, title: str) -> None:
    """Wait until the agenda marks a section whose heading has the focus and is visible below the agenda."""
    expect(current(page)).to_contain_text(title)
    heading = page.locator(":is(h1, h2):focus")
    expect(heading).to_be_in_viewport()
    agenda, place = page.locator("nav.agenda").bounding_box(), heading.bounding_box()
    assert agenda
    assert place
    assert place["y"] >= agenda["y"] + agenda["height"] - 1


def first_note(page: Page) -> Locator:
    return page.locator("[class*=st-key-topic_] textarea").first


def test_keys_of_a_meeting_move_through_the_agenda(page: Page, url: str) -> None:
    """j and k in both directions, digits directly; the title is announced, and a short scroll changes nothing."""
    visit(page, url + MEETING)
    expect(current(page)).to_contain_text(AGENDA[0])
    for title in AGENDA[1:]:
        page.keyboard.press("j")
        is_at(page, title)
    for title in reversed(AGENDA[:-1]):
        page.keyboard.press("k")
        is_at(page, title)
    page.keyboard.press("5")
    is_at(page, "Capacity")
    expect(page.locator("[aria-live=polite]").filter(has_text="Capacity")).to_have_count(1)

    page.keyboard.press("3")
    is_at(page, "Findings")
    page.locator("[data-testid=stMain]").evaluate("e => e.scrollBy(0, 20)")
    settle(page)
    expect(current(page)).to_contain_text("Findings")
    page.locator("[data-testid=stMain]").evaluate("e => e.scrollBy(0, -120)")
    expect(current(page)).to_contain_text("New")


def test_page_down_scrolls_through_a_long_section_before_the_next(page: Page, url: str) -> None:
    """A presenter's button sends Page Down: no finding is skipped."""
    visit(page, url + MEETING)
    page.keyboard.press("3")
    is_at(page, "Findings")

    page.keyboard.press("PageDown")
    expect(current(page)).to_contain_text("Findings")
    for _ in range(60):
        page.keyboard.press("PageDown")
        if "Findings" not in current(page).inner_text():
            break
    is_at(page, "Differences")
    page.keyboard.press("PageUp")
    expect(current(page)).to_contain_text("Findings")


def test_the_keys_are_listed_on_request_are_off_in_fields_and_escape_ends_the_meeting(page: Page, url: str) -> None:
    visit(page, url + MEETING)
    keys, button = page.locator(".agenda .keys"), page.get_by_role("button", name="? keys")
    expect(button).to_have_attribute("aria-expanded", "false")
    expect(keys).to_be_hidden()
    page.keyboard.press("?")
    expect(keys).to_contain_text("next and previous section")
    expect(button).to_have_attribute("aria-expanded", "true")
    button.click()
    expect(keys).to_be_hidden()

    page.keyboard.press("3")
    is_at(page, "Findings")
    first_note(page).click()
    page.keyboard.type("jk 5?")
    expect(first_note(page)).to_have_value("jk 5?")
    expect(current(page)).to_contain_text("Findings")
    first_note(page).fill("")
    page.keyboard.press("Escape")
    settle(page)
    assert "meeting=1" in page.url

    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("meeting"))
    expect(page).to_have_url(re.compile("snapshot="))
    expect(page.get_by_role("button", name="Meeting mode")).to_be_visible()


def test_in_a_high_window_the_current_section_is_the_one_of_the_last_key(browser: Browser, url: str) -> None:
    """Several sections are visible. Scrolling selects by position again."""
    with tab(browser, width=1600, height=2600) as page:
        visit(page, url + MEETING)
        expect(current(page)).to_contain_text(AGENDA[0])

        page.keyboard.press("j")
        is_at(page, AGENDA[1])
        page.keyboard.press("7")
        settle(page)
        is_at(page, AGENDA[6])
        page.locator("[data-testid=stMain]").evaluate("e => e.scrollTo(0, 0)")
        expect(current(page)).to_contain_text(AGENDA[0])


def test_a_meeting_fits_every_width(browser: Browser, url: str) -> None:
    """The agenda is on one line, completely from 1,024 pixels; larger type covers no controls of the header."""
    with tab(browser, height=900) as page:
        visit(page, url + MEETING)
        for width in (760, 1024, 1240, 1501, 1600, 1761):
            page.set_viewport_size({"width": width, "height": 900})
            settle(page)
            agenda = page.locator("nav.agenda").bounding_box()
            share = page.get_by_role("button", name="Share").bounding_box()
            cut = page.locator(".agenda ol").evaluate("e => e.scrollWidth - e.clientWidth")

            assert agenda
            assert share
            assert agenda["height"] < 60
            assert share["y"] + share["height"] < 61
            if width >= 1024:
                link = page.get_by_test_id("stTopNavLink").last.bounding_box()
                search = page.locator(".search-everything").bounding_box()
                assert link
                assert search
                assert cut <= 0
                assert link["x"] + link["width"] <= search["x"]
                assert page.evaluate(SIDEWAYS) <= 0, f"at {width} pixels"


def test_the_last_section_ends_with_its_last_content_visible(page: Page, url: str) -> None:
    """Without a blank screen, and another key scrolls no further."""
    visit(page, url + MEETING)
    page.keyboard.press("7")
    is_at(page, "Suppressed")
    for key in ("Space", "PageDown", "Space"):
        page.keyboard.press(key)
        settle(page)
    place = page.locator("[data-testid=stMain]").evaluate("e => e.scrollTop")

    expect(page.get_by_text("All of it:")).to_be_in_viewport()
    expect(page.locator(".agenda-surface .shown")).to_be_in_viewport(ratio=1)
    agenda = page.locator("nav.agenda").bounding_box()
    last = page.locator(".st-key-review_suppressed textarea").bounding_box()
    assert agenda
    assert last
    assert last["y"] >= agenda["y"] + agenda["height"]
    page.keyboard.press("PageDown")
    settle(page)
    assert page.locator("[data-testid=stMain]").evaluate("e => e.scrollTop") == place
    expect(current(page)).to_contain_text("Suppressed")


def test_the_current_section_stays_when_a_meeting_begins_and_ends(page: Page, url: str) -> None:
    """The size of the type changes, and all positions with it. There is only one agenda; its keys are the meeting's."""
    visit(page, url)
    page.evaluate(COUNT_AGENDAS)
    page.keyboard.press("5")
    page.keyboard.press("j")
    expect(current(page)).to_contain_text(AGENDA[0])
    page.get_by_role("button", name="Differences").click()
    is_at(page, "Differences")
    for ends in ("Escape", "click"):
        page.get_by_role("button", name="Meeting mode").dispatch_event("click")
        expect(page).to_have_url(re.compile("meeting=1"))
        settle(page)
        is_at(page, "Differences")
        if ends == "click":
            page.get_by_role("button", name="Leave the meeting").click()
        else:
            page.keyboard.press("Escape")
        expect(page).not_to_have_url(re.compile("meeting"))
        settle(page)
        is_at(page, "Differences")
    assert page.evaluate("window.agendas") == 1


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


def test_a_meeting_has_larger_type_on_every_page_and_a_link_back(page: Page, url: str) -> None:
    """Links keep the meeting."""
    visit(page, url)
    before = page.evaluate("parseFloat(getComputedStyle(document.documentElement).fontSize)")
    page.get_by_role("button", name="Meeting mode").click()
    expect(page).to_have_url(re.compile("meeting=1"))
    settle(page)

    size = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
    assert page.evaluate(size) == pytest.approx(before * 1.35)
    page.get_by_role("link", name="Capacity", exact=True).first.click()
    expect(page).to_have_url(re.compile("/capacity.*meeting=1"))
    settle(page)
    assert page.evaluate(size) == pytest.approx(before * 1.35)
    page.get_by_role("link", name="Back to the review").click()
    expect(page).to_have_url(re.compile("/review.*meeting=1"))
    expect(page).to_have_url(re.compile("snapshot="))


def test_a_note_of_two_lines_is_there_after_a_reload(page: Page, url: str, store: Snapshots) -> None:
    """In a field, letters and digits are text, and Enter starts a line."""
    visit(page, url + MEETING)
    for keeps in ("Control+Enter", "Escape", "Tab"):
        page.keyboard.press("3")
        is_at(page, "Findings")
        topic = page.locator("[class*=st-key-topic_]").first
        topic.get_by_placeholder("Owner").fill("ana")
        first_note(page).fill("")
        page.keyboard.type("Restart it.")
        page.keyboard.press("Enter")
        page.keyboard.type(f"7 jobs, {keeps}.")
        expect(current(page)).to_contain_text("Findings")
        page.keyboard.press(keeps)

        text = f"Restart it.\n7 jobs, {keeps}."
        expect(topic.get_by_text("saved 11:42")).to_be_visible()
        settle(page)
        page.reload()
        settle(page)
        expect(first_note(page)).to_have_value(text)
        expect(topic.get_by_placeholder("Owner")).to_have_value("ana")
        (stored,) = store.all()
        assert (text, "ana") in {note[:2] for note in stored.notes.values()}


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
    visit(page, url + MEETING)
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
