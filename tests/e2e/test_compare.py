"""Compare in Chromium: where its table begins, what scrolls, and its URL in the browser's history."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import settle, tab, visit
from tests.e2e.frozen_store import LATEST
from tests.e2e.states import OTHER_HASH, STOCK

pytestmark = pytest.mark.browser

MOST_ABOVE = 600  # px: the verdict and the plan of the pool are above
TRAPS = """() => [...document.querySelectorAll('[data-testid=stMain] *')].filter((part) =>
  part.scrollHeight > part.clientHeight + 1 && ['auto', 'scroll'].includes(getComputedStyle(part).overflowY)
).map((part) => part.className)"""


@pytest.mark.parametrize(
    "query",
    [
        "pool=chat-70b",
        "pool=gemma-27b&columns=Replicas",
        "pool=chat-70b&show=All+settings",
        f"replicas={OTHER_HASH},{STOCK},{OTHER_HASH}@{LATEST},http://gone:1",
    ],
)
def test_the_differences_begin_below_verdict_and_plan_on_the_first_screen_and_only_the_page_scrolls(
    page: Page, frozen_url: str, query: str
) -> None:
    visit(page, f"{frozen_url}/compare?{query}")
    box = page.get_by_role("grid", name="Settings of").bounding_box()

    assert box is not None
    assert box["y"] < MOST_ABOVE
    assert page.evaluate(TRAPS) == []


def test_the_head_of_a_table_that_fits_stays_below_the_bar(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    bar = page.locator("[data-testid=stHeader]").evaluate("e => e.getBoundingClientRect().bottom")
    page.mouse.move(800, 600)  # above the table
    page.mouse.wheel(0, 750)
    head = page.get_by_role("grid", name="Settings of").locator("thead th").first

    page.wait_for_function("() => document.querySelector('[data-testid=stMain]').scrollTop > 700")
    assert head.evaluate("e => e.getBoundingClientRect().top") == pytest.approx(bar, abs=2)


def test_a_wide_table_scrolls_sideways_on_a_narrow_page(browser: Browser, frozen_url: str) -> None:
    with tab(browser, width=1024) as page:
        visit(page, f"{frozen_url}/compare?pool=gemma-27b&columns=Replicas")
        sideways = page.locator(".matrix").first.evaluate("e => e.scrollWidth - e.clientWidth")

        assert sideways > 0
        assert page.evaluate(TRAPS) == []


def test_the_first_pool_is_shown_without_a_scope_and_without_a_second_entry_in_the_history(
    page: Page, frozen_url: str
) -> None:
    visit(page, frozen_url)
    entries = page.evaluate("history.length")
    page.get_by_role("link", name="Compare", exact=True).first.click()
    expect(page).to_have_url(f"{frozen_url}/compare")
    settle(page)

    assert page.evaluate("history.length") == entries + 1
    expect(page.get_by_role("radio", name="Only differences")).to_be_checked()
    page.go_back()
    expect(page).to_have_url(f"{frozen_url}/")


def test_the_search_is_there_again_after_another_page(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b&search=block")
    for name, path in (("Findings", "/findings"), ("Compare", "/compare.*search=block")):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page).to_have_url(re.compile(path))


def test_only_the_table_scrolls_sideways_on_a_phone(browser: Browser, frozen_url: str) -> None:
    with tab(browser, width=390) as page:
        for path in ("compare?pool=chat-70b", "capacity"):
            visit(page, f"{frozen_url}/{path}")

            assert page.locator("[data-testid=stMain]").evaluate("e => e.scrollWidth - e.clientWidth") == 0


def test_an_uploaded_baseline_is_checked_and_a_wrong_one_has_its_mistakes(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    page.get_by_role("button", name="Baseline").click()
    dialog = page.get_by_role("dialog")
    files = {
        "agreed.yaml": (b"version: 1\npool: chat-70b\nexpected: {cache_config.block_size: 16}\n", "exit 1: "),
        "wrong.yaml": (b"version: 1\npool: chat-70b\n", "nothing is expected or tolerated"),
    }
    for name, (content, text) in files.items():
        page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "text/yaml", "buffer": content})
        expect(dialog).to_contain_text(text)
    assert "check=baseline" in page.url
    expect(dialog).to_contain_text("python -m dashboard check --baseline chat-70b.yaml")
