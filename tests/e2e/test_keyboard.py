"""Keyboard in Chromium: skip link, explanations, dialogs and the guide. test_every_page.py tests Tab."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import at_rest
from tests.e2e.states import CHAT

pytestmark = pytest.mark.browser


def test_the_first_tab_stop_skips_the_header(page: Page, frozen_url: str) -> None:
    show(page, frozen_url)
    page.keyboard.press("Tab")

    assert page.evaluate("document.activeElement.textContent") == "Skip to main content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('[data-testid=stMain]').contains(document.activeElement)")


def test_focus_shows_the_explanation_of_a_term_and_escape_hides_it(page: Page, frozen_url: str) -> None:
    show(page, frozen_url)
    word = page.locator("dfn.term", has_text="Cohorts")
    explanation = page.locator("#term-cohort")
    expect(explanation).to_be_hidden()
    word.focus()

    expect(explanation).to_be_visible()
    expect(word).to_have_accessible_description(explanation.text_content() or "missing")
    page.keyboard.press("Escape")
    expect(explanation).to_be_hidden()


def test_escape_closes_a_dialog_and_returns_the_focus_to_its_cell(page: Page, frozen_url: str) -> None:
    show(page, f"{frozen_url}/compare?pool={CHAT}")
    cell = page.locator('.matrix tr[data-path="cache_config.block_size"] td[tabindex]').last
    cell.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()

    expect(page.locator(".matrix td:focus")).to_have_count(1)


def test_closing_the_guide_moves_the_focus_to_the_page(page: Page, frozen_url: str) -> None:
    show(page, frozen_url)
    page.get_by_role("button", name="Got it").press("Enter")

    expect(page.locator("[data-testid=stMain]")).to_be_focused()


def show(page: Page, url: str) -> None:
    """Open a URL and wait until the page is drawn."""
    page.goto(url)
    at_rest(page)
