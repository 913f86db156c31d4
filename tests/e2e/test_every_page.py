"""Every page in Chromium: layout, landmarks, keyboard, contrast, axe-core, print. All tests of a page share one load.

Violations inside Streamlit's own widgets: axe_exceptions.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from dashboard.analysis.assembly import Fleet
from dashboard.render.html import to_html
from dashboard.views import pages
from dashboard.views.review import review_report
from tests.browser import HEIGHT, MAX_SHIFT, Theme, settle, switch_theme, tab, visit
from tests.e2e.states import OTHER_HASH, PAGES, STATES, WITH_DIALOGS_OR_NOTES, at, with_ids

pytestmark = [pytest.mark.browser, pytest.mark.few(1)]

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

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
EXCEPTIONS: list[dict[str, str]] = yaml.safe_load(Path(__file__).with_name("axe_exceptions.yaml").read_text("utf-8"))
OURS = ".stHtml, .surface, [data-testid^=stBidiComponent]"  # HTML of our blocks and of our components
NARROW = 1024  # pixels: tables scroll in their frames
WITH_MORE = (
    at("replica", replica=OTHER_HASH, tab="Probes"),
    at("findings", finding="0000000000"),
    at("findings", rules="Skipped"),
    at("capacity", per="pool"),
    at("changes"),
)
# The serious and critical violations without the exceptions; never an exception for an element of ours.
VIOLATIONS = """async ([exceptions, ours]) => {
  const step = (root, each) => (root.shadowRoot ?? root).querySelector(each);
  const isExcepted = (rule, target) => exceptions.some((each) => {
    const element = [target].flat().reduce(step, document);
    return each.rule === rule && element.closest(each.selector) && !element.closest(ours);
  });
  const { violations, passes } = await axe.run(document);
  return { passed: passes.length, found: violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .flatMap(({ id, nodes }) => nodes.map((node) => ({ id, ...node })))
    .filter(({ id, target }) => !isExcepted(id, target[0]))
    .map(({ id, html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`) };
}"""
LEAST_PASSED = 20  # rules that any drawn page passes


@pytest.fixture(scope="module", params=PAGES)
def shown(browser: Browser, frozen_url: str, ids: Mapping[str, str], request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page, loaded once and without an error in the console. Tests leave its window and media as they found them."""
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(f"{message.text} {message.location.get('url')}")

    with tab(browser) as page:
        page.on("console", note)
        visit(page, frozen_url + with_ids(request.param, ids))
        page.remove_listener("console", note)
        assert errors == []
        yield page


def test_a_deep_link_is_marked_as_ready_and_its_content_does_not_move(shown: Page) -> None:
    shown.wait_for_selector("body[data-ready=true]", state="attached")
    assert shown.evaluate("window.shifted ?? 0") < MAX_SHIFT


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


def test_light_and_dark_have_enough_contrast_and_no_serious_violation(shown: Page) -> None:
    """Dark is tested on a narrow page, where tables scroll sideways."""
    background = "() => getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
    light = shown.evaluate(background)
    assert too_pale(shown) == []
    assert violations(shown) == []
    shown.set_viewport_size({"width": NARROW, "height": HEIGHT})
    switch_theme(shown, "dark")
    try:
        assert shown.evaluate(background) != light
        assert too_pale(shown) == []
        assert violations(shown) == []
    finally:
        shown.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
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


@pytest.mark.parametrize("path", [*WITH_DIALOGS_OR_NOTES, *WITH_MORE])
def test_dialogs_notes_and_other_choices_have_enough_contrast_and_no_serious_violation(
    browser: Browser, frozen_url: str, ids: Mapping[str, str], path: str
) -> None:
    with tab(browser) as page:
        visit(page, frozen_url + with_ids(path, ids))
        for theme in get_args(Theme):
            if theme == "dark":
                page.set_viewport_size({"width": NARROW, "height": HEIGHT})
                switch_theme(page, theme)
            assert too_pale(page) == []
            assert violations(page) == []


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
    entries = {group[0]: entry for entry, group in pages.NAVIGATION.items()}
    for name, entry in [*entries.items()][1:] + [*entries.items()][:1]:
        page.get_by_role("link", name=entry, exact=True).first.click()
        expect(page).to_have_title(re.compile(f"^{pages.TITLES[name]}"))
        settle(page)
        assert page.url.removeprefix(frozen_url).partition("?")[0] == f"/{name}"
        expect(page.locator(".asof")).to_contain_text(f"{answered} of {len(demo_fleet.replicas)} answered")
        expect(page.locator(".asof")).to_contain_text("11:42:05 UTC")

    allowed = (frozen_url, frozen_url.replace("http", "ws"), "data:", "blob:")
    assert [url for url in requested if not url.startswith(allowed)] == []


def too_pale(page: Page) -> list[str]:
    """Return the texts with too little contrast. Fails on a page without text."""
    measured = page.evaluate(TOO_PALE)
    assert measured["read"] > MIN_TEXT
    return list(measured["found"])


def violations(page: Page, exceptions: list[dict[str, str]] = EXCEPTIONS) -> list[str]:
    """Return the serious and critical violations of a page. Fails on a page that is not drawn."""
    page.evaluate(AXE)
    found: dict[str, Any] = page.evaluate(VIOLATIONS, [exceptions, OURS])
    assert found["passed"] >= LEAST_PASSED
    return list(found["found"])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_opened_popover_of_share_has_no_serious_violation(browser: Browser, frozen_url: str, theme: Theme) -> None:
    share = next(state for state in STATES if state.name == "overview-share")
    with tab(browser, theme=theme) as page:
        visit(page, frozen_url)
        assert share.do is not None
        share.do(page)
        settle(page)

        assert violations(page) == []


def test_no_exception_names_our_own_html_or_components() -> None:
    """A selector begins with the test id of a widget of Streamlit."""
    for each in EXCEPTIONS:
        assert each.keys() == {"rule", "selector", "reason"}
        widget = re.match(r"\[data-testid=(st[A-Z]\w+)\]", each["selector"])
        assert widget, f"{each['selector']} names no widget of Streamlit"
        assert not widget[1].startswith(("stHtml", "stBidiComponent")), f"{each['selector']} is ours"
        assert len(each["reason"]) > len(each["rule"])


def test_an_exception_is_for_streamlit_only(page: Page) -> None:
    """The same violation in our HTML is found, inside the same widget, too."""
    page.set_content(
        '<html lang="en"><head><title>t</title></head><body><main><h1>h</h1><div data-testid="stSelectbox"><input>'
        '<div class="stHtml"><input class="our"></div></div></main></body></html>'
    )
    everywhere = [{"rule": "label", "selector": "[data-testid=stSelectbox]", "reason": "-"}]
    page.evaluate(AXE)

    found = page.evaluate(VIOLATIONS, [everywhere, OURS])["found"]

    assert [each.partition(" Fix")[0] for each in found] == ['label: <input class="our">']
