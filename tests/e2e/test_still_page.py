"""A page with `?screenshot=1` does not change while the fleet does, so its pictures can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, expect

from dashboard.demo import default_fleet, in_thread, targets
from tests.browser import photograph, tab, visit
from tests.e2e.pictures import looks_like
from tests.serving import dashboard_on

pytestmark = [pytest.mark.browser, pytest.mark.long]

REPLICAS = 4
POLL_SECONDS = 1
MOVING = "() => document.getAnimations().filter(each => each.playState === 'running').length"


class Polled(NamedTuple):
    """A dashboard that polls, and the file that lists its targets."""

    url: str
    listed: Path
    entries: list[dict[str, object]]

    def list_targets(self, number: int) -> None:
        """List the first targets: the next poll has another fleet."""
        self.listed.write_text(json.dumps(self.entries[:number]))


@pytest.fixture(scope="module")
def polled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Polled]:
    tmp_path = tmp_path_factory.mktemp("polled")
    with in_thread(default_fleet(REPLICAS)) as server:
        entries = targets(server.fleet, server.port)
        listed, config = tmp_path / "targets.json", tmp_path / "fleet.yaml"
        listed.write_text(json.dumps(entries))
        options = {"file_sd": [{"files": [str(listed)]}], "poll": {"interval_seconds": POLL_SECONDS}}
        config.write_text(json.dumps({"name": "demo", **options}))  # JSON is YAML
        with dashboard_on(config) as url:
            yield Polled(url, listed, entries)


def test_a_still_page_looks_the_same_after_the_fleet_has_changed(browser: Browser, polled: Polled) -> None:
    """A page without the parameter updates to the new fleet."""
    with tab(browser) as still, tab(browser) as live:
        visit(still, f"{polled.url}/?screenshot=1")
        visit(live, polled.url)
        is_as_before = looks_like(photograph(still))
        expect(live.locator(".asof")).to_contain_text(f"{REPLICAS} of {REPLICAS} answered")
        polled.list_targets(REPLICAS - 1)
        expect(live.locator(".asof")).to_contain_text(f"{REPLICAS - 1} of {REPLICAS - 1} answered")

        assert is_as_before(photograph(still, is_as_before))


def test_a_still_page_sends_nothing_and_has_no_animation(browser: Browser, polled: Polled) -> None:
    """It sends nothing in the time in which another page checks for a newer fleet."""
    with tab(browser) as still, tab(browser) as live:
        said: list[str | bytes] = []

        def hear(frame: str | bytes) -> None:
            said.append(frame)

        still.on("websocket", lambda socket: socket.on("framesent", hear))
        visit(still, f"{polled.url}/?screenshot=1")
        before = len(said)
        assert before > 0
        with live.expect_websocket() as opened:
            visit(live, polled.url)
        opened.value.wait_for_event("framesent")

        assert len(said) == before
        assert still.evaluate(MOVING) == 0


def test_a_still_page_shows_the_data_time_and_its_links_keep_the_parameter(browser: Browser, polled: Polled) -> None:
    with tab(browser) as page:
        visit(page, f"{polled.url}/?screenshot=1")
        expect(page.locator(".asof .age")).to_have_text("0 s ago")
        page.get_by_role("link", name="Capacity", exact=True).first.click()
        expect(page).to_have_title(re.compile("^Capacity"))
        expect(page).to_have_url(re.compile("screenshot=1"))
