"""Pages in Chromium: the header, and what opens by click and keyboard. One module, because each starts a browser."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from dashboard.analysis.assembly import Fleet
from tests.browser import settle, tab, url_has, visit
from tests.e2e.frozen_store import LATEST
from tests.e2e.states import OTHER_HASH, at

GROUND = "() => getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
# A chosen theme loads the page again: meanwhile there is no application to look at.
GROUND_IS = f"([ground, same]) => !!document.querySelector('[data-testid=stApp]') && (({GROUND})() === ground) === same"
pytestmark = [pytest.mark.browser, pytest.mark.long]


def test_the_overview_links_every_pool_and_every_replica_that_is_not_up(
    page: Page, frozen_url: str, demo_fleet: Fleet
) -> None:
    visit(page, frozen_url)

    for pool in demo_fleet.pools:
        assert page.get_by_role("link", name=pool.name, exact=True).count() >= 1
    for replica in demo_fleet.replicas:
        if replica.state != "up":
            assert page.get_by_role("link", name=replica.name, exact=True).count() >= 1
    page.get_by_role("link", name="qwen3-8b", exact=True).first.click()
    url_has(page, "compare?pool=qwen3-8b")
    expect(page.get_by_role("heading", name="qwen3-8b")).to_be_visible()


def test_the_header_of_a_narrow_page_has_room_for_a_long_name_and_for_large_counts(
    browser: Browser, frozen_url: str
) -> None:
    """They never cover the names of pages."""
    with tab(browser, width=1024) as page:
        visit(page, frozen_url)
        page.add_style_tag(content=':root { --fleet: "production-europe-west-4-inference" !important; }')
        last = page.locator("[data-testid=stTopNavLink]").last
        assert right(last) < left(page.locator(".choose-scope"))

        page.locator(".asof").evaluate("line => line.classList.add('long')")
        page.locator(".asof > b").evaluate("number => { number.textContent = '9,290 of 10,000'; }")
        assert right(last) < left(page.locator(".choose-scope"))


def left(element: Locator) -> float:
    return float(element.evaluate("e => e.getBoundingClientRect().left"))


def right(element: Locator) -> float:
    return float(element.evaluate("e => e.getBoundingClientRect().right"))


def test_on_a_phone_overview_is_one_column(browser: Browser, frozen_url: str) -> None:
    """The header covers nothing, counts findings and limits to a pool; a pool shows all columns."""
    with tab(browser, width=390, height=844) as page:
        visit(page, frozen_url)
        overflow = "e => e.scrollWidth - e.clientWidth"
        top = "e => e.getBoundingClientRect().top"
        bottom = page.locator(".asof").evaluate("e => e.getBoundingClientRect().bottom")
        cells = page.locator(".st-key-pools tbody tr").first.locator("th, td").all()

        assert page.locator("[data-testid=stMain]").evaluate(overflow) <= 0
        assert page.locator(".st-key-pools .scroll").first.evaluate(overflow) <= 0
        assert bottom < page.locator("h1").evaluate(top)
        assert len(cells) == 8
        assert max(map(right, cells)) <= 390
        expect(page.locator(".asof .found")).to_be_visible()
        assert right(page.get_by_role("button", name="Share")) <= 390
        expect(page.locator(".choose-scope")).to_be_visible()


def test_an_unknown_page_is_not_found_and_stays_so(page: Page, frozen_url: str) -> None:
    """Streamlit shows the first page under any name."""
    visit(page, f"{frozen_url}/nope")
    expect(page).to_have_title(re.compile("^Page not found"))
    page.get_by_role("button", name="Status and help").click()
    page.get_by_text("Pause updates").click()
    page.keyboard.press("Escape")
    settle(page)
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()

    page.locator(".empty").get_by_role("link", name="Overview").click()
    expect(page).to_have_title(re.compile("^Overview"))


def test_a_finding_links_to_its_setting_and_back_returns_to_it(page: Page, frozen_url: str) -> None:
    """The counts in the header lead to the findings."""
    visit(page, f"{frozen_url}/capacity")
    page.get_by_role("link", name="critical findings").first.click()
    expect(page).to_have_url(f"{frozen_url}/findings?search=severity%3Acritical")
    page.get_by_role("link", name="prefix_caching_hash_algo is xxhash").click()
    expect(page.get_by_role("heading", name="Why it matters here")).to_be_visible()
    settle(page)
    assert "search=severity%3Acritical" in page.url
    assert "finding=" in page.url
    opened = page.url

    page.get_by_role("link", name="cache_config.prefix_caching_hash_algo").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("RT-05 hash-algorithm-differs")

    page.go_back()
    expect(page).to_have_url(opened)
    expect(page.get_by_role("heading", name="Why it matters here")).to_be_visible()


def fades(page: Page) -> list[bool]:
    """Return for each table whether its right edge fades."""
    seen = "tables => tables.map(each => getComputedStyle(each, '::after').content !== 'none')"
    return list(page.locator(".scroll:visible").evaluate_all(seen))


def test_the_right_edge_fades_while_columns_are_out_of_view(browser: Browser, frozen_url: str) -> None:
    with tab(browser, width=1280) as page:
        visit(page, f"{frozen_url}/compare?pool=gemma-27b&columns=Replicas")
        assert fades(page) == [True, True]

        page.locator(".matrix").last.evaluate("each => each.scrollTo(each.scrollWidth, 0)")
        settle(page)
        assert fades(page) == [True, False]

        visit(page, f"{frozen_url}/compare?pool=chat-70b")
        assert fades(page) == [False, False], "all columns are visible"


@pytest.mark.parametrize("at", ["replicas", "status", "settings?path=cache_config.block_size"])
def test_on_a_phone_the_tables_that_scroll_fade_and_their_rows_are_low(
    browser: Browser, frozen_url: str, at: str
) -> None:
    with tab(browser, width=390, height=844) as page:
        visit(page, f"{frozen_url}/{at}")
        is_wide = "tables => tables.map(each => each.scrollWidth > each.clientWidth)"
        wide = page.locator(".scroll:visible").evaluate_all(is_wide)
        assert any(wide)
        assert fades(page) == wide
        assert max(page.locator("tr").evaluate_all("rows => rows.map(each => each.offsetHeight)")) < 200


def test_the_bar_of_an_outlier_opens_its_replica_and_back_restores_the_page(page: Page, frozen_url: str) -> None:
    """The text above the bar is its deviation: the sixth bar of the pool."""
    visit(page, f"{frozen_url}/capacity?pool=deepseek-v3%2Fdecode&length=32k")
    expect(page.get_by_role("link", name="deepseek-v3-decode-5", exact=True).first).to_be_visible()
    bar = page.locator(".js-plotly-plot .bars .point", has_text="−18%").locator("path").bounding_box()
    assert bar is not None
    page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    page.mouse.click(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    url_has(page, "/replica?replica=")
    expect(page.get_by_role("heading", name=re.compile("deepseek-v3-decode-5"))).to_be_visible()

    page.go_back()
    expect(page).to_have_url(f"{frozen_url}/capacity?pool=deepseek-v3%2Fdecode&length=32k")
    expect(page.get_by_text("Requests at 32 k")).to_be_visible()


def test_two_ticked_replicas_of_different_pools_are_compared_side_by_side(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/replicas?search=version:0.20.2")
    for row in range(2):
        page.locator("[data-tick]").nth(row).check()
    page.get_by_role("link", name="Compare 2 replicas").click()
    settle(page)

    expect(page.get_by_role("heading", name="2 replicas compared")).to_be_visible()
    expect(page.get_by_role("button", name="Share")).to_be_visible()
    page.get_by_role("rowheader", name=re.compile("block_size")).first.click()
    url_has(page, "/settings?path=")


def test_filters_sort_and_columns_of_replicas_are_in_the_url_and_a_tick_keeps_it(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/replicas?pool=chat-70b")
    page.get_by_role("textbox", name="Search", exact=True).fill("severity:critical")
    settle(page)
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("combobox", name="Sort").fill("Differs in")  # the list shows some of its options only
    page.get_by_role("option", name="Differs in \N{UPWARDS ARROW}").click()
    page.get_by_role("combobox", name="Columns").click()
    page.get_by_role("option", name="Pool").click()
    page.keyboard.press("Escape")
    settle(page)
    url = page.url
    page.locator("[data-tick]").first.check()
    settle(page)

    assert url.endswith("?pool=chat-70b&search=severity%3Acritical&sort=differs-in&columns=Pool")
    expect(page).to_have_url(url)
    page.get_by_role("link", name="Open the ticked replica").click()
    expect(page.get_by_role("heading", name="chat-70b-11")).to_be_visible()


def test_a_click_on_a_head_sorts_by_the_url_and_keeps_the_ticked_replicas(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/replicas?search=gemma+state:up")
    page.get_by_role("checkbox", name="Select gemma-27b-03").focus()
    page.keyboard.press("Space")
    ticked = page.get_by_role("link", name="Open the ticked replica")
    replica = ticked.get_attribute("href")
    for sort in ("replica", "-replica"):
        page.locator("a.sort", has_text="Replica").click()
        url_has(page, f"&sort={sort}")
        settle(page)
        assert ticked.get_attribute("href") == replica
        expect(page.locator("[data-tick]:checked")).to_have_count(1)
        expect(page.get_by_role("checkbox", name="Select gemma-27b-03")).to_be_checked()
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("[data-tick]:checked")).to_have_count(0)
    page.get_by_role("link", name="gemma-27b-07", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("gemma-27b-07"))).to_be_visible()
    settle(page)
    assert "gemma" not in page.url.partition("?")[2]
    expect(page.get_by_placeholder("setting or value")).to_have_value("")

    page.go_back()
    expect(page).to_have_url(re.compile("search=gemma.*up&sort=-replica"))
    expect(page.get_by_text("7 of 42 replicas shown")).to_be_visible()


def test_the_detail_page_shows_settings_probes_and_the_raw_answer(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}{at('replica', replica=OTHER_HASH)}")
    expect(page.get_by_role("heading", name="chat-70b-11")).to_be_visible()
    read = page.locator(".card", has_text="Read").locator("time")
    expect(read).to_have_text(re.compile(r"^\d+ (s|min) ago$"))
    page.get_by_role("tab", name="Probes").click()
    settle(page)
    expect(page.get_by_role("rowheader", name="read").first).to_be_visible()

    answers = page.get_by_role("combobox", name="Raw answer")
    answers.scroll_into_view_if_needed()  # the list of options closes when the page scrolls
    answers.click()
    page.get_by_role("option", name="/metrics").click()

    expect(page.get_by_role("region", name="Raw answer of /metrics")).to_contain_text("vllm:cache_config_info")


def test_a_snapshot_has_times_in_place_of_ages(page: Page, frozen_url: str, ids: Mapping[str, str]) -> None:
    visit(page, f"{frozen_url}/replica?replica=http%3A%2F%2F127.1.0.11%3A28000&snapshot={ids[LATEST]}")

    expect(page.locator(".card", has_text="Read").locator("time")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))


def test_every_page_of_an_entry_marks_it_and_links_to_the_others(page: Page, frozen_url: str) -> None:
    """The mark goes with the page."""
    current, parent = page.locator("[data-testid=stTopNavLink][aria-current]"), "History"
    siblings = page.get_by_role("navigation", name="Pages of this group")
    visit(page, f"{frozen_url}/changes")
    expect(current).to_have_text([parent])
    expect(siblings.get_by_role("link")).to_have_text(["Timeline", "Changes", "Snapshots"])
    expect(siblings.locator("[aria-current=page]")).to_have_text("Changes")

    page.get_by_role("link", name="Capacity", exact=True).first.click()
    expect(current).to_have_text(["Capacity"])
    page.go_back()
    expect(current).to_have_text([parent])
    page.get_by_role("link", name=parent, exact=True).first.click()
    expect(current).to_have_text([parent])
    page.get_by_role("link", name="Overview", exact=True).first.click()
    expect(current).to_have_text(["Overview"])


def test_a_focused_select_has_one_ring_around_the_whole_control(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    ringed = "input => [input, input.parentElement].map(each => getComputedStyle(each).outlineStyle)"

    select = page.get_by_role("combobox").first
    page.keyboard.press("Tab")
    select.focus()
    expect(select).to_be_focused()
    assert select.evaluate(ringed) == ["none", "solid"]


def test_a_chosen_theme_stays_on_every_page(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/findings")
    usual = page.evaluate(GROUND)
    page.get_by_role("button", name="Status and help").click()
    page.get_by_role("button", name="Dark").click()
    page.wait_for_function(GROUND_IS, arg=[usual, False])
    settle(page)
    dark = page.evaluate(GROUND)
    page.get_by_role("button", name="Status and help").click()
    assert page.get_by_role("button", name="Dark").get_attribute("aria-pressed") == "true"

    visit(page, f"{frozen_url}/replica?replica=x")
    assert page.evaluate(GROUND) == dark
    page.get_by_role("button", name="Status and help").click()
    page.get_by_role("button", name="System").click()
    page.wait_for_function(GROUND_IS, arg=[usual, True])
