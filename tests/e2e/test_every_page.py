"""Every page in Chromium: layout, landmarks, keyboard, contrast, print. All tests of a page share one load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.analysis.assembly import Fleet
from dashboard.render.html_page import to_html
from dashboard.views.review import review_report
from tests.browser import HEIGHT, Theme, settle, switch_theme, tab, visit
from tests.e2e.states import PAGES, WITH_DIALOGS_OR_NOTES, with_ids

pytestmark = pytest.mark.browser

TOO_PALE = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")
MIN_TEXT = 200  # characters of any page: fewer mean that it is not drawn
WIDTHS = (1600, 1024)
PAPER_WIDTH = 1030  # CSS pixels of A4 without margins
MAX_STOPS = 250  # of Tab on one page
SIDEWAYS = "() => (e => e.scrollWidth - e.clientWidth)(document.querySelector('[data-testid=stMain]'))"
# The focused element: its name, whether a focus ring is drawn, and whether it is in the viewport.
STOP = """() => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  if (!element || element === document.body) return null;
  const again = "reached" in element.dataset;
  element.dataset.reached = "yes";
  const canvas = element.closest("canvas"); // it draws the ring around its cell itself
  element = canvas ?? element;
  let ring = canvas !== null;
  for (let node = element, i = 0; node && i < 4; node = node.parentElement, i += 1) {
    for (const style of [getComputedStyle(node), getComputedStyle(node, "::after")]) {
      ring ||= style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    }
    ring ||= node === element.closest("[data-baseweb]") && getComputedStyle(node).boxShadow !== "none";
  }
  const box = element.getBoundingClientRect();
  const isIn = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  const name = element.getAttribute("aria-label") || element.textContent.trim() || element.placeholder || "";
  return { name: `${element.tagName} ${name.slice(0, 40)}`, ring, isIn, again };
}"""
# A group of radio buttons, a table and a list of tabs are one stop of Tab; arrow keys move within them.
UNREACHED = """() => [...document.querySelectorAll(
    '[data-testid=stMain] :is(a[href], button, input, textarea, select, summary, [tabindex="0"], [role=combobox])')]
  .filter((each) => each.tabIndex >= 0 && !each.disabled && each.checkVisibility({ visibilityProperty: true }))
  .filter((each) => each.type !== "file" && !each.dataset.reached && !each.querySelector("[data-reached]"))
  .filter((each) => !each.closest("[role=radiogroup]")?.querySelector("[data-reached]"))
  .map((each) => each.outerHTML.slice(0, 120))"""
# All four corners of an explanation are in the viewport and not covered.
IS_UNCOVERED = """(text) => {
  const box = text.getBoundingClientRect();
  const [left, right, top, bottom] = [box.left + 4, box.right - 4, box.top + 4, box.bottom - 4];
  const corners = [[left, top], [right, top], [left, bottom], [right, bottom]];
  text.style.pointerEvents = "auto";
  return corners.every(([x, y]) => text.contains(document.elementFromPoint(x, y)));
}"""
TABLES_WITHOUT_HEADS = """() => [...document.querySelectorAll('[data-testid=stMain] table')]
  .filter((each) => each.checkVisibility())
  .filter((each) => !each.caption?.textContent.trim() || !each.querySelector('th[scope=col]'))
  .map((each) => each.outerHTML.slice(0, 100))"""
GLYPHS_WITHOUT_WORDS = """() => [...document.querySelectorAll('[data-testid=stMain] .glyph')]
  .map((each) => [each, each.parentElement.textContent.replace(each.textContent, "").trim()])
  .filter(([each, words]) => each.getAttribute("aria-hidden") !== "true" || !words)
  .map(([each]) => each.parentElement.outerHTML.slice(0, 100))"""
# Boxes that show only a part of their text: paper does not scroll. Streamlit's dataframes are a canvas of fixed height.
CUT_OFF = """() => [...document.querySelectorAll('[data-testid=stMain] *')]
  .filter((each) => each.checkVisibility() && !each.closest('.said, svg, canvas, [data-testid=stDataFrame]'))
  .filter((each) => !['visible', 'clip'].includes(getComputedStyle(each).overflowY))
  .filter((each) => each.scrollHeight > each.clientHeight + 4 && each.clientHeight > 40)
  .map((each) => each.className)"""


@pytest.fixture(scope="module", params=PAGES)
def shown(browser: Browser, frozen_url: str, ids: Mapping[str, str], request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page that is loaded once. Tests leave its window and media as they found them."""
    with tab(browser) as page:
        visit(page, frozen_url + with_ids(request.param, ids))
        yield page


def test_tab_reaches_every_control_and_the_focus_is_visible(shown: Page) -> None:
    """An opened finding and the search have the focus at first, so Tab passes the end of the page."""
    hidden = []
    for _ in range(MAX_STOPS):
        shown.keyboard.press("Tab")
        stop = shown.evaluate(STOP)
        if stop and stop["again"] and not stop["name"].startswith("CANVAS"):  # Tab walks through the columns of a table
            break
        if stop and not (stop["ring"] and stop["isIn"]):
            hidden.append(stop["name"])
        if stop and stop["name"].startswith("CANVAS"):
            settle(shown)  # the value of the selected setting is drawn below the table

    assert hidden == []
    assert shown.evaluate(UNREACHED) == []


def test_each_term_is_explained_once_and_its_explanation_is_not_covered(shown: Page) -> None:
    terms = shown.locator("dfn.term").filter(visible=True).all()
    ids = [term.get_attribute("aria-describedby") for term in terms]

    assert len(set(ids)) == len(ids)
    for term in terms:
        term.focus()
        shown.wait_for_function(IS_UNCOVERED, arg=term.locator(".tooltip").element_handle())
    shown.evaluate("document.activeElement.blur()")


def test_a_page_has_one_heading_of_level_1_landmarks_and_named_tables(shown: Page) -> None:
    expect(shown.get_by_role("heading", level=1)).to_have_count(1)
    expect(shown.get_by_role("main")).to_have_count(1)
    expect(shown.get_by_role("navigation", name="App pages")).to_have_count(1)
    assert shown.evaluate(TABLES_WITHOUT_HEADS) == []
    assert shown.evaluate(GLYPHS_WITHOUT_WORDS) == []


def test_every_text_has_enough_contrast_in_both_themes(shown: Page) -> None:
    background = "() => getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
    light = shown.evaluate(background)
    assert too_pale(shown) == []
    switch_theme(shown, "dark")
    try:
        assert shown.evaluate(background) != light
        assert too_pale(shown) == []
    finally:
        switch_theme(shown, "light")


def test_no_page_scrolls_sideways_or_shows_an_exception(shown: Page) -> None:
    assert shown.locator("[data-testid=stException]").count() == 0
    for width in WIDTHS:
        shown.set_viewport_size({"width": width, "height": HEIGHT})
        settle(shown)
        assert shown.evaluate(SIDEWAYS) <= 0, f"at {width} pixels"
    shown.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})


def test_paper_shows_the_content_and_the_context_without_controls(shown: Page) -> None:
    shown.set_viewport_size({"width": PAPER_WIDTH, "height": HEIGHT})
    settle(shown)
    shown.emulate_media(media="print")

    expect(shown.locator("h1").first).to_be_visible()
    expect(shown.locator("footer.context")).to_be_visible()
    for control in ("[data-testid=stHeader]", ".asof", "[data-testid=stPopoverButton]", "[data-testid=stSelectbox]"):
        expect(shown.locator(control).filter(visible=True)).to_have_count(0)
    assert shown.evaluate(CUT_OFF) == []
    shown.emulate_media(media="null")
    shown.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", WITH_DIALOGS_OR_NOTES)
def test_every_text_of_dialogs_and_notes_has_enough_contrast(
    browser: Browser, frozen_url: str, ids: Mapping[str, str], path: str, theme: Theme
) -> None:
    with tab(browser, theme=theme) as page:
        visit(page, frozen_url + with_ids(path, ids))

        assert too_pale(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_of_an_exported_review_has_enough_contrast(
    browser: Browser, demo_fleet: Fleet, theme: Theme
) -> None:
    with tab(browser, theme=theme) as page:
        page.set_content(to_html(review_report(demo_fleet)))

        assert too_pale(page) == []


def test_the_contrast_measure_finds_pale_text(browser: Browser) -> None:
    """Large type may be paler, and invisible text does not count."""
    with tab(browser) as page:
        page.set_content(
            '<p style="color:#8a8a8a">small</p><p style="color:#8a8a8a;font-size:24px">large</p>'
            '<p style="color:#767676">dark enough</p><p style="color:#eee;visibility:hidden">hidden</p>'
            '<div style="background:#000"><p style="color:#fff;opacity:.4">faded</p></div>'
            '<input placeholder="fill me in"><style>::placeholder { color: #aaa }</style>'
        )
        found = page.evaluate(TOO_PALE)["found"]

    assert [each.partition(": ")[2] for each in found] == ["small", "faded", "fill me in"]


def test_the_navigation_opens_every_page_and_the_header_shows_answers_and_data_time(
    page: Page, frozen_url: str, demo_fleet: Fleet
) -> None:
    """The browser contacts only the dashboard meanwhile."""
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    answered = sum(replica.state != "down" for replica in demo_fleet.replicas)
    visit(page, frozen_url)
    for name in ("Findings", "Compare", "Capacity", "Replicas", "Review", "Snapshots", "Overview"):
        page.get_by_role("link", name=name, exact=True).first.click()
        expect(page).to_have_title(re.compile(f"^{name}"))
        settle(page)
        path = page.url.removeprefix(frozen_url).partition("?")[0]
        assert path == ("/" if name == "Overview" else f"/{name.lower()}")
        expect(page.locator(".asof")).to_contain_text(f"{answered} of {len(demo_fleet.replicas)} answered")
        expect(page.locator(".asof")).to_contain_text("11:42:05 UTC")

    allowed = (frozen_url, frozen_url.replace("http", "ws"), "data:", "blob:")
    assert [url for url in requested if not url.startswith(allowed)] == []


def too_pale(page: Page) -> list[str]:
    """Return the texts with too little contrast. Fails on a page without text."""
    measured = page.evaluate(TOO_PALE)
    assert measured["read"] > MIN_TEXT
    return list(measured["found"])
