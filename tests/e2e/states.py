"""The table of screenshots: states of pages that differ in kind, with themes and widths. A new state is one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from playwright.sync_api import Page

from tests.browser import Theme
from tests.e2e.frozen_fleets import AGREED, BARE, DOWN, NOTHING, SEEN, STORY, UNIFORM, WAITING
from tests.e2e.frozen_store import BEFORE, LATEST
from tests.frozen import PORT

USUAL_WIDTH = 1600


class Look(NamedTuple):
    """Theme and width (in pixels) of a picture."""

    theme: Theme
    width: int = USUAL_WIDTH

    @property
    def suffix(self) -> str:
        """Return the last part of the picture's name."""
        return self.theme if self.width == USUAL_WIDTH else f"{self.theme}-{self.width}"


ONE = (Look("light"),)
MAIN = (*ONE, Look("dark"), Look("light", 1024))  # the main state of a page, and the most important empty states
FIRST = (*MAIN, Look("light", 390))  # also on a phone


class State(NamedTuple):
    """One state of one page. `do` runs when the page is drawn; `still` stops its clock."""

    name: str
    path: str
    looks: tuple[Look, ...] = ONE
    fleet: str = STORY
    do: Callable[[Page], None] | None = None
    still: bool = True

    def picture(self, look: Look) -> str:
        """Return the name of the picture of one look."""
        return f"{self.name}-{look.suffix}"


def at(page: str, **choices: str) -> str:
    """Return the path of a page with choices in its URL."""
    return f"/{page}?{urlencode(choices)}" if choices else f"/{page}"


def with_ids(path: str, ids: Mapping[str, str]) -> str:
    """Return a path with the ids of snapshots in place of their placeholders."""
    for name, key in ids.items():
        path = path.replace(name, key)
    return path


def _simulated(host: int) -> str:
    """Return the id of a simulated replica by the last part of its IP address."""
    return f"http://127.1.0.{host}:{PORT}"


def _unfold(page: Page) -> None:
    page.locator("[data-testid=stExpander] summary").last.click()


def _choose_raw_answer(page: Page) -> None:
    answers = page.get_by_role("combobox", name=re.compile("Raw answer"))
    answers.scroll_into_view_if_needed()  # the list of options closes when the page scrolls
    answers.click()
    page.get_by_role("option", name="/version").click()


def _share(page: Page) -> None:
    page.get_by_role("button", name="Share").click()
    page.get_by_role("button", name="Save snapshot").wait_for()


def _search(page: Page) -> None:
    page.locator("dialog.find").wait_for(state="attached")
    page.keyboard.press("Control+k")
    page.keyboard.type("block")
    page.locator("dialog.find").get_by_text("cache_config.block_size", exact=True).wait_for()


NO_MATCH = "no such name"
CHAT, GEMMA, QWEN, DECODE, PREFILL = "chat-70b", "gemma-27b", "qwen3-8b", "deepseek-v3/decode", "deepseek-v3/prefill"
OTHER_HASH, STOCK, PARTIAL, GONE = (_simulated(host) for host in (11, 19, 38, 25))
FINDING = "5bf5975562"  # RT-05 on chat-70b; the id stays while the finding does

STATES = (
    State("overview", "/", FIRST),
    State("overview-first-visit", "/", still=False),  # with the guide
    State("overview-share", "/", do=_share),
    State("overview-snapshot", at("", snapshot=LATEST)),
    State("overview-no-such-snapshot", at("", snapshot="0000000000")),
    State("overview-nothing-configured", "/", MAIN, NOTHING),
    State("overview-waiting", "/", fleet=WAITING),
    State("overview-down", "/", MAIN, DOWN),
    State("overview-uniform", "/", fleet=UNIFORM),
    State("overview-since", "/", MAIN, SEEN),
    State("findings", at("findings")),
    State("findings-new", at("findings", search="new:24h", sort="-since"), MAIN, SEEN),
    State("findings-open", at("findings", finding=FINDING), MAIN),
    State("findings-gone", at("findings", finding="0000000000")),
    State("findings-none-match", at("findings", search=NO_MATCH)),
    State("findings-skipped", at("findings", rules="Skipped", pool=QWEN)),
    State("findings-suppressed", at("findings", rules="Suppressed", pool=GEMMA)),
    State("findings-uniform", at("findings"), fleet=UNIFORM),
    State("compare", at("compare", pool=CHAT), MAIN),
    State("compare-since", at("compare", pool=CHAT), MAIN, SEEN),
    State("compare-chosen", at("compare", replicas=f"{OTHER_HASH},{STOCK}")),
    State("compare-replicas", at("compare", pool=GEMMA, columns="Replicas")),
    State("compare-all", at("compare", pool=CHAT, show="All settings", section="cache_config")),
    State("compare-baseline", at("compare", pool=CHAT, reference="baseline"), fleet=AGREED),
    State("compare-value", at("compare", pool=CHAT, path="cache_config.block_size")),
    State("compare-cohort", at("compare", pool=CHAT, cohort="B")),
    State("compare-cause", at("compare", pool=CHAT, cause="cache_config.block_size")),
    State("compare-equal", at("compare", pool=PREFILL)),
    State("compare-unread", at("compare"), fleet=BARE),
    State("compare-none-match", at("compare", pool=CHAT, search=NO_MATCH)),
    State("compare-no-such-pool", at("compare", pool="unknown")),
    State("capacity", at("capacity"), MAIN),
    State("capacity-gib", at("capacity", pool=DECODE, measure="GiB")),
    State("capacity-requests", at("capacity", pool=DECODE, measure="requests")),
    State("capacity-misread", at("capacity", pool=GEMMA, length="long")),
    State("capacity-per-gpu", at("capacity", pool=DECODE, per="GPU")),
    State("capacity-per-pool", at("capacity", per="pool")),
    State("capacity-unread", at("capacity"), fleet=BARE),
    State("replicas", at("replicas"), MAIN),
    State("replicas-since", at("replicas", sort="-since"), fleet=SEEN),
    State("settings", at("settings"), MAIN),
    State("status", at("status"), MAIN),
    State("search", "/", MAIN, do=_search),
    State("setting", at("settings", path="cache_config.block_size"), MAIN),
    State("replicas-none-match", at("replicas", search=NO_MATCH)),
    State("replica", at("replica", replica=OTHER_HASH), MAIN),
    State("replica-differs", at("replica", replica=OTHER_HASH, show="true")),
    State("replica-engines", at("replica", replica=OTHER_HASH, tab="Engines and devices")),
    State("replica-identity", at("replica", replica=OTHER_HASH, tab="Identity")),
    State("replica-raw-answer", at("replica", replica=OTHER_HASH, tab="Probes"), do=_choose_raw_answer),
    State("replica-offer", at("replica", replica=STOCK), do=_unfold),
    State("replica-partial", at("replica", replica=PARTIAL)),
    State("replica-down", at("replica", replica=GONE, tab="Probes")),
    State("replica-unknown", at("replica", replica="http://unknown:1")),
    State("review", at("review"), MAIN),
    State("review-new", at("review", new="24h", sort="-since"), fleet=SEEN),
    State("review-meeting", at("review", meeting="1", section="findings")),
    State("review-snapshot", at("review", snapshot=LATEST)),
    State("review-uniform", at("review"), fleet=UNIFORM),
    State("timeline", at("timeline"), MAIN, SEEN),
    State("timeline-no-history", at("timeline")),
    State("snapshots", at("snapshots"), MAIN),
    State("snapshots-none", at("snapshots"), fleet=NOTHING),
    State("changes", at("changes", **{"from": BEFORE, "to": LATEST}), MAIN),
    State("changes-none", at("changes", **{"from": LATEST, "to": "live"})),
    State("changes-not-chosen", at("changes")),
)

PICTURES = {state.picture(look): (state, look) for state in STATES for look in state.looks}

# Tests of every page open these; a dialog or a note field adds controls.
PAGES = (
    "/",
    at("findings"),
    at("findings", finding=FINDING),
    at("compare", pool=CHAT),
    at("capacity"),
    at("replicas"),
    at("settings"),
    at("status"),
    at("help", about="compare"),
    at("settings", path="cache_config.block_size"),
    at("replica", replica=OTHER_HASH),
    at("review"),
    at("timeline"),
    at("snapshots"),
    at("changes", **{"from": BEFORE, "to": LATEST}),
)
WITH_DIALOGS_OR_NOTES = (
    at("compare", pool=CHAT, path="cache_config.block_size"),
    at("compare", pool=CHAT, cause="cache_config.block_size"),
    at("snapshots", manage=LATEST),
    at("review", snapshot=LATEST),
    at("review", snapshot=LATEST, meeting="1", section="findings"),
)
