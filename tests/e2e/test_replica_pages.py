"""Replicas and the page of a replica in Chromium."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser import settle, visit

pytestmark = pytest.mark.browser


def test_back_from_a_replica_restores_the_search(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/replicas?search=gemma&state=up")
    table = page.locator("[data-testid=stDataFrame] canvas").first.bounding_box()
    assert table is not None
    page.mouse.click(table["x"] + 200, table["y"] + 55)  # the first row
    expect(page.get_by_role("heading", name=re.compile("gemma-27b-"))).to_be_visible()
    settle(page)
    assert "gemma" not in page.url.partition("?")[2]
    expect(page.get_by_placeholder("setting or value")).to_have_value("")

    page.go_back()
    expect(page).to_have_url(f"{frozen_url}/replicas?search=gemma&state=up")
    expect(page.get_by_text("7 of 42 replicas shown")).to_be_visible()


def test_the_detail_page_shows_settings_probes_and_the_raw_answer(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url)
    page.get_by_role("link", name="chat-70b-11", exact=True).first.click()
    expect(page.get_by_role("heading", name="chat-70b-11")).to_be_visible()
    page.get_by_role("tab", name="Probes").click()
    settle(page)
    expect(page.get_by_role("gridcell", name="/metrics", include_hidden=True)).to_have_count(1)

    page.get_by_role("combobox", name="Raw answer").click()
    page.get_by_role("option", name="/metrics").click()

    expect(page.locator("[data-testid=stCode]").first).to_contain_text("vllm:cache_config_info")
