"""Keyboard, screen reader, paper and clipboard in Chromium. test_every_page.py tests Tab."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser import Theme, at_rest, settle, tab, url_has, visit
from tests.e2e.frozen_store import LATEST
from tests.e2e.states import CHAT, at, with_ids

pytestmark = [pytest.mark.browser, pytest.mark.long]

PAPER_WIDTH = 1030  # CSS pixels of A4 without margins
MAX_TABS = 10
# A page on plain http has no navigator.clipboard; the tests keep it to read what was copied.
PLAIN_HTTP = """
window.clipboardOfTests = navigator.clipboard;
Object.defineProperty(navigator, "clipboard", { value: undefined });
"""


def test_the_first_tab_stop_skips_the_header(page: Page, frozen_url: str) -> None:
    show(page, frozen_url)
    page.keyboard.press("Tab")

    assert page.evaluate("document.activeElement.textContent") == "Skip to main content"
    page.keyboard.press("Enter")
    expect(page.locator(".page-head h1")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('[data-testid=stMain]').contains(document.activeElement)")


def test_focus_shows_the_explanation_of_a_term_and_escape_hides_it(page: Page, frozen_url: str) -> None:
    show(page, frozen_url)
    word = page.locator("dfn.term", has_text="Cohorts")
    explanation = page.locator("#term-cohort")
    expect(explanation).to_be_hidden()
    word.focus()

    expect(explanation).to_be_visible()
    expect(word).to_have_accessible_description(explanation.text_content() or "missing")
    page.keyboard.press("Escape")
    expect(explanation).to_be_hidden()


def test_escape_closes_a_dialog_and_returns_the_focus_to_its_cell(page: Page, frozen_url: str) -> None:
    show(page, f"{frozen_url}/compare?pool={CHAT}")
    cell = page.locator('.matrix tr[data-path="cache_config.block_size"] td[tabindex]').last
    cell.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()

    expect(page.locator(".matrix td:focus")).to_have_count(1)


def test_closing_the_guide_moves_the_focus_to_the_page(page: Page, frozen_url: str) -> None:
    show(page, frozen_url)
    page.get_by_role("button", name="Got it").press("Enter")

    expect(page.locator("[data-testid=stMain]")).to_be_focused()


def show(page: Page, url: str) -> None:
    """Open a URL and wait until the page is drawn."""
    page.goto(url)
    at_rest(page)


def test_the_matrix_reads_row_by_row(page: Page, frozen_url: str) -> None:
    """Setting, state, and the value of each cohort; a value that differs is read as such."""
    page.goto(frozen_url + at("compare", pool=CHAT))
    at_rest(page)

    expect(page.locator('.matrix tr[data-path="cache_config.block_size"]').last).to_match_aria_snapshot("""
- row:
  - rowheader "cache_config.block_size"
  - gridcell "differs (critical finding)"
  - gridcell "16"
  - gridcell "32 differs"
  - gridcell "16"
""")


def test_the_header_is_silent_until_the_data_is_stale(page: Page, frozen_url: str) -> None:
    """The header is drawn every few seconds; only a change to stale is announced."""
    page.goto(frozen_url)
    at_rest(page)
    status = page.get_by_role("status").and_(page.locator("body > .said"))
    expect(status).to_have_text("")
    page.locator(".asof").evaluate(
        "line => line.insertAdjacentHTML('beforeend', '<span class=late data-status=\"The data is stale.\"></span>')"
    )

    expect(status).to_have_text("The data is stale.")
    assert page.locator(".asof").evaluate("line => line.closest('[aria-live]')") is None


def test_a_chart_is_scaled_to_the_paper_and_back(page: Page, frozen_url: str) -> None:
    page.goto(frozen_url + at("capacity"))
    at_rest(page)
    drawing = page.locator("[data-testid=stPlotlyChart] .main-svg").first
    drawn = drawing.get_attribute("width")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")

    assert (drawing.get_attribute("viewBox") or "").split()[2] == drawn
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert drawing.get_attribute("viewBox") is None


def test_collapsed_text_is_open_on_paper(page: Page, frozen_url: str) -> None:
    page.set_viewport_size({"width": PAPER_WIDTH, "height": 1000})
    page.goto(frozen_url + at("review"))
    at_rest(page)
    advice = page.locator(".entries details b", has_text="What to do").first
    expect(advice).to_be_hidden()
    page.emulate_media(media="print")

    expect(advice).to_be_visible()


@pytest.fixture
def plain_http(page: Page) -> Iterator[Page]:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.add_init_script(PLAIN_HTTP)
    yield page
    page.context.close()  # the init script must not run in other tests


def copied(page: Page) -> str:
    return str(page.evaluate("window.clipboardOfTests.readText()"))


def test_the_button_copies_the_text_next_to_it_and_confirms(frozen_url: str, plain_http: Page) -> None:
    visit(plain_http, f"{frozen_url}/compare?pool=chat-70b&cause=cache_config.block_size")
    button = plain_http.locator(".paste .copy").first

    button.click()

    expect(button).to_have_text("Copied")
    assert copied(plain_http) == plain_http.locator(".paste code").first.inner_text()


def test_the_table_is_copied_as_rows_and_columns_without_a_selection(frozen_url: str, plain_http: Page) -> None:
    visit(plain_http, f"{frozen_url}/compare?pool=chat-70b")
    button = plain_http.get_by_role("button", name="Copy table")

    button.click()
    button.click()  # again, while it still confirms

    expect(plain_http.get_by_role("button", name="Copied")).to_have_count(1)
    rows = [line.split("\t") for line in copied(plain_http).splitlines()]
    assert len({len(row) for row in rows if len(row) > 1}) == 1
    assert any(row[0] == "cache_config.block_size" and {"16", "32"} <= set(row) for row in rows)
    assert plain_http.evaluate("window.getSelection().toString()") == ""
    expect(button).to_have_text("Copy table")


@pytest.mark.parametrize(
    ("path", "title"),
    [
        (at("compare", pool=CHAT, path="cache_config.block_size"), "cache_config.block_size"),
        (at("compare", pool=CHAT, cohort="B"), "Cohort B of chat-70b"),
        (at("snapshots", manage=LATEST), "Snapshot Review of 20 November"),
    ],
)
def test_the_title_of_a_dialog_names_what_it_shows(
    page: Page, frozen_url: str, ids: Mapping[str, str], path: str, title: str
) -> None:
    visit(page, frozen_url + with_ids(path, ids))

    expect(page.get_by_role("dialog").get_by_role("heading").first).to_have_text(title)


@pytest.mark.parametrize(("theme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(18, 23, 28)")])
def test_the_first_paint_has_the_ground_of_the_theme(
    browser: Browser, frozen_url: str, theme: Theme, ground: str
) -> None:
    """Before any script has run."""
    with tab(browser, theme=theme) as page:
        page.route("**/static/js/**", lambda route: route.abort())
        page.goto(frozen_url)

        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        page.unroute_all()


# The page without Plotly is complete once the script ended and the first bars did not move for half a second.
NOTHING_MOVES = """() => {
  const isDone = document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning';
  const top = document.querySelector('.first-chart').getBoundingClientRect().top;
  const known = window.firstChart ??= { top, since: performance.now() };
  if (known.top !== top || !isDone) window.firstChart = { top, since: performance.now() };
  return isDone && performance.now() - window.firstChart.since > 500;
}"""


def test_the_bars_of_a_chart_are_drawn_before_plotly_and_nothing_moves_when_it_comes(
    browser: Browser, frozen_url: str
) -> None:
    """The bars are where Plotly draws them, but for the pixels by which it makes room for its legend."""
    boxes = "bars => bars.map(bar => bar.getBoundingClientRect()).map(({ left, top, height }) => [left, top, height])"
    below = "note => note.getBoundingClientRect().top"
    with tab(browser) as page:
        waiting: list[Route] = []
        page.route("**/PlotlyChart*", lambda route: waiting.append(route))  # noqa: PLW0108  # Playwright marks the function
        page.goto(f"{frozen_url}/capacity")
        first = page.locator(".first-chart").first
        expect(first).to_be_visible()
        page.wait_for_function(NOTHING_MOVES)
        note = page.get_by_text("One bar per DP rank.")
        before, place = first.locator("i").evaluate_all(boxes), note.evaluate(below)
        waiting[0].continue_()
        page.unroute_all()
        settle(page)
        drawn = page.locator(".js-plotly-plot").first.locator(".bars .point path").evaluate_all(boxes)

        expect(first).not_to_be_visible()
        assert len(before) == len(drawn) > 0
        for one, other in zip(before, drawn, strict=True):
            assert one == pytest.approx(other, abs=12)
        assert note.evaluate(below) == pytest.approx(place, abs=1)


@pytest.mark.parametrize("path", ["/", at("compare", pool=CHAT), at("snapshots")])
def test_no_link_or_cell_is_read_twice(page: Page, frozen_url: str, path: str) -> None:
    """The description of an element does not repeat its name; that of a setting is its whole path."""
    visit(page, frozen_url + path)
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    shown = [node for node in nodes if (node.get("role") or {}).get("value") != "rowheader"]
    texts = [[(node.get(key) or {}).get("value", "") for key in ("name", "description")] for node in shown]

    assert [each for each in texts if each[1] and each[1] in each[0]] == []
    assert any("critical finding" in name for name, _ in texts)


def test_ten_tabs_lead_to_the_first_cause_and_enter_opens_it(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the skip link
    tabs = 1
    while not page.evaluate("document.activeElement.closest('.st-key-first .entries') !== null"):
        page.keyboard.press("Tab")
        tabs += 1
        assert tabs <= MAX_TABS
    page.keyboard.press("Enter")

    url_has(page, "cause=")
    expect(page.get_by_role("dialog")).to_be_visible()
