"""Tasks of a first week: each takes at most two actions from any page, with another pool selected.

An action is a click, or typing into one field with Enter. Keys that open the search are none.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import pytest
from playwright.sync_api import Page, expect

from tests.browser import settle, url_has, visit
from tests.e2e.states import at

pytestmark = pytest.mark.browser

MOST = 2
OTHER_POOL = "gemma-27b"
ANY_PAGE = (at("capacity", pool=OTHER_POOL), at("review"), at("settings", path="model_config.dtype", pool=OTHER_POOL))


class Operator:
    """Somebody who clicks and types; counts the actions."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions = 0

    def search(self, words: str) -> None:
        self.page.keyboard.press("Control+k")
        expect(self.page.locator("dialog.find input")).to_be_focused()
        self.page.keyboard.type(words)
        self.page.keyboard.press("Enter")
        expect(self.page.locator("dialog.find")).to_be_hidden()
        settle(self.page)
        self.actions += 1

    def click(self, name: str) -> None:
        self.page.locator("[data-testid=stMain]").get_by_text(name, exact=True).first.click()
        settle(self.page)
        self.actions += 1

    def click_link(self, words: str) -> None:
        self.page.locator("[data-testid=stMain] a", has_text=words).first.click()
        settle(self.page)
        self.actions += 1


def find_one_setting(operator: Operator) -> None:
    operator.search("gpu_memory_utilization")
    table = operator.page.get_by_role("table", name="Values of cache_config.gpu_memory_utilization")
    assert len(set(table.locator("tbody tr > :first-child").all_inner_texts())) > 1  # pools


def compare_two_replicas(operator: Operator) -> None:
    operator.search("chat-70b-11, qwen3-8b-01")
    url_has(operator.page, "/compare?replicas=")
    heads = operator.page.get_by_role("grid", name="Settings of").locator("thead").inner_text()
    assert "chat-70b-11" in heads
    assert "qwen3-8b-01" in heads


def list_the_replicas_of_a_version(operator: Operator) -> None:
    operator.search("0.32.1")
    url_has(operator.page, "/replicas?search=version%3A0.32.1")
    expect(operator.page.get_by_text("replicas shown")).to_be_visible()


def accept_a_finding(operator: Operator) -> None:
    operator.search("RT-01 chat-70b")
    operator.click("Accept this finding")
    expect(operator.page.get_by_text("rule: RT-01")).to_be_visible()


def explain_the_short_rank(operator: Operator) -> None:
    operator.search("CP-01 median")
    expect(operator.page.get_by_text("Most of the gap is other memory").first).to_be_visible()


TASKS = (
    find_one_setting,
    compare_two_replicas,
    list_the_replicas_of_a_version,
    accept_a_finding,
    explain_the_short_rank,
)


@pytest.mark.parametrize(("task", "start"), list(zip(TASKS, cycle(ANY_PAGE), strict=False)))
def test_a_task_takes_at_most_two_actions(
    page: Page, frozen_url: str, task: Callable[[Operator], None], start: str
) -> None:
    visit(page, f"{frozen_url}{start}")
    operator = Operator(page)
    task(operator)

    assert operator.actions <= MOST


def test_a_pool_that_was_chosen_anywhere_limits_every_page_until_the_chip_is_closed(
    page: Page, frozen_url: str
) -> None:
    """It also survives a reload and a page without pools."""
    visit(page, f"{frozen_url}{at('compare', pool=OTHER_POOL)}")
    for name in ("Overview", "Capacity", "Inventory", "History", "Findings"):
        page.locator("[data-testid=stTopNavLink]", has_text=name).click()
        url_has(page, f"pool={OTHER_POOL}")
        settle(page)
        expect(page.locator(".scope")).to_contain_text(OTHER_POOL)
        expect(page.locator(".outside")).to_contain_text("Other pools:")
    page.get_by_role("link", name="critical").first.click()
    url_has(page, f"pool={OTHER_POOL}")
    page.reload()
    settle(page)
    expect(page.locator(".scope")).to_contain_text(OTHER_POOL)

    page.locator(".scope a").click()
    expect(page.locator(".scope")).to_have_count(0)
    settle(page)
    assert "pool=" not in page.url
    page.locator("[data-testid=stTopNavLink]", has_text="Compare").click()
    settle(page)
    assert "pool=" not in page.url
