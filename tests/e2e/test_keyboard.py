"""In a real browser: every page is used by Tab, Enter and Escape alone, and it is always seen where the reader is."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import at_rest
from tests.e2e.states import CHAT, FINDING, HASHED_OTHERWISE, at

pytestmark = pytest.mark.browser

MOST_STOPS = 250  # of one page; the end of it is reached before
PAGES = (
    "/",
    at("findings"),
    at("findings", finding=FINDING),
    at("compare", pool=CHAT),
    at("capacity"),
    at("replicas"),
    at("replica", replica=HASHED_OTHERWISE),
    at("review"),
    at("snapshots"),
)
# Where the focus is: what it is called, whether a ring is drawn around it, and whether it lies in sight.
STOP = """() => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  if (!element || element === document.body) return null;
  const again = "reached" in element.dataset;
  element.dataset.reached = "yes";
  const canvas = element.closest("canvas"); // it draws a ring around its cell by itself
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
# Arrow keys lead on within a group of radio buttons, a table and a list of tabs: one of them is a stop of Tab.
UNREACHED = """() => [...document.querySelectorAll(
    '[data-testid=stMain] :is(a[href], button, input, textarea, select, summary, [tabindex="0"], [role=combobox])')]
  .filter((each) => each.tabIndex >= 0 && !each.disabled && each.checkVisibility({ visibilityProperty: true }))
  .filter((each) => each.type !== "file" && !each.dataset.reached && !each.querySelector("[data-reached]"))
  .filter((each) => !each.closest("[role=radiogroup]")?.querySelector("[data-reached]"))
  .map((each) => each.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("path", PAGES)
def test_tab_reaches_everything_and_what_has_focus_is_seen(page: Page, frozen_url: str, path: str) -> None:
    """An opened finding has the focus already, so the way leads round by the end of the page to its beginning."""
    show(page, frozen_url + path)
    unseen = []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stop = page.evaluate(STOP)
        if stop and stop["again"]:
            break
        if stop and not (stop["ring"] and stop["isIn"]):
            unseen.append(stop["name"])

    assert unseen == []
    assert page.evaluate(UNREACHED) == []


def test_the_first_stop_leads_past_the_header(page: Page, frozen_url: str) -> None:
    show(page, frozen_url)
    page.keyboard.press("Tab")

    assert page.evaluate("document.activeElement.textContent") == "Skip to main content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('[data-testid=stMain]').contains(document.activeElement)")


def test_a_word_explains_itself_on_focus_and_goes_away_by_escape(page: Page, frozen_url: str) -> None:
    show(page, frozen_url)
    word = page.locator("dfn.term", has_text="Cohorts")
    told = page.locator("#term-cohort")
    expect(told).to_be_hidden()
    word.focus()

    expect(told).to_be_visible()
    expect(word).to_have_accessible_description(told.text_content() or "missing")
    page.keyboard.press("Escape")
    expect(told).to_be_hidden()


@pytest.mark.parametrize("path", PAGES)
def test_no_word_is_explained_twice_and_no_sentence_is_cut_off(page: Page, frozen_url: str, path: str) -> None:
    show(page, frozen_url + path)
    words = page.locator("dfn.term").filter(visible=True)
    ids = [words.nth(place).get_attribute("aria-describedby") for place in range(words.count())]

    assert len(set(ids)) == len(ids)
    for place in range(len(ids)):
        words.nth(place).focus()
        assert words.nth(place).locator(".told").evaluate(SEEN_WHOLE)


def test_escape_closes_a_value_and_the_keys_lead_on_from_its_cell(page: Page, frozen_url: str) -> None:
    show(page, f"{frozen_url}/compare?pool={CHAT}")
    cell = page.locator('.matrix tr[data-path="cache_config.block_size"] td[tabindex]').last
    cell.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()

    expect(page.locator(".matrix td:focus")).to_have_count(1)


def test_the_guide_leaves_the_reader_on_the_page(page: Page, frozen_url: str) -> None:
    show(page, frozen_url)
    page.get_by_role("button", name="Got it").press("Enter")

    expect(page.locator("[data-testid=stMain]")).to_be_focused()


# All four corners lie in the window, and nothing lies above them.
SEEN_WHOLE = """(told) => {
  const box = told.getBoundingClientRect();
  const [left, right, top, bottom] = [box.left + 4, box.right - 4, box.top + 4, box.bottom - 4];
  const corners = [[left, top], [right, top], [left, bottom], [right, bottom]];
  told.style.pointerEvents = "auto";
  return corners.every(([x, y]) => told.contains(document.elementFromPoint(x, y)));
}"""


def show(page: Page, url: str) -> None:
    """Go to an address and wait until the page is drawn."""
    page.goto(url)
    at_rest(page)
