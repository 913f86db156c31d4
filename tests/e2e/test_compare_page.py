"""Compare in Chromium: the matrix shows the differences of a pool, and every cell opens."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.analysis.assembly import Fleet
from tests.browser import Theme, settle, tab, url_has, visit

pytestmark = pytest.mark.browser

HASH = "cache_config.prefix_caching_hash_algo"


def test_the_prefix_band_names_the_cohort_that_cannot_share_and_the_setting(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")

    expect(page.get_by_text("does not share prefixes with")).to_have_count(2)  # B and C
    expect(page.locator(f'tr[data-path="{HASH}"] td', has_text="xxhash").first).to_be_visible()


def test_the_matrix_shows_every_difference_of_the_pool(page: Page, frozen_url: str, demo_fleet: Fleet) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    pool = next(pool for pool in demo_fleet.pools if pool.name == "chat-70b")

    shown = page.locator("tr[data-path]").evaluate_all("rows => rows.map(row => row.dataset.path)")

    assert {difference.path for difference in pool.differences} <= set(shown)


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


def fades(page: Page) -> list[bool]:
    """Return for each setting table whether its right edge fades."""
    seen = "tables => tables.map(each => getComputedStyle(each, '::after').content !== 'none')"
    return list(page.locator(".matrix").evaluate_all(seen))


@pytest.mark.parametrize("still", ["", "&screenshot=1"])
def test_the_right_edge_fades_while_columns_are_out_of_view(browser: Browser, frozen_url: str, still: str) -> None:
    with tab(browser, width=1280) as page:
        visit(page, f"{frozen_url}/compare?pool=gemma-27b&columns=Replicas{still}")
        assert fades(page) == [True, True]

        page.locator(".matrix").last.evaluate("each => each.scrollTo(each.scrollWidth, 0)")
        settle(page)
        assert fades(page) == [True, False]

        visit(page, f"{frozen_url}/compare?pool=chat-70b{still}")
        assert fades(page) == [False, False], "all columns are visible"


def test_a_click_on_a_cell_shows_which_replicas_have_which_value(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    page.locator(f'tr[data-path="{HASH}"] td[tabindex]').last.click()

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("xxhash")
    expect(dialog).to_contain_text("chat-70b-11")
    url_has(page, "path=cache_config.prefix_caching_hash_algo")


def test_a_cell_opens_by_keyboard_alone(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    page.locator(f'tr[data-path="{HASH}"] td[tabindex]').first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")

    expect(page.get_by_role("dialog")).to_contain_text("xxhash")


def test_search_filters_the_matrix_and_is_in_the_url(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    page.get_by_label("Search").fill("logprobs")
    page.get_by_label("Search").press("Enter")

    url_has(page, "search=logprobs")
    expect(page.locator('tr[data-path="model_config.max_logprobs"]')).to_be_visible()
    expect(page.locator('tr[data-path="scheduler_config.max_num_seqs"]')).to_have_count(0)


def test_a_permalink_restores_search_and_dialog(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b&search=logprobs&path=model_config.max_logprobs")

    expect(page.get_by_role("dialog")).to_contain_text("max_logprobs")
    expect(page.get_by_label("Search")).to_have_value("logprobs")


def test_all_settings_includes_equal_settings(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    before = page.locator("tr[data-path]").count()
    page.get_by_text("All settings", exact=True).click()
    settle(page)

    assert page.locator("tr[data-path]").count() > 10 * before
