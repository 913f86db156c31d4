"""The ten daily tasks: at most two actions each, and three to accept a finding, from any page, whatever the scope.

An action is a click, a key that opens something, or typing into one field with the Enter that ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.browser import settle, url_has, visit
from tests.e2e.frozen_fleets import AGREED, STORY
from tests.e2e.states import at
from tests.serving import START_SECONDS

pytestmark = pytest.mark.browser

Role: TypeAlias = Literal["link", "button"]
MOST, MOST_TO_ACCEPT = 2, 3
OTHER_POOL = "gemma-27b"
ANY_PAGE = (at("capacity", pool=OTHER_POOL), at("review"), at("settings", path="model_config.dtype", pool=OTHER_POOL))


class Operator:
    """Somebody who clicks and types; counts the actions."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions = 0

    def search(self, words: str) -> None:
        """Open the search by its key, type, and open the first hit: two actions."""
        self.page.keyboard.press("Control+k")
        expect(self.page.locator("dialog.find input")).to_be_focused()
        self.page.keyboard.type(words)
        self.page.keyboard.press("Enter")
        expect(self.page.locator("dialog.find")).to_be_hidden()
        settle(self.page)
        self.actions += 2

    def click(self, role: Role, name: str) -> None:
        self.page.get_by_role(role, name=name).first.click()
        settle(self.page)
        self.actions += 1

    def sees(self, text: str) -> None:
        expect(self.page.locator("[data-testid=stMain], [role=dialog]").get_by_text(text).first).to_be_visible()


def see_whether_a_pool_shares_prefixes(operator: Operator) -> None:
    operator.search("qwen3-8b")
    expect(operator.page.locator("h1")).to_contain_text("qwen3-8b")
    operator.sees("probably shares no prefixes")


def find_one_setting(operator: Operator) -> None:
    """Its values in every pool: those outside of the scope are in one line above."""
    operator.search("gpu_memory_utilization")
    expect(operator.page.get_by_role("table", name="Values of cache_config.gpu_memory_utilization")).to_be_visible()
    for value in ("0.92", "0.88"):
        operator.sees(value)


def compare_two_replicas(operator: Operator) -> None:
    operator.search("chat-70b-11, qwen3-8b-01")
    url_has(operator.page, "/compare?replicas=")
    heads = operator.page.get_by_role("grid", name="Settings of").locator("thead").inner_text()
    assert "chat-70b-11" in heads
    assert "qwen3-8b-01" in heads


def list_the_replicas_of_a_version(operator: Operator) -> None:
    operator.search("0.32.1")
    url_has(operator.page, "/replicas?search=version%3A0.32.1")
    operator.sees("replicas shown")


def explain_the_short_rank(operator: Operator) -> None:
    operator.search("CP-01 median")
    operator.sees("Most of the gap is NCCL and other processes")


def see_what_changed(operator: Operator) -> None:
    operator.click("link", "History")
    operator.click("link", "Changes")
    operator.sees("change")


def copy_a_link(operator: Operator) -> None:
    operator.click("button", "Share")
    operator.click("button", "Copy link")
    operator.sees("Copied")


def export_the_page(operator: Operator) -> None:
    operator.click("button", "Share")
    with operator.page.expect_download() as download:
        operator.click("button", "Download HTML")
    assert "<h1>" in Path(download.value.path()).read_text(encoding="utf-8")


TASKS = (
    see_whether_a_pool_shares_prefixes,
    find_one_setting,
    compare_two_replicas,
    list_the_replicas_of_a_version,
    explain_the_short_rank,
    see_what_changed,
    copy_a_link,
    export_the_page,
)


@pytest.mark.few(4)
@pytest.mark.parametrize("start", ANY_PAGE)
@pytest.mark.parametrize("task", TASKS)
def test_a_task_takes_at_most_two_actions(
    page: Page, frozen_url: str, task: Callable[[Operator], None], start: str
) -> None:
    visit(page, f"{frozen_url}{start}")
    operator = Operator(page)
    task(operator)

    assert operator.actions <= MOST


@pytest.mark.few(1)
@pytest.mark.parametrize("start", ANY_PAGE)
def test_to_accept_a_finding_takes_three_actions(page: Page, frozen_url: str, start: str) -> None:
    visit(page, f"{frozen_url}{start}")
    operator = Operator(page)
    operator.search("RT-01 chat-70b")
    operator.page.get_by_text("Accept this finding", exact=True).click()
    operator.actions += 1
    operator.sees("rule: RT-01")

    assert operator.actions <= MOST_TO_ACCEPT


@pytest.fixture
def with_baseline(frozen_url: str) -> Iterator[str]:
    """The frozen dashboard, while a pool has a baseline."""
    switched = [httpx2.get(f"{frozen_url}/frozen/{AGREED}", timeout=START_SECONDS, trust_env=False)]
    yield frozen_url
    switched.append(httpx2.get(f"{frozen_url}/frozen/{STORY}", timeout=START_SECONDS, trust_env=False))
    assert [each.status_code for each in switched] == [200, 200]


def test_to_check_the_baseline_of_a_pool_takes_two_actions(page: Page, with_baseline: str) -> None:
    visit(page, f"{with_baseline}{at('capacity', pool='chat-70b')}")
    operator = Operator(page)
    operator.click("link", "Compare")
    operator.click("button", "Baseline")
    operator.sees("check --baseline")

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
    page.get_by_role("link", name="warning").first.click()
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
