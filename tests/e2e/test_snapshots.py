"""Snapshots in Chromium: they stay open from page to page, and are imported from files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from playwright.sync_api import Browser, FloatRect, Page, expect

from dashboard.analysis.assembly import Fleet
from dashboard.config import load_options
from dashboard.demo import default_fleet, in_thread, targets
from dashboard.store.opening import configured_snapshots
from dashboard.store.snapshots import Snapshots
from tests.browser import settle, tab, visit
from tests.captured import SERVER_INFO, capture
from tests.frozen import AT
from tests.serving import dashboard_on

pytestmark = [pytest.mark.browser, pytest.mark.long]

PAGES = {
    "Overview": "Overview",
    "Findings": "Findings",
    "Compare": "Compare",
    "Capacity": "Capacity",
    "Inventory": "Replicas",
    "History": "Timeline",
}  # titles by the entry of the navigation that leads there
UNREACHABLE = "name: prod\ntargets: [http://127.0.0.1:9]\ndata_folder: kept\n"


class Served(NamedTuple):
    """A dashboard with an unreachable live fleet and one snapshot."""

    url: str
    key: str
    store: Snapshots


@pytest.fixture(scope="module")
def served(demo_fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("served")
    (folder / "fleet.yaml").write_text(UNREACHABLE)
    key = Snapshots(folder / "kept").save(demo_fleet, "Ops review", AT).id
    with dashboard_on(folder / "fleet.yaml") as url:
        yield Served(url, key, configured_snapshots(load_options(folder / "fleet.yaml")))


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    assert served.url  # the dashboard is there before the tab
    with tab(browser) as found:
        yield found


def band(page: Page) -> str:
    return page.locator(".snapshot-banner").inner_text()


def test_the_navigation_and_back_stay_in_the_snapshot(page: Page, served: Served) -> None:
    visit(page, f"{served.url}/?snapshot={served.key}")
    addresses = []
    for name, title in PAGES.items():
        page.locator("[data-testid=stTopNavLink]", has_text=name).click()
        expect(page).to_have_title(re.compile(f"^{title} · .+ · {served.key[:10]}$"))
        settle(page)
        assert f"snapshot={served.key[:10]}" in page.url
        assert served.key[:10] in band(page)
        addresses.append(page.url)
    for earlier in reversed(addresses[:-1]):
        page.go_back()
        expect(page).to_have_url(earlier)
        settle(page)
        assert served.key[:10] in band(page)


def test_links_and_dialogs_stay_in_the_snapshot(page: Page, served: Served) -> None:
    visit(page, f"{served.url}/?snapshot={served.key}")
    page.get_by_role("link", name="chat-70b", exact=True).first.click()
    expect(page.get_by_role("heading", name="chat-70b")).to_be_visible()
    expect(page).to_have_url(re.compile(f"compare.*snapshot={served.key[:10]}"))

    page.locator("tr[data-path] td[tabindex]").first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page).to_have_url(re.compile("snapshot=.*path=|path=.*snapshot="))


def test_a_link_opens_in_another_tab_with_the_parameters_of_every_page(page: Page, served: Served) -> None:
    visit(page, f"{served.url}/?snapshot={served.key}&screenshot=1")
    link = page.locator("[data-testid=stTopNavLink]", has_text="Capacity")
    link.hover()
    assert link.get_attribute("href") == f"{served.url}/capacity?snapshot={served.key}&screenshot=1"
    for name in ("Findings", "chat-70b"):
        with page.context.expect_page() as opened:
            page.get_by_role("link", name=name, exact=True).first.click(modifiers=["ControlOrMeta"])

        for expected in (f"snapshot={served.key[:10]}", "screenshot=1", "/(findings|compare)"):
            expect(opened.value).to_have_url(re.compile(expected))
        assert page.url == f"{served.url}/?snapshot={served.key}&screenshot=1"
        opened.value.close()


def test_the_banner_leads_to_the_same_page_of_the_live_fleet_whose_links_are_live(page: Page, served: Served) -> None:
    visit(page, f"{served.url}/findings?snapshot={served.key}&search=severity%3Acritical&screenshot=1")
    page.locator("[data-testid=stTopNavLink]", has_text="Capacity").hover()
    page.get_by_role("link", name="Back to the live fleet").click()
    settle(page)

    assert page.url == f"{served.url}/findings?search=severity%3Acritical&screenshot=1"
    expect(page.locator(".snapshot-banner")).to_have_count(0)
    expect(page).not_to_have_title(re.compile(served.key))
    expect(page.locator(".asof")).to_contain_text("0 of 1")
    page.locator("[data-testid=stTopNavLink]", has_text="Capacity").click()
    expect(page).to_have_url(f"{served.url}/capacity?screenshot=1")


def test_a_snapshot_made_by_share_opens_by_its_link(page: Page, served: Served) -> None:
    visit(page, f"{served.url}/findings?search=severity%3Awarning")
    page.get_by_role("button", name="Share").click()
    page.get_by_label("Name").fill("All unreachable")
    page.get_by_role("button", name="Save snapshot", exact=True).click()
    link = page.get_by_role("link", name="open it")
    expect(link).to_be_visible()
    link_text = page.locator("[data-testid=stPopoverBody] .paste code").inner_text()
    link.click()
    expect(page.locator(".snapshot-banner")).to_contain_text("All unreachable")
    expect(page.locator("[data-testid=stPopoverBody]")).to_have_count(0)

    assert page.url == link_text
    assert "search=severity%3Awarning" in page.url


def test_behind_a_path_prefix_links_have_it_and_changes_compare_with_the_last_review(
    browser: Browser, demo_fleet: Fleet, tmp_path: Path
) -> None:
    (tmp_path / "fleet.yaml").write_text(f"{UNREACHABLE}poll: {{interval_seconds: 1}}\n")
    older = replace(demo_fleet, name="prod", polled_at=AT - timedelta(days=7))
    key = Snapshots(tmp_path / "kept").save(older, "Review last week", AT).id
    prefix = {"STREAMLIT_SERVER_BASE_URL_PATH": "ops/fleet"}
    with dashboard_on(tmp_path / "fleet.yaml", environment=prefix, path="/ops/fleet") as url, tab(browser) as page:
        for path in ("/?", "/findings?search=severity%3Acritical&"):
            visit(page, f"{url}{path}snapshot={key}")
            page.get_by_role("button", name="Share").click()
            link = page.locator("[data-testid=stPopoverBody] .paste code")
            expect(link).to_have_text(f"{url}{path}snapshot={key[:10]}")
        visit(page, f"{url}/snapshots")
        before, after = (page.get_by_role("combobox", name=name) for name in ("Before", "After"))
        expect(before).to_have_value(re.compile(key[:10]))
        page.get_by_role("link", name="Changes since the last review").click()
        expect(page).to_have_title(re.compile("^Changes"))
        settle(page)

        expect(after).to_have_value("prod now")
        expect(before).to_have_value(re.compile(key[:10]))


def test_imported_files_open_as_a_fleet(page: Page, served: Served) -> None:
    visit(page, f"{served.url}/snapshots")
    answer = capture("llama").answers[SERVER_INFO]
    files = [{"name": f"chat-{n}.json", "mimeType": "application/json", "buffer": answer} for n in (1, 2)]
    page.locator("input[type=file]").set_input_files(files)  # type: ignore[arg-type]
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("Checking and saving 2 files …")).to_be_visible()

    expect(page.locator(".snapshot-banner")).to_contain_text(
        "imported", timeout=60_000
    )  # a process of its own reads it
    expect(page.locator(".asof")).to_contain_text("2 of 2")


def test_a_snapshot_is_renamed_and_deleted_after_confirmation(page: Page, served: Served, demo_fleet: Fleet) -> None:
    key = served.store.save(replace(demo_fleet, name="other"), "To be deleted", AT).id
    visit(page, f"{served.url}/snapshots")
    row = page.locator(".st-key-snapshots_list tr", has_text="To be deleted")
    row.get_by_role("link", name="Manage").click()
    page.get_by_label("Name").fill("Old")
    page.get_by_label("Name").press("Enter")
    page.get_by_role("button", name="Rename").click()
    expect(page.locator(".st-key-snapshots_list")).to_contain_text("Old")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.locator(".st-key-snapshots_list tr", has_text="Old").get_by_role("link", name="Manage").click()
    page.get_by_role("button", name="Delete …").click()
    page.get_by_label("Type its name to confirm").fill("Old")
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.locator(".st-key-snapshots_list")).not_to_contain_text("Old")
    assert served.store.beginning(key) == ()
    settle(page)
    assert "manage" not in page.url


def in_the_header(page: Page, width: int, *selectors: str) -> list[FloatRect]:
    """The boxes of elements of the header at a width of the window; none overlaps the next one or leaves the page.

    On a phone they are on two lines.
    """
    page.set_viewport_size({"width": width, "height": 1000})
    settle(page)
    boxes = [box for each in selectors if (box := page.locator(each).last.bounding_box()) is not None]

    assert len(boxes) == len(selectors)
    for left, right in pairwise(boxes):
        assert (
            left["x"] + left["width"] <= right["x"]
            or left["y"] > right["y"]
            or left["y"] + left["height"] <= right["y"]
        )
    assert boxes[-1]["x"] + boxes[-1]["width"] <= width
    return boxes


LINKS, LINE, SHARE, GEAR = "[data-testid=stTopNavLink]", ".asof", ".st-key-share button", ".st-key-gear button"


def test_the_header_of_changes_shows_both_sides_without_overlap(page: Page, served: Served, demo_fleet: Fleet) -> None:
    other = served.store.save(replace(demo_fleet, polled_at=AT - timedelta(days=9)), "Earlier", AT).id
    visit(page, f"{served.url}/changes?from={other}&to=live")
    in_the_header(page, 390, LINE, SHARE)
    for width in (1024, 1280):
        in_the_header(page, width, LINKS, LINE, SHARE)


@pytest.mark.parametrize("controls", [(SHARE,), (SHARE, GEAR)], ids=["frozen", "live"])
def test_the_header_has_room_for_all_pages_and_controls(page: Page, served: Served, controls: tuple[str, ...]) -> None:
    visit(page, served.url if GEAR in controls else f"{served.url}/?snapshot={served.key}")
    page.add_style_tag(content=':root { --fleet: "production-europe-west-4-inference" !important; }')
    for width in (1024, 1280, 1600):
        boxes = in_the_header(page, width, LINKS, LINE, *controls)
        assert all(box["y"] + box["height"] <= 46 for box in boxes)


@pytest.mark.parametrize("width", [390, 1024, 1240])
def test_with_a_pool_the_header_counts_findings(page: Page, frozen_url: str, width: int) -> None:
    visit(page, f"{frozen_url}/?pool=chat-70b")
    in_the_header(page, width, ".scope", ".search-everything", ".asof .found", ".asof .age", SHARE)


def test_a_header_without_room_cuts_its_counts_and_covers_nothing(page: Page, frozen_url: str) -> None:
    visit(page, frozen_url)
    page.locator(".asof .found").evaluate("found => found.append('1,000 '.repeat(20))")
    in_the_header(page, 390, ".search-everything", LINE, SHARE)


def test_the_menu_of_a_phone_lies_above_the_header(browser: Browser, frozen_url: str) -> None:
    with tab(browser, width=390, height=844) as page:
        visit(page, f"{frozen_url}/findings")
        page.get_by_test_id("stExpandSidebarButton").click()
        page.get_by_test_id("stSidebar").get_by_role("link", name="Overview").click(timeout=3_000)
        expect(page).to_have_title(re.compile("^Overview"))


@pytest.fixture
def accepting(tmp_path: Path) -> Iterator[str]:
    """A dashboard of a live fleet that saves acceptances."""
    file, fleet = tmp_path / "fleet.yaml", default_fleet(6)
    with in_thread(fleet) as server:
        addresses = [entry["targets"][0] for entry in targets(server.fleet, server.port)]
        file.write_text(yaml.safe_dump({"targets": addresses, "suppressions_file": "accepted.yaml"}))
        with dashboard_on(file) as url:
            yield url


def test_enter_saves_an_acceptance_and_its_undo_stays_in_view(accepting: str, page: Page) -> None:
    visit(page, f"{accepting}/findings")
    page.set_viewport_size({"width": 1024, "height": 400})
    page.locator(".findings .what a").first.click()
    page.get_by_text("Accept this finding", exact=True).click()
    page.get_by_label("Owner").fill("ann")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Enter owner and reason.")).to_be_visible()
    page.get_by_label("Reason").fill("canary")
    page.get_by_label("Reason").press("Enter")
    expect(page.get_by_text("by ann.")).to_be_in_viewport()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Accept this finding", exact=True)).to_be_in_viewport()


def test_a_toast_covers_no_control_of_a_dialog_and_ends_under_the_mouse(accepting: str, page: Page) -> None:
    dialog, toast = page.locator("section[role=dialog]"), page.get_by_test_id("stToast")
    for width in (1600, 390):
        page.set_viewport_size({"width": width, "height": 900})
        visit(page, accepting)
        page.locator(".entries .what > a[href*='cause=']").first.click()
        dialog.get_by_text("Accept", exact=False).first.click()
        page.get_by_label("Owner").fill("ann")
        page.get_by_label("Reason").fill("canary")
        page.get_by_role("button", name="Save", exact=True).click()
        toast.hover(force=True)
        dialog.get_by_label("Close").click(timeout=3_000)
        expect(dialog).to_have_count(0)
        toast.hover(force=True)
        expect(toast).to_have_count(0, timeout=8_000)
