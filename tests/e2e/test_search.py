"""The search in Chromium: an overlay on any page, by keys alone, for sighted and blind readers; scope and Back."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import settle, url_has, visit
from tests.e2e.states import at

pytestmark = pytest.mark.browser

PLACE = "document.querySelector('[data-testid=stMain]').scrollTop"


def field(page: Page) -> Locator:
    return page.locator("dialog.find input")


def selected(page: Page) -> Locator:
    """The selected hit, which screen readers read."""
    hit = page.locator("dialog.find [role=option][aria-selected=true]")
    expect(hit).to_have_count(1)
    expect(field(page)).to_have_attribute("aria-activedescendant", str(hit.get_attribute("id")))
    return hit


def scroll(page: Page, top: int) -> None:
    page.evaluate(f"document.querySelector('[data-testid=stMain]').scrollTo(0, {top})")
    page.wait_for_function(f"() => {PLACE} === {top}")


def test_enter_opens_the_first_hit_also_before_it_is_shown(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url + at("capacity"))
    page.keyboard.press("Control+k")
    page.keyboard.type("gemma-27b-02")
    page.keyboard.press("Enter")

    url_has(page, "/replica?replica=")
    expect(page.locator("h1")).to_contain_text("gemma-27b-02")
    expect(page.locator("dialog.find")).to_be_hidden()


# Types before the answer to nothing, which arrives before the next question: as if the reader paused for a moment.
TYPES = """() => {
  const dialog = document.querySelector("dialog.find"), field = dialog.querySelector("input");
  field.value = "gemma-27b-02";
  field.dispatchEvent(new Event("input"));
  clearTimeout(dialog.pause);
  return new Promise((done) => setTimeout(done, 1000));
}"""


@pytest.mark.long
def test_enter_never_opens_what_was_shown_for_fewer_words(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url + at("capacity"))
    page.keyboard.press("Control+k")
    page.evaluate(TYPES)
    page.keyboard.press("Enter")

    url_has(page, "/replica?replica=")


def test_arrows_select_a_hit_and_escape_returns_to_where_the_reader_was(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url + at("replicas"))
    box = page.get_by_role("textbox", name="Search")
    box.focus()
    page.keyboard.press("Control+k")
    expect(field(page)).to_be_focused()
    assert field(page).get_attribute("role") == "combobox"
    page.keyboard.type("chat-70b")
    expect(page.locator("dialog.find [role=option]").first).to_contain_text("chat-70b")
    expect(selected(page)).to_contain_text("17 replicas")
    page.keyboard.press("ArrowDown")
    expect(selected(page)).to_contain_text("chat-70b-01")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.locator("dialog.find [role=option]").last).to_have_attribute("aria-selected", "true")

    page.keyboard.press("Escape")
    expect(page.locator("dialog.find")).to_be_hidden()
    expect(box).to_be_focused()
    assert page.url.endswith("/replicas")


def test_an_empty_search_has_what_was_opened_last_and_suggestions(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url + at("status"))
    for words in ("", "block_size", ""):
        page.get_by_role("button", name="Search", exact=True).click()
        expect(page.get_by_role("group", name="Suggested")).to_be_visible()
        if words:
            expect(page.get_by_role("group", name="Recent")).to_have_count(0)
            page.keyboard.type(words)
            page.keyboard.press("Enter")
            url_has(page, "settings?path=cache_config.block_size")
            settle(page)
        page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_role("group", name="Recent").get_by_role("option")).to_have_text(
        ["cache_config.block_size Settings"]
    )


def test_a_slash_in_a_field_is_text(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url + at("replicas"))
    box = page.get_by_role("textbox", name="Search")
    box.click()
    page.keyboard.type("a/b")

    expect(box).to_have_value("a/b")
    expect(page.locator("dialog.find")).to_be_hidden()


@pytest.mark.long
def test_the_search_opens_above_a_dialog_and_returns_to_it(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url + at("compare", pool="chat-70b", path="cache_config.block_size"))
    page.keyboard.press("Control+k")
    page.keyboard.type("capacity")
    expect(selected(page)).to_contain_text("Capacity")
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("stDialog")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("capacity")
    page.keyboard.press("Enter")
    url_has(page, "/capacity")


@pytest.mark.long
def test_words_without_a_hit_say_so_and_keys_of_a_page_are_text(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url + at("review", meeting="1"))
    page.keyboard.press("Control+k")
    page.keyboard.type("zebra j k 7")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")

    expect(page.locator("dialog.find")).to_be_hidden()
    assert page.url.endswith("/review?meeting=1")


@pytest.mark.long
def test_the_scope_is_set_on_any_page_and_the_search_leaves_it_for_what_is_outside(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url + at("settings", path="model_config.dtype"))
    page.get_by_role("button", name="All pools").click()
    page.keyboard.type("gemma")
    expect(page.locator("dialog.find [role=option]")).to_have_count(1)
    page.keyboard.press("Enter")
    url_has(page, "pool=gemma-27b")
    url_has(page, "path=model_config.dtype")
    expect(page.locator(".scope")).to_contain_text("gemma-27b")
    settle(page)

    page.keyboard.press("Control+k")
    page.keyboard.type("gemma-27b-02")
    page.keyboard.press("Enter")
    url_has(page, "/replica?")
    url_has(page, "pool=gemma-27b")
    settle(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("chat-70b-02")
    page.keyboard.press("Enter")
    expect(page.locator(".scope")).to_have_count(0)
    assert "pool=" not in page.url


@pytest.mark.long
@pytest.mark.parametrize("path", ["/", at("findings"), at("compare", pool="chat-70b")])
def test_back_shows_a_page_where_it_was_left(page: Page, frozen_url: str, path: str) -> None:
    """Also after another page that is shorter, and Forward does the same."""
    visit(page, frozen_url + path)
    scroll(page, 300)
    page.locator("[data-testid=stTopNavLink]", has_text="History").click()
    url_has(page, "/timeline")
    settle(page)
    assert page.evaluate(PLACE) == 0

    page.go_back()
    page.wait_for_function(f"() => {PLACE} === 300")
    settle(page)
    assert page.evaluate(PLACE) == 300
    page.go_forward()
    url_has(page, "/timeline")
    settle(page)
    assert page.evaluate(PLACE) == 0
