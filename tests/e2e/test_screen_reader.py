"""In a real browser: what those hear who do not see the page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import at_rest
from tests.e2e.states import CHAT, FINDING, HASHED_OTHERWISE, at

pytestmark = pytest.mark.browser

PAGES = (
    "/",
    at("findings", finding=FINDING),
    at("compare", pool=CHAT),
    at("capacity"),
    at("replicas"),
    at("replica", replica=HASHED_OTHERWISE),
    at("review"),
    at("snapshots"),
)
WITHOUT_HEADS = """() => [...document.querySelectorAll('[data-testid=stMain] table')]
  .filter((each) => each.checkVisibility())
  .filter((each) => !each.caption?.textContent.trim() || !each.querySelector('th[scope=col]'))
  .map((each) => each.outerHTML.slice(0, 100))"""
# A shape is followed by its word, or stands in what has a name.
WORDLESS = """() => [...document.querySelectorAll('[data-testid=stMain] .glyph')]
  .map((each) => [each, each.parentElement.textContent.replace(each.textContent, "").trim()])
  .filter(([each, words]) => each.getAttribute("aria-hidden") !== "true" || !words)
  .map(([each]) => each.parentElement.outerHTML.slice(0, 100))"""
SCALE = 'tr[data-path="cache_config.block_size"]'


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_one_head_its_landmarks_and_tables_that_are_named(page: Page, frozen_url: str, path: str) -> None:
    page.goto(frozen_url + path)
    at_rest(page)

    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("navigation", name="App pages")).to_have_count(1)
    assert page.evaluate(WITHOUT_HEADS) == []
    assert page.evaluate(WORDLESS) == []


def test_the_matrix_reads_row_by_row(page: Page, frozen_url: str) -> None:
    """The setting, how it stands, and the value of each cohort; one that differs says so."""
    page.goto(frozen_url + at("compare", pool=CHAT))
    at_rest(page)

    expect(page.locator(f".matrix {SCALE}").last).to_match_aria_snapshot("""
- row:
  - rowheader "cache_config.block_size"
  - 'gridcell "differs: critical, a finding names it"'
  - gridcell "16"
  - gridcell "16"
  - gridcell "32 differs"
""")


def test_the_header_is_silent_until_the_data_is_stale(page: Page, frozen_url: str) -> None:
    """It is drawn anew every few seconds, which nobody wants to hear."""
    page.goto(frozen_url)
    at_rest(page)
    status = page.get_by_role("status").and_(page.locator("body > .said"))
    expect(status).to_have_text("")
    page.locator(".asof").evaluate(
        "line => line.insertAdjacentHTML('beforeend', '<span class=late data-status=\"The data is stale.\"></span>')"
    )

    expect(status).to_have_text("The data is stale.")
    assert page.locator(".asof").evaluate("line => line.closest('[aria-live]')") is None
