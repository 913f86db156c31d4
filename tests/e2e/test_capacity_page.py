"""Capacity in Chromium: outliers are named, and a bar opens its replica."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from dashboard.analysis.assembly import Fleet
from tests.browser import url_has, visit

pytestmark = pytest.mark.browser


def test_capacity_names_the_rank_with_less_kv_cache(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/capacity?pool=deepseek-v3%2Fdecode")

    expect(page.get_by_role("link", name="deepseek-v3-decode-5", exact=True).first).to_be_visible()
    expect(page.get_by_text("−18 %").first).to_be_visible()


def test_capacity_shows_the_tokens_and_the_naive_estimate(page: Page, frozen_url: str, demo_fleet: Fleet) -> None:
    visit(page, f"{frozen_url}/capacity")
    engines = [engine for each in demo_fleet.replicas if each.pool == "gemma-27b" for engine in each.engines]

    expect(page.get_by_text(f"{sum(each.kv_cache_size_tokens or 0 for each in engines):,}").first).to_be_visible()
    expect(page.get_by_text(f"{sum(each.naive_tokens or 0 for each in engines):,}").first).to_be_visible()


def test_a_bar_opens_its_replica(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/capacity?pool=deepseek-v3%2Fdecode")
    bar = page.locator(".js-plotly-plot .bars .point path").first.bounding_box()
    assert bar is not None
    page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    page.mouse.click(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)

    url_has(page, "/replica?replica=")
    expect(page.get_by_role("heading", name=re.compile("deepseek-v3-decode-"))).to_be_visible()


def test_the_bar_of_an_outlier_opens_its_replica_and_back_restores_the_page(page: Page, frozen_url: str) -> None:
    """The text above the bar is its deviation: the sixth bar of the pool."""
    visit(page, f"{frozen_url}/capacity?pool=deepseek-v3%2Fdecode&length=32k")
    bar = page.locator(".js-plotly-plot .bars .point", has_text="−18 %").locator("path").bounding_box()
    assert bar is not None
    page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    page.mouse.click(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    expect(page.get_by_role("heading", name=re.compile("deepseek-v3-decode-5"))).to_be_visible()

    page.go_back()
    expect(page).to_have_url(f"{frozen_url}/capacity?pool=deepseek-v3%2Fdecode&length=32k")
    expect(page.get_by_text("Requests at 32 k")).to_be_visible()
