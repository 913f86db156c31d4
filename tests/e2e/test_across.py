"""Three clusters in Chromium: from Overview one click leads to the settings of the cluster that differs."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.browser import settle, url_has, visit
from tests.e2e.frozen_fleets import CLUSTERS, STORY
from tests.serving import START_SECONDS

pytestmark = pytest.mark.browser

LINE = "ap: vLLM version 0.32.0 (eu and us: 0.32.1), block_size 32 (16)"


@pytest.fixture
def url(frozen_url: str) -> Iterator[str]:
    httpx2.get(f"{frozen_url}/frozen/{CLUSTERS}", timeout=START_SECONDS, trust_env=False).raise_for_status()
    yield frozen_url
    httpx2.get(f"{frozen_url}/frozen/{STORY}", timeout=START_SECONDS, trust_env=False).raise_for_status()


def test_one_click_from_overview_shows_the_cluster_on_an_older_version_and_another_block_size(
    page: Page, url: str
) -> None:
    visit(page, url)
    section = page.locator(".st-key-clusters")
    expect(section).to_contain_text(LINE)
    section.get_by_role("link", name="chat-70b").click()
    settle(page)

    url_has(page, "/compare?pool=chat-70b&across=cluster")
    expect(page.locator("h1")).to_have_text("chat-70b across clusters")
    expect(page.get_by_text(LINE).first).to_be_visible()
    grid = page.get_by_role("grid", name="Settings of chat-70b across clusters").first
    heads = [each.partition("\n")[0] for each in grid.locator("thead th").all_inner_texts()]
    assert heads == ["Setting", "ap A ×4", "eu A ×3", "eu B ×1", "us A ×4"]
    rows = {each.locator("th").inner_text(): each for each in grid.locator("tbody tr[data-path]").all()}
    assert rows["version"].locator("td.differs").all_inner_texts()[0].startswith("0.32.0")
    assert rows["cache_config.block_size"].locator("td.differs").all_inner_texts()[0].startswith("32")


@pytest.mark.long
def test_the_name_of_several_pools_is_no_scope_of_other_pages(page: Page, url: str) -> None:
    visit(page, f"{url}/compare?pool=chat-70b&across=cluster")
    expect(page.get_by_text("not found")).to_have_count(0)
    page.get_by_test_id("stTopNavLink").get_by_text("Capacity").click()
    settle(page)

    url_has(page, "/capacity")
    assert "pool=" not in page.url
    page.go_back()
    settle(page)
    expect(page.locator("h1")).to_have_text("chat-70b across clusters")


@pytest.mark.long
def test_a_column_leads_to_its_cohort_and_compare_of_one_cluster_back_to_all(page: Page, url: str) -> None:
    visit(page, f"{url}/compare?pool=chat-70b&across=cluster")
    page.get_by_role("grid").first.locator("[data-column='eu/chat-70b B']").click()
    url_has(page, "/compare?pool=eu%2Fchat-70b&cohort=B")
    expect(page.get_by_role("dialog")).to_contain_text("eu-1")
    visit(page, f"{url}/compare?pool=eu/chat-70b")
    page.get_by_role("link", name="Across clusters").click()
    url_has(page, "/compare?pool=chat-70b&across=cluster")
