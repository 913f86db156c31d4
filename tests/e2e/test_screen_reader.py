"""What a screen reader reads in Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import at_rest
from tests.e2e.states import CHAT, at

pytestmark = pytest.mark.browser

SCALE = 'tr[data-path="cache_config.block_size"]'


def test_the_matrix_reads_row_by_row(page: Page, frozen_url: str) -> None:
    """Setting, state, and the value of each cohort; a value that differs is read as such."""
    page.goto(frozen_url + at("compare", pool=CHAT))
    at_rest(page)

    expect(page.locator(f".matrix {SCALE}").last).to_match_aria_snapshot("""
- row:
  - rowheader "cache_config.block_size"
  - 'gridcell "differs: critical finding"'
  - gridcell "16"
  - gridcell "16"
  - gridcell "32 differs"
""")


def test_the_header_is_silent_until_the_data_is_stale(page: Page, frozen_url: str) -> None:
    """The header is drawn every few seconds; only a change to stale is announced."""
    page.goto(frozen_url)
    at_rest(page)
    status = page.get_by_role("status").and_(page.locator("body > .said"))
    expect(status).to_have_text("")
    page.locator(".asof").evaluate(
        "line => line.insertAdjacentHTML('beforeend', '<span class=late data-status=\"The data is stale.\"></span>')"
    )

    expect(status).to_have_text("The data is stale.")
    assert page.locator(".asof").evaluate("line => line.closest('[aria-live]')") is None
