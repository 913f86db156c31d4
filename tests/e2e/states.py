"""The table of what is looked at: every page in every state, in which themes and widths. A new state is a line here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlencode

from playwright.sync_api import Page

from tests.browser import Theme
from tests.e2e.frozen_fleets import AGREED, BARE, DOWN, NOTHING, STORY, UNIFORM, UNNAMED, WAITING
from tests.e2e.frozen_store import BEFORE, LATEST
from tests.frozen import PORT

USUAL_WIDTH = 1600


class Look(NamedTuple):
    """How a page is looked at; the width is in pixels."""

    theme: Theme
    width: int = USUAL_WIDTH

    @property
    def suffix(self) -> str:
        """Return the end of the picture's name."""
        return self.theme if self.width == USUAL_WIDTH else f"{self.theme}-{self.width}"


BOTH = (Look("light"), Look("dark"))
KEY = (*BOTH, Look("light", 1024))
FIRST = (*KEY, Look("light", 390), Look("dark", 390))  # a phone, too


class State(NamedTuple):
    """One state of one page. `do` is what a reader does after the page has come to rest; `still` stops its clock."""

    name: str
    path: str
    looks: tuple[Look, ...] = BOTH
    fleet: str = STORY
    do: Callable[[Page], None] | None = None
    still: bool = True

    @property
    def pictures(self) -> list[str]:
        """Return the names of its pictures."""
        return [self.picture(look) for look in self.looks]

    def picture(self, look: Look) -> str:
        """Return the name of the picture of one look."""
        return f"{self.name}-{look.suffix}"


def at(page: str, **choices: str) -> str:
    """Write the address of a page with choices in it."""
    return f"/{page}?{urlencode(choices)}" if choices else f"/{page}"


def _simulated(host: int) -> str:
    """Return the id of a replica of the simulated fleet by the end of its address, in the order of its story."""
    return f"http://127.1.0.{host}:{PORT}"


def _unfold(page: Page) -> None:
    page.locator("[data-testid=stExpander] summary").last.click()


def _choose_raw_answer(page: Page) -> None:
    page.get_by_role("combobox", name=re.compile("Raw answer")).click()
    page.get_by_role("option", name="/version").click()


def _share(page: Page) -> None:
    page.get_by_role("button", name="Share").click()
    page.get_by_role("button", name="Freeze").wait_for()


NO_MATCH = "nothing is called so"
CHAT, GEMMA, QWEN, DECODE, PREFILL = "chat-70b", "gemma-27b", "qwen3-8b", "deepseek-v3/decode", "deepseek-v3/prefill"
HASHED_OTHERWISE, STOCK, PARTIAL, GONE = (_simulated(host) for host in (11, 19, 38, 25))
FINDING = "5bf5975562"  # its id says what is wrong, and stays while that does

STATES = (
    State("overview", "/", FIRST),
    State("overview-first-visit", "/", KEY, still=False),  # the guide is there
    State("overview-meeting", at("", meeting="1")),
    State("overview-share", "/", do=_share),
    State("overview-snapshot", at("", snapshot=LATEST), KEY),
    State("overview-no-such-snapshot", at("", snapshot="0000000000")),
    State("overview-nothing-configured", "/", FIRST, NOTHING),
    State("overview-waiting", "/", BOTH, WAITING),
    State("overview-down", "/", KEY, DOWN),
    State("overview-unnamed", "/", BOTH, UNNAMED),
    State("overview-uniform", "/", KEY, UNIFORM),
    State("findings", at("findings"), KEY),
    State("findings-open", at("findings", finding=FINDING), KEY),
    State("findings-gone", at("findings", finding="0000000000")),
    State("findings-filtered", at("findings", severity="warning", pool=CHAT)),
    State("findings-none-match", at("findings", search=NO_MATCH)),
    State("findings-skipped", at("findings", rules="Skipped", pool=QWEN)),
    State("findings-not-applicable", at("findings", rules="Not applicable", pool=GEMMA)),
    State("findings-suppressed", at("findings", rules="Suppressed", pool=GEMMA)),
    State("findings-ignored", at("findings", rules="Ignored", pool=GEMMA)),
    State("findings-uniform", at("findings"), fleet=UNIFORM),
    State("findings-down", at("findings"), fleet=DOWN),
    State("findings-unnamed", at("findings"), fleet=UNNAMED),
    State("compare", at("compare", pool=CHAT), KEY),
    State("compare-replicas", at("compare", pool=GEMMA, columns="Replicas"), KEY),
    State("compare-all", at("compare", pool=CHAT, show="All settings", section="cache_config")),
    State("compare-filtered", at("compare", pool=CHAT, search="block")),
    State("compare-reference", at("compare", pool=CHAT, reference="B")),
    State("compare-baseline", at("compare", pool=CHAT, reference="baseline"), KEY, AGREED),
    State("compare-value", at("compare", pool=CHAT, path="cache_config.block_size"), KEY),
    State("compare-cohort", at("compare", pool=CHAT, cohort="B")),
    State("compare-equal", at("compare", pool=PREFILL)),
    State("compare-uniform", at("compare"), fleet=UNIFORM),
    State("compare-unread", at("compare"), fleet=BARE),
    State("compare-none-match", at("compare", pool=CHAT, search=NO_MATCH)),
    State("compare-no-such-pool", at("compare", pool="nobody")),
    State("compare-converge", at("compare", pool=CHAT, converge="A"), KEY),
    State("compare-snapshot", at("compare", pool=CHAT, snapshot=BEFORE)),
    State("compare-unnamed", at("compare"), fleet=UNNAMED),
    State("capacity", at("capacity"), KEY),
    State("capacity-one-pool", at("capacity", pool=CHAT)),
    State("capacity-gib", at("capacity", pool=DECODE, measure="GiB")),
    State("capacity-requests", at("capacity", pool=DECODE, measure="requests")),
    State("capacity-at-length", at("capacity", pool=GEMMA, length="32k")),
    State("capacity-misread", at("capacity", pool=GEMMA, length="long")),
    State("capacity-per-gpu", at("capacity", pool=DECODE, per="GPU")),
    State("capacity-per-pool", at("capacity", per="pool")),
    State("capacity-uniform", at("capacity"), fleet=UNIFORM),
    State("capacity-unread", at("capacity"), fleet=BARE),
    State("capacity-unnamed", at("capacity"), fleet=UNNAMED),
    State("replicas", at("replicas"), KEY),
    State("replicas-filtered", at("replicas", state="down")),
    State("replicas-none-match", at("replicas", search=NO_MATCH)),
    State("replicas-down", at("replicas"), fleet=DOWN),
    State("replica", at("replica", replica=HASHED_OTHERWISE), KEY),
    State("replica-differs", at("replica", replica=HASHED_OTHERWISE, show="true")),
    State("replica-engines", at("replica", replica=HASHED_OTHERWISE, tab="Engines and devices")),
    State("replica-identity", at("replica", replica=HASHED_OTHERWISE, tab="Identity")),
    State("replica-probes", at("replica", replica=HASHED_OTHERWISE, tab="Probes")),
    State("replica-raw-answer", at("replica", replica=HASHED_OTHERWISE, tab="Probes"), do=_choose_raw_answer),
    State("replica-offer", at("replica", replica=STOCK), do=_unfold),
    State("replica-partial", at("replica", replica=PARTIAL)),
    State("replica-down", at("replica", replica=GONE, tab="Probes")),
    State("replica-unknown", at("replica", replica="http://nobody:1")),
    State("replica-unnamed", at("replica")),
    State("review", at("review"), KEY),
    State("review-meeting", at("review", meeting="1")),
    State("review-snapshot", at("review", snapshot=LATEST)),
    State("review-first", at("review", snapshot=BEFORE)),
    State("review-uniform", at("review"), fleet=UNIFORM),
    State("review-down", at("review"), fleet=DOWN),
    State("snapshots", at("snapshots"), KEY),
    State("snapshots-none", at("snapshots"), fleet=NOTHING),
    State("changes", at("changes", **{"from": BEFORE, "to": LATEST}), KEY),
    State("changes-none", at("changes", **{"from": LATEST, "to": "live"})),
    State("changes-not-chosen", at("changes")),
)
