"""Findings in Chromium: a finding opens and closes by mouse and by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import settle, visit

pytestmark = pytest.mark.browser


def test_opening_a_finding_by_keyboard_keeps_the_focus_in_the_list(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/findings")
    entry = page.get_by_role("link", name="prefix_caching_hash_algo is xxhash")
    entry.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Why it matters here")).to_be_visible()

    expect(page.locator(".findings [aria-current] a")).to_be_focused()


def test_closing_a_finding_by_keyboard_returns_the_focus_to_its_entry(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/findings")
    entry = page.get_by_role("link", name="max_logprobs is")
    entry.focus()
    page.keyboard.press("Enter")
    close = page.get_by_role("link", name="Close")
    close.focus()
    page.keyboard.press("Enter")
    expect(close).to_have_count(0)

    expect(entry).to_be_focused()
    expect(entry).to_be_in_viewport()


def test_a_finding_links_to_its_setting_and_back_returns_to_it(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/findings?severity=critical")
    page.get_by_role("link", name="prefix_caching_hash_algo is xxhash").click()
    expect(page.get_by_role("heading", name="Why it matters here")).to_be_visible()
    settle(page)
    assert "severity=critical" in page.url
    assert "finding=" in page.url
    opened = page.url

    page.get_by_role("link", name="cache_config.prefix_caching_hash_algo").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("RT-05 hash-algorithm-differs")

    page.go_back()
    expect(page).to_have_url(opened)
    expect(page.get_by_role("heading", name="Why it matters here")).to_be_visible()


def test_the_counts_in_the_header_link_to_the_findings(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/capacity")
    page.get_by_role("link", name="critical findings").first.click()
    expect(page).to_have_url(f"{frozen_url}/findings?severity=critical")
    expect(page.get_by_text("block_size is 32")).to_be_visible()
