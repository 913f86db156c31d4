"""The timeline in Chromium: its tooltip, a click that opens a time, a drag that selects a range."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest
from playwright.sync_api import Locator, Page, Position, expect

from tests.browser import at_rest, url_has, visit
from tests.serving import ROOT, free_port, started, wait_until_healthy

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "tests/e2e/history_app.py", "--server.headless=true"]
    with (
        TemporaryDirectory() as folder,
        started([*command, f"--server.port={port}"], environment={"PYTHONPATH": str(ROOT), "FROZEN_APPS": folder}),
    ):
        wait_until_healthy(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def chart(page: Page, url: str) -> Locator:
    """The timeline of a week."""
    visit(page, f"{url}/timeline?range=7d")
    return page.locator(".timeline .drawing > svg")


def place(chart: Locator, share: float) -> Position:
    """A place in the first lane, at a share of the width of the times."""
    box = chart.bounding_box()
    assert box is not None
    return {"x": box["width"] * share, "y": 30.0}


def test_a_tooltip_names_time_cohorts_and_replicas(page: Page, chart: Locator) -> None:
    chart.hover(position=place(chart, 0.9))
    tip = page.locator(".timeline .tip")

    expect(tip).to_contain_text("A (0.32.0): 14 replicas")
    expect(tip).to_contain_text("chat-70b")
    expect(tip).to_contain_text("Click: open 19 Nov")
    chart.hover(position={"x": 5, "y": 5})
    expect(tip).to_be_hidden()


@pytest.mark.parametrize("width", [390, 1024, 1600, 2200])
def test_the_drawing_is_as_wide_as_the_page_and_its_texts_have_one_size(page: Page, url: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    visit(page, f"{url}/timeline?range=7d")
    whole, times, words = (
        page.locator(each).first.bounding_box()
        for each in (".timeline", ".timeline .drawing > svg", ".timeline text.ink")
    )

    assert whole is not None
    assert times is not None
    assert words is not None
    assert times["width"] == pytest.approx(whole["width"], abs=1)
    assert whole["width"] > width - 100
    assert words["height"] == pytest.approx(25, abs=2)  # with its outline
    last = page.locator(".timeline .moment").last.bounding_box()
    assert last is not None
    assert last["x"] + last["width"] == pytest.approx(times["x"] + times["width"], abs=1)
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def test_a_click_opens_the_page_at_that_time_and_back_returns(page: Page, chart: Locator) -> None:
    chart.click(position=place(chart, 0.17))
    url_has(page, "at=2026-11-14T")
    at_rest(page)

    expect(page.locator(".timeline .shown")).to_have_count(1)
    expect(page.get_by_text("As of 2026-11-14")).to_be_visible()
    page.get_by_role("link", name="Back to live").first.click()
    expect(page.locator(".timeline .shown")).to_have_count(0)
    at_rest(page)
    assert "at=" not in page.url


def test_an_open_timeline_is_printed(page: Page, chart: Locator) -> None:
    page.set_viewport_size({"width": 720, "height": 900})
    page.emulate_media(media="print")
    box = chart.bounding_box()

    assert box is not None
    assert box["x"] + box["width"] <= 720
    expect(chart).to_be_visible()


def test_a_click_on_a_mark_opens_the_page_after_it(page: Page, chart: Locator) -> None:
    chart.locator(".mark .hit").first.click()

    url_has(page, "at=2026-11-15T13%3A57%3A05Z")


def test_a_drag_selects_the_range_of_changes(page: Page, chart: Locator) -> None:
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.17, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.28, box["y"] + 60, steps=3)
    page.mouse.up()
    changes = page.locator(".timeline .changes")

    expect(changes).to_contain_text("Changes 14 Nov")
    expect(chart.locator(".brush")).to_have_count(1)
    assert "at=" not in page.url
    chart.click(position=place(chart, 0.6))
    expect(changes).to_have_text("Changes in this range")
    changes.click()
    url_has(page, "from=2026-11-13T")
