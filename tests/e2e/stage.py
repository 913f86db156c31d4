"""Take pictures of states, with one tab for each theme."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import httpx2
from playwright.sync_api import Browser, Page

from tests.browser import HEIGHT, Theme, at_rest, grow, grow_late, tab
from tests.e2e.states import Look, State

STILL = "screenshot=1"
PATIENCE_SECONDS = 60.0  # a fleet is polled when it is shown for the first time


class Stage:
    """Shows states in a browser. Tabs keep the loaded program, so a page takes half a second."""

    def __init__(self, browser: Browser, url: str, stack: ExitStack) -> None:
        """Tabs are opened on demand; `stack` closes them."""
        self._browser, self._url, self._stack = browser, url, stack
        self._fleet: str | None = None
        self._ids: dict[str, str] = {}
        self._tabs: dict[Theme, Page] = {}
        self._seen: dict[Theme, State] = {}

    def take(self, state: State, look: Look, is_expected: Callable[[bytes], bool] | None = None) -> bytes:
        """Show a state and return a PNG of the whole page."""
        self.show(state.fleet)
        page = self._tab(look.theme)
        page.set_viewport_size({"width": look.width, "height": HEIGHT})
        if self._seen.get(look.theme) != state:  # else only the width changes
            self._bring_about(state, page)
            self._seen[look.theme] = state
        return grow(page) if is_expected is None else grow_late(page, is_expected)

    def _bring_about(self, state: State, page: Page) -> None:
        page.mouse.move(0, 0)  # hovered elements look different
        page.goto(self._url + self._address(state))
        at_rest(page)
        if state.do:
            state.do(page)
            page.mouse.move(0, 0)

    def show(self, fleet: str) -> None:
        """Switch the server to a fleet."""
        if fleet != self._fleet:
            shown = httpx2.get(f"{self._url}/frozen/{fleet}", timeout=PATIENCE_SECONDS, trust_env=False)
            shown.raise_for_status()
            self._fleet, self._ids = fleet, shown.json()

    def _address(self, state: State) -> str:
        """Return the path of a state, with the snapshot ids of this run."""
        path = state.path
        for name, key in self._ids.items():
            path = path.replace(name, key)
        return f"{path}{'&' if '?' in path else '?'}{STILL}" if state.still else path

    def _tab(self, theme: Theme) -> Page:
        if theme not in self._tabs:
            self._tabs[theme] = self._stack.enter_context(tab(self._browser, theme=theme))
        return self._tabs[theme]
