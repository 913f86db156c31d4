"""In a real browser: every page opens, filters, links, and shows what the fleet holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import pytest
from playwright.sync_api import expect

from tests.browser import settle, tab, visit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from dashboard.fleet import Fleet

pytestmark = pytest.mark.browser

PAGES = {
    "Overview": "/",
    "Findings": "/findings",
    "Compare": "/compare",
    "Capacity": "/capacity",
    "Replicas": "/replicas",
}
HASH = "cache_config.prefix_caching_hash_algo"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with tab(browser) as found:
        yield found


def url_has(page: Page, text: str) -> None:
    """Wait until the address of the page holds a text."""
    expect(page).to_have_url(re.compile(re.escape(text)))


@pytest.mark.parametrize("width", [1024, 1600])
@pytest.mark.parametrize("path", [*PAGES.values(), "/replica?replica=nobody"])
def test_no_page_scrolls_sideways_or_shows_an_error(browser: Browser, frozen_url: str, path: str, width: int) -> None:
    with tab(browser, width=width) as page:
        visit(page, frozen_url + path)

        assert page.locator("[data-testid=stException]").count() == 0
        overflow = "e => e.scrollWidth - e.clientWidth"
        assert page.locator("[data-testid=stMain]").evaluate(overflow) <= 0


def test_the_navigation_leads_to_every_page_and_names_it(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url)
    for name, path in PAGES.items():
        page.get_by_role("link", name=name, exact=True).first.click()
        expect(page).to_have_title(re.compile(f"^{name}"))
        settle(page)
        assert page.url.removeprefix(frozen_url).partition("?")[0] == path


def test_the_header_says_how_many_answered_and_as_of_when(page: Page, frozen_url: str, demo_fleet: Fleet) -> None:
    answered = sum(replica.state != "down" for replica in demo_fleet.replicas)
    for path in PAGES.values():
        visit(page, frozen_url + path)
        header = page.locator(".asof")
        expect(header).to_contain_text(f"{answered} of {len(demo_fleet.replicas)} answered")
        expect(header).to_contain_text("11:42:05 UTC")


def test_the_overview_names_every_pool_and_what_could_not_be_read(
    page: Page, frozen_url: str, demo_fleet: Fleet
) -> None:
    visit(page, frozen_url)

    for pool in demo_fleet.pools:
        assert page.get_by_role("link", name=pool.name, exact=True).count() >= 1
    for replica in demo_fleet.replicas:
        if replica.state != "up":
            assert page.get_by_role("link", name=replica.name, exact=True).count() >= 1


def test_a_pool_of_the_overview_opens_on_compare(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url)
    page.get_by_role("link", name="qwen3-8b", exact=True).first.click()

    url_has(page, "compare?pool=qwen3-8b")
    expect(page.get_by_role("heading", name="qwen3-8b")).to_be_visible()


def test_the_band_says_who_cannot_share_prefixes_and_why(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")

    expect(page.get_by_text("cannot share prefixes with A")).to_be_visible()
    expect(page.locator(f'tr[data-path="{HASH}"] td', has_text="xxhash").first).to_be_visible()


def test_the_matrix_shows_every_difference_of_the_pool(page: Page, frozen_url: str, demo_fleet: Fleet) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    pool = next(pool for pool in demo_fleet.pools if pool.name == "chat-70b")

    shown = page.locator("tr[data-path]").evaluate_all("rows => rows.map(row => row.dataset.path)")

    assert {difference.path for difference in pool.differences} <= set(shown)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_a_finding_names_is_tinted_as_the_finding_and_the_rest_is_grey(
    browser: Browser, frozen_url: str, theme: Literal["light", "dark"]
) -> None:
    """For information: blue, with a mark that is seen. No finding: the same grey as what is no severity."""
    with tab(browser, theme=theme) as page:
        visit(page, f"{frozen_url}/compare?pool=chat-70b")

        def tint(path: str) -> str:
            cell = page.locator(f'tr[data-path="{path}"] td.differs').first
            return str(cell.evaluate("cell => getComputedStyle(cell).backgroundColor"))

        def shade(name: str) -> str:
            """Return the colour that a variable of the style sheet has in this theme."""
            make = """(page, name) => {
              const probe = page.appendChild(document.createElement("i"));
              probe.style.background = `var(${name})`;
              const found = getComputedStyle(probe).backgroundColor;
              probe.remove();
              return found;
            }"""
            return str(page.locator("[data-testid=stMain]").evaluate(make, name))

        assert tint("cache_config.block_size") == shade("--critical-tint")
        assert tint("scheduler_config.max_num_seqs") == shade("--warning-tint")
        assert tint("model_config.max_logprobs") == shade("--info-tint")
        assert tint("cache_config.effective_attention_block_size") == shade("--chip")
        mark = page.locator('tr[data-path="model_config.max_logprobs"] .glyph')
        assert mark.evaluate("mark => getComputedStyle(mark).backgroundColor") == shade("--info")


def test_the_header_has_room_for_a_long_name_on_a_narrow_page(browser: Browser, frozen_url: str) -> None:
    """The counts never lie over the pages' names."""
    with tab(browser, width=1024) as page:
        visit(page, frozen_url)
        page.add_style_tag(content=':root { --fleet: "production-europe-west-4-inference" !important; }')
        last = page.get_by_role("link", name="Replicas", exact=True).first.bounding_box()
        counts = page.locator(".asof").bounding_box()

        assert last is not None
        assert counts is not None
        assert last["x"] + last["width"] < counts["x"]


def test_a_finding_that_is_opened_by_keyboard_keeps_the_focus_in_the_list(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/findings")
    entry = page.get_by_role("link", name="Hash algorithm is xxhash")
    entry.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Why it matters here")).to_be_visible()

    expect(page.locator(".findings [aria-current] a")).to_be_focused()


def test_a_finding_that_is_closed_by_keyboard_gives_the_focus_back_to_its_entry_in_sight(
    page: Page, frozen_url: str
) -> None:
    """Whoever reads one finding after the other goes on where they were, not at the top of the page."""
    visit(page, f"{frozen_url}/findings")
    entry = page.get_by_role("link", name="Limit of log probabilities")
    entry.focus()
    page.keyboard.press("Enter")
    close = page.get_by_role("link", name="Close")
    close.focus()
    page.keyboard.press("Enter")
    expect(close).to_have_count(0)

    expect(entry).to_be_focused()
    expect(entry).to_be_in_viewport()


def test_on_a_phone_overview_is_one_column_that_needs_no_scrolling_sideways(browser: Browser, frozen_url: str) -> None:
    """The header covers nothing, cards stand two by two, and a pool shows all that its row shows on a wide page."""
    with tab(browser, width=390, height=844) as page:
        visit(page, frozen_url)
        overflow = "e => e.scrollWidth - e.clientWidth"
        top = "e => e.getBoundingClientRect().top"
        cards = [card.evaluate(top) for card in page.locator(".card").all()[:3]]
        bottom = page.locator(".asof").evaluate("e => e.getBoundingClientRect().bottom")
        cells = page.locator(".pool-list tbody tr").first.locator("th, td")
        right = [cell.evaluate("e => e.getBoundingClientRect().right") for cell in cells.all()]

        assert page.locator("[data-testid=stMain]").evaluate(overflow) <= 0
        assert page.locator(".pool-list .scroll").first.evaluate(overflow) <= 0
        assert bottom < page.locator("h1").evaluate(top)
        assert cards[0] == cards[1] < cards[2]
        assert len(right) == 8
        assert max(right) <= 390


def test_a_cell_opens_by_click_and_says_who_has_which_value(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    page.locator(f'tr[data-path="{HASH}"] td[tabindex]').last.click()

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("xxhash")
    expect(dialog).to_contain_text("chat-70b-11")
    url_has(page, "path=cache_config.prefix_caching_hash_algo")


def test_a_cell_opens_by_keyboard_alone(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    page.locator(f'tr[data-path="{HASH}"] td[tabindex]').first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")

    expect(page.get_by_role("dialog")).to_contain_text("xxhash")


def test_search_narrows_the_matrix_and_stands_in_the_url(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    page.get_by_label("Search").fill("logprobs")
    page.get_by_label("Search").press("Enter")

    url_has(page, "search=logprobs")
    expect(page.locator('tr[data-path="model_config.max_logprobs"]')).to_be_visible()
    expect(page.locator('tr[data-path="scheduler_config.max_num_seqs"]')).to_have_count(0)


def test_a_link_opens_what_was_seen(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b&search=logprobs&path=model_config.max_logprobs")

    expect(page.get_by_role("dialog")).to_contain_text("max_logprobs")
    expect(page.get_by_label("Search")).to_have_value("logprobs")


def test_all_settings_shows_what_is_equal_too(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    before = page.locator("tr[data-path]").count()
    page.get_by_text("All settings", exact=True).click()
    settle(page)

    assert page.locator("tr[data-path]").count() > 10 * before


def test_capacity_names_the_rank_that_is_short(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/capacity?pool=deepseek-v3%2Fdecode")

    expect(page.get_by_role("link", name="deepseek-v3-decode-5", exact=True).first).to_be_visible()
    expect(page.get_by_text("−18 %").first).to_be_visible()


def test_capacity_shows_the_naive_number_beside_the_true_one(page: Page, frozen_url: str, demo_fleet: Fleet) -> None:
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


def test_the_bar_of_an_outlier_opens_its_replica_and_back_leads_to_what_was_seen(page: Page, frozen_url: str) -> None:
    """Its text stands above it: the sixth bar of the pool, the one that is looked for."""
    visit(page, f"{frozen_url}/capacity?pool=deepseek-v3%2Fdecode&length=32k")
    bar = page.locator(".js-plotly-plot .bars .point", has_text="−18 %").locator("path").bounding_box()
    assert bar is not None
    page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    page.mouse.click(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    expect(page.get_by_role("heading", name=re.compile("deepseek-v3-decode-5"))).to_be_visible()

    page.go_back()
    expect(page).to_have_url(f"{frozen_url}/capacity?pool=deepseek-v3%2Fdecode&length=32k")
    expect(page.get_by_text("Requests at 32 k")).to_be_visible()


def test_back_from_a_replica_leads_to_the_replicas_that_were_found(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/replicas?search=gemma&state=up")
    table = page.locator("[data-testid=stDataFrame] canvas").first.bounding_box()
    assert table is not None
    page.mouse.click(table["x"] + 200, table["y"] + 55)  # the first name
    expect(page.get_by_role("heading", name=re.compile("gemma-27b-"))).to_be_visible()
    settle(page)
    assert "gemma" not in page.url.partition("?")[2]
    expect(page.get_by_placeholder("setting or value")).to_have_value("")

    page.go_back()
    expect(page).to_have_url(f"{frozen_url}/replicas?search=gemma&state=up")
    expect(page.get_by_text("7 of 42 replicas shown")).to_be_visible()


def test_a_finding_opens_and_leads_to_its_setting_and_back(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/findings?severity=critical")
    page.get_by_role("link", name="Hash algorithm is xxhash").click()
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


def test_the_counts_in_the_header_lead_to_the_findings(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/capacity")
    page.get_by_role("link", name="critical findings").first.click()
    expect(page).to_have_url(f"{frozen_url}/findings?severity=critical")
    expect(page.get_by_text("Block size is 32")).to_be_visible()


def test_replicas_lists_all_of_them(page: Page, frozen_url: str, demo_fleet: Fleet) -> None:
    visit(page, f"{frozen_url}/replicas")

    expect(page.get_by_text(f"{len(demo_fleet.replicas)} replicas shown")).to_be_visible()


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


def test_an_unknown_replica_is_said_to_be_unknown_with_a_way_back(page: Page, frozen_url: str) -> None:
    visit(page, f"{frozen_url}/replica?replica=http%3A%2F%2Fnobody%3A1")

    expect(page.get_by_role("link", name="Replicas").first).to_be_visible()
    expect(page.locator("[data-testid=stMain]")).to_contain_text(re.compile("There is no such replica"))


def test_the_browser_asks_nobody_but_the_dashboard(page: Page, frozen_url: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in PAGES.values():
        visit(page, frozen_url + path)

    outside = [
        url for url in asked if not url.startswith((frozen_url, frozen_url.replace("http", "ws"), "data:", "blob:"))
    ]
    assert outside == []
