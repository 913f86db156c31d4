"""Compare in Chromium: where its table begins, what scrolls, its tints, and its URL in the browser's history."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.analysis.assembly import Fleet
from tests.browser import Theme, settle, tab, url_has, visit
from tests.e2e.frozen_store import LATEST
from tests.e2e.states import OTHER_HASH, STOCK

pytestmark = pytest.mark.browser

HASH = "cache_config.prefix_caching_hash_algo"
MOST_ABOVE = 600  # px: the verdict and the plan of the pool are above
TRAPS = """() => [...document.querySelectorAll('[data-testid=stMain] *')].filter((part) =>
  part.scrollHeight > part.clientHeight + 1 && ['auto', 'scroll'].includes(getComputedStyle(part).overflowY)
).map((part) => part.className)"""


@pytest.mark.few(1)
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


@pytest.mark.long
def test_the_head_of_a_table_that_fits_stays_below_the_bar(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    bar = page.locator("[data-testid=stHeader]").evaluate("e => e.getBoundingClientRect().bottom")
    page.mouse.move(800, 600)  # above the table
    page.mouse.wheel(0, 750)
    head = page.get_by_role("grid", name="Settings of").locator("thead th").first

    page.wait_for_function("() => document.querySelector('[data-testid=stMain]').scrollTop > 700")
    assert head.evaluate("e => e.getBoundingClientRect().top") == pytest.approx(bar, abs=2)


@pytest.mark.long
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


@pytest.mark.long
def test_the_search_is_there_again_after_another_page(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b&search=block")
    for name, path in (("Findings", "/findings"), ("Compare", "/compare.*search=block")):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page).to_have_url(re.compile(path))


@pytest.mark.long
def test_only_the_table_scrolls_sideways_on_a_phone(browser: Browser, frozen_url: str) -> None:
    with tab(browser, width=390) as page:
        for path in ("compare?pool=chat-70b", "capacity"):
            visit(page, f"{frozen_url}/{path}")

            assert page.locator("[data-testid=stMain]").evaluate("e => e.scrollWidth - e.clientWidth") == 0


@pytest.mark.long
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


def test_compare_shows_every_difference_opens_a_setting_and_filters(
    page: Page, frozen_url: str, demo_fleet: Fleet
) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    pool = next(pool for pool in demo_fleet.pools if pool.name == "chat-70b")
    rows = page.locator("tr[data-path]")
    shown = rows.evaluate_all("rows => rows.map(row => row.dataset.path)")
    expect(page.get_by_text("does not share prefixes with")).to_have_count(2)  # B and C
    assert {difference.path for difference in pool.differences} <= set(shown)

    cells, dialog = page.locator(f'tr[data-path="{HASH}"] td[tabindex]'), page.get_by_role("dialog")
    cells.last.click()
    expect(dialog).to_contain_text("xxhash")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    settle(page)
    cells.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("chat-70b-11")
    url_has(page, "path=cache_config.prefix_caching_hash_algo")

    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    settle(page)  # else the click meets the dialog's own rerun
    page.get_by_text("All settings", exact=True).click()
    settle(page)
    assert rows.count() > 10 * len(shown)
    page.get_by_label("Search").fill("logprobs")
    page.get_by_label("Search").press("Enter")
    url_has(page, "search=logprobs")
    expect(page.locator('tr[data-path="model_config.max_logprobs"]')).to_be_visible()
    expect(page.locator('tr[data-path="scheduler_config.max_num_seqs"]')).to_have_count(0)


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_cell_has_the_tint_of_its_finding_and_is_grey_without_one(
    browser: Browser, frozen_url: str, theme: Theme
) -> None:
    with tab(browser, theme=theme) as page:
        visit(page, f"{frozen_url}/compare?pool=chat-70b")

        def tint(path: str) -> str:
            cell = page.locator(f'tr[data-path="{path}"] td.differs').first
            return str(cell.evaluate("cell => getComputedStyle(cell).backgroundColor"))

        def shade(name: str) -> str:
            """Return the colour of a variable of the style sheet in this theme."""
            make = """(page, name) => {
              const probe = page.appendChild(document.createElement("i"));
              probe.style.background = `var(${name})`;
              const found = getComputedStyle(probe).backgroundColor;
              probe.remove();
              return found;
            }"""
            return str(page.locator("[data-testid=stMain]").evaluate(make, name))

        assert tint("cache_config.block_size") == shade("--critical-tint")
        assert tint("scheduler_config.max_num_seqs") == shade("--warning-tint")
        assert tint("model_config.max_logprobs") == shade("--info-tint")
        assert tint("cache_config.effective_attention_block_size") == shade("--chip")
        mark = page.locator('tr[data-path="model_config.max_logprobs"] .glyph')
        assert mark.evaluate("mark => getComputedStyle(mark).backgroundColor") == shade("--info")
