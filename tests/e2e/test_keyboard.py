"""Pages by keyboard in Chromium: keys that walk and open, and where the focus is afterwards."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import settle, url_has, visit

pytestmark = [pytest.mark.browser, pytest.mark.long]


def test_the_map_is_one_stop_of_tab_arrow_keys_walk_through_it_and_enter_opens_the_replica(
    page: Page, frozen_url: str
) -> None:
    visit(page, frozen_url)
    stops = page.locator('.fleet-map a[tabindex="0"]')
    name = "e => e.getAttribute('aria-label')"

    expect(stops).to_have_count(1)
    stops.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator(":focus").evaluate(name).startswith("chat-70b-04 · critical")
    expect(page.locator(".map-tip")).to_have_text(
        "chat-70b-04 · critical · cohort B: block_size 32 · click or Enter: the replica"
    )
    page.keyboard.press("ArrowDown")
    assert page.locator(":focus").evaluate(name).startswith("deepseek-v3-decode-3")
    page.keyboard.press("End")
    assert page.locator(":focus").evaluate(name).startswith("deepseek-v3-decode-7")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Home")
    assert page.locator(":focus").evaluate(name).startswith("chat-70b-01")
    page.keyboard.press("Escape")
    expect(page.locator(".map-tip")).to_be_hidden()
    expect(stops).to_have_count(1)
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    url_has(page, "replica?replica=")
    expect(page.get_by_role("heading", name="chat-70b-04")).to_be_visible()


def test_a_finding_opens_and_closes_by_keyboard_and_keeps_the_focus_in_the_list(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/findings")
    entry = page.get_by_role("link", name="max_logprobs is")
    entry.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Why it matters here")).to_be_visible()
    expect(page.locator(".findings [aria-current] a")).to_be_focused()
    close = page.get_by_role("link", name="Close")
    close.focus()
    page.keyboard.press("Enter")
    expect(close).to_have_count(0)

    expect(entry).to_be_focused()
    expect(entry).to_be_in_viewport()


def test_j_and_k_walk_through_findings_and_causes_and_escape_closes(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/findings")
    entries = page.locator(".findings .what > a")
    for key, place in (("j", 0), ("j", 1), ("j", 2), ("k", 1), ("k", 0), ("k", 0)):
        page.keyboard.press(key)
        expect(entries.nth(place)).to_be_focused()
    page.keyboard.press("Enter")
    close = page.get_by_role("link", name="Close")
    expect(close).to_be_visible()  # it follows the URL, on a busy machine much later
    page.keyboard.press("Escape")
    expect(page).to_have_url(f"{frozen_url}/findings")
    expect(close).to_have_count(0)
    search = page.get_by_role("textbox", name="Search", exact=True)
    search.press("j")
    expect(search).to_have_value("j")

    visit(page, frozen_url)
    page.keyboard.press("j")
    expect(page.locator(".st-key-first .what > a").first).to_be_focused()
    page.keyboard.press("Enter")
    url_has(page, "cause=")


FOCUSED = "document.activeElement.getAttribute('href')"


def test_the_focus_returns_to_the_cell_or_cause_that_was_opened(page: Page, frozen_url: str) -> None:
    """After Back from the replica of a cell, and where a link opened the cause."""
    visit(page, frozen_url)
    cell = page.locator(".fleet-map a.cell").nth(3)
    cell.press("Enter")
    url_has(page, "replica?")
    settle(page)
    page.go_back()
    expect(cell).to_be_focused()

    visit(page, f"{frozen_url}/?cause=env.PYTHONHASHSEED")
    page.get_by_role("dialog").press("Escape")
    expect(page.locator(".entries .what > a[href$='cause=env.PYTHONHASHSEED']")).to_be_focused()


def test_a_question_mark_lists_the_keys_and_the_focus_returns(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/replicas")
    page.keyboard.press("j")
    first = page.evaluate(FOCUSED)
    page.keyboard.press("?")
    keys = page.locator("dialog.keys")
    expect(keys).to_contain_text("next and previous finding, cause or row of a table")
    expect(keys).to_contain_text("first and last cell of the row")
    page.keyboard.press("j")
    page.keyboard.press("Escape")

    expect(keys).to_be_hidden()
    assert page.evaluate(FOCUSED) == first


def test_j_and_k_walk_through_rows_of_a_table_and_enter_opens_one(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/replicas")
    for key, place in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        expect(page.locator("table.plain tbody tr").nth(place).locator("a").first).to_be_focused()
    href = page.evaluate(FOCUSED)
    page.keyboard.press("Enter")
    url_has(page, str(href))
