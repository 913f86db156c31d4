"""Overview and the header in Chromium, also on a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.analysis.assembly import Fleet
from tests.browser import settle, tab, url_has, visit

pytestmark = pytest.mark.browser


def test_the_overview_names_every_pool_and_every_replica_that_is_not_up(
    page: Page, frozen_url: str, demo_fleet: Fleet
) -> None:
    visit(page, frozen_url)

    for pool in demo_fleet.pools:
        assert page.get_by_role("link", name=pool.name, exact=True).count() >= 1
    for replica in demo_fleet.replicas:
        if replica.state != "up":
            assert page.get_by_role("link", name=replica.name, exact=True).count() >= 1


def test_a_pool_of_the_overview_opens_on_compare(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url)
    page.get_by_role("link", name="qwen3-8b", exact=True).first.click()

    url_has(page, "compare?pool=qwen3-8b")
    expect(page.get_by_role("heading", name="qwen3-8b")).to_be_visible()


def test_the_header_has_room_for_a_long_name_on_a_narrow_page(browser: Browser, frozen_url: str) -> None:
    """The counts never cover the names of pages."""
    with tab(browser, width=1024) as page:
        visit(page, frozen_url)
        page.add_style_tag(content=':root { --fleet: "production-europe-west-4-inference" !important; }')
        last = page.get_by_role("link", name="Replicas", exact=True).first.bounding_box()
        counts = page.locator(".asof").bounding_box()

        assert last is not None
        assert counts is not None
        assert last["x"] + last["width"] < counts["x"]


def test_on_a_phone_overview_is_one_column(browser: Browser, frozen_url: str) -> None:
    """The header covers nothing, cards are in pairs, and a pool shows all of its columns."""
    with tab(browser, width=390, height=844) as page:
        visit(page, frozen_url)
        overflow = "e => e.scrollWidth - e.clientWidth"
        top = "e => e.getBoundingClientRect().top"
        cards = [card.evaluate(top) for card in page.locator(".card").all()[:3]]
        bottom = page.locator(".asof").evaluate("e => e.getBoundingClientRect().bottom")
        cells = page.locator(".st-key-pools tbody tr").first.locator("th, td")
        right = [cell.evaluate("e => e.getBoundingClientRect().right") for cell in cells.all()]

        assert page.locator("[data-testid=stMain]").evaluate(overflow) <= 0
        assert page.locator(".st-key-pools .scroll").first.evaluate(overflow) <= 0
        assert bottom < page.locator("h1").evaluate(top)
        assert cards[0] == cards[1] < cards[2]
        assert len(right) == 7
        assert max(right) <= 390


def test_on_a_phone_the_header_counts_findings_and_has_no_pause_button(browser: Browser, frozen_url: str) -> None:
    with tab(browser, width=390, height=844) as page:
        visit(page, frozen_url)
        share = page.get_by_role("button", name="Share").bounding_box()

        expect(page.locator(".asof .found")).to_be_visible()
        expect(page.locator(".st-key-paused")).not_to_be_visible()
        assert share is not None
        assert share["x"] + share["width"] <= 390


def test_an_unknown_page_is_not_found_and_stays_so(page: Page, frozen_url: str) -> None:
    """Streamlit shows the first page under any name."""
    visit(page, f"{frozen_url}/nope")
    expect(page).to_have_title(re.compile("^Page not found"))
    page.get_by_text("Pause").click()
    settle(page)
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()

    page.locator(".empty").get_by_role("link", name="Overview").click()
    expect(page).to_have_title(re.compile("^Overview"))
