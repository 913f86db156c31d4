"""In a real browser: a printed page holds what the page says, without what can only be clicked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import at_rest, tab
from tests.e2e.states import CHAT, FINDING, at

pytestmark = pytest.mark.browser

PAPER_WIDTH = 1030  # CSS pixels of A4 across, without its margins
PAGES = ("/", at("findings"), at("findings", finding=FINDING), at("compare", pool=CHAT), at("capacity"), at("review"))
# Boxes that hold their text only in part: on paper nobody scrolls.
CUT = """() => [...document.querySelectorAll('[data-testid=stMain] *')]
  .filter((each) => each.checkVisibility() && !each.closest('.said, svg, canvas'))
  .filter((each) => !['visible', 'clip'].includes(getComputedStyle(each).overflowY))
  .filter((each) => each.scrollHeight > each.clientHeight + 4 && each.clientHeight > 40)
  .map((each) => each.className)"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with tab(browser, width=PAPER_WIDTH) as found:
        yield found


@pytest.mark.parametrize("path", PAGES)
def test_paper_shows_the_content_and_the_context_without_controls(page: Page, frozen_url: str, path: str) -> None:
    page.goto(frozen_url + path)
    at_rest(page)
    page.emulate_media(media="print")

    expect(page.locator("h1").first).to_be_visible()
    expect(page.locator("footer.context")).to_be_visible()
    for hidden in ("[data-testid=stHeader]", ".asof", "[data-testid=stPopoverButton]", "[data-testid=stSelectbox]"):
        expect(page.locator(hidden).filter(visible=True)).to_have_count(0)
    assert page.evaluate(CUT) == []


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


def test_what_is_folded_is_open_on_paper(page: Page, frozen_url: str) -> None:
    page.goto(frozen_url + at("review"))
    at_rest(page)
    advice = page.locator(".entries details b", has_text="What to do").first
    expect(advice).to_be_hidden()
    page.emulate_media(media="print")

    expect(advice).to_be_visible()
