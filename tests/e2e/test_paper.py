"""Printing in Chromium: charts fit the paper, and collapsed text is open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import at_rest, tab
from tests.e2e.states import at

pytestmark = pytest.mark.browser

PAPER_WIDTH = 1030  # CSS pixels of A4 without margins


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with tab(browser, width=PAPER_WIDTH) as found:
        yield found


def test_a_chart_is_scaled_to_the_paper_and_back(page: Page, frozen_url: str) -> None:
    page.set_viewport_size({"width": 1600, "height": 1000})
    page.goto(frozen_url + at("capacity"))
    at_rest(page)
    drawing = page.locator("[data-testid=stPlotlyChart] .main-svg").first
    drawn = drawing.get_attribute("width")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")

    assert (drawing.get_attribute("viewBox") or "").split()[2] == drawn
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert drawing.get_attribute("viewBox") is None


def test_collapsed_text_is_open_on_paper(page: Page, frozen_url: str) -> None:
    page.goto(frozen_url + at("review"))
    at_rest(page)
    advice = page.locator(".entries details b", has_text="What to do").first
    expect(advice).to_be_hidden()
    page.emulate_media(media="print")

    expect(advice).to_be_visible()
