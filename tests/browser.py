"""Chromium for tests: the same pixels on every machine, and pages that are completely drawn."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import urljoin
from weakref import WeakKeyDictionary

from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

Theme: TypeAlias = Literal["light", "dark"]
T = TypeVar("T")

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MILLISECONDS = 30_000
expect.set_options(timeout=PATIENCE_MILLISECONDS)
MOMENT_MILLISECONDS = 150  # between two looks at a page; equal looks mean that it is drawn
LATE_LOOKS, LATE_MILLISECONDS = 15, 1_000
HEIGHT = 1000  # pixels of a window before it grows to the height of its page
MAX_HEIGHT, MAX_GROWTHS = 8_000, 3  # pixels; a page may need more height after it got more

# The same pixels on every machine: no colour profile, no hinting, no subpixel text.
ARGUMENTS = (
    "--no-sandbox",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-gpu",
)

# Streamlit's own signs of a page that is drawn, and that our script for links has run: it marks the entry of the page.
AT_REST = """() => {
  const app = document.querySelector('[data-testid=stApp]');
  return app && app.dataset.testConnectionState === 'CONNECTED' && app.dataset.testScriptState === 'notRunning'
    && !document.querySelector('[data-testid=stSkeleton],[data-testid=stAppSkeleton],[data-testid=stSpinner]')
    && !document.querySelector('[data-stale=true]')
    && [...document.querySelectorAll('[data-testid=stPlotlyChart]')]
         .every(chart => chart.querySelector('.js-plotly-plot .main-svg'))
    && (document.fleetLinksHandled || !document.querySelector('[data-testid=stTopNavLink]'))
    && document.fonts.status === 'loaded';
}"""


# Size of the content and scroll positions.
CONTENT = """() => [document.body.innerHTML.length,
  ...[...document.querySelectorAll('[data-testid=stMain],[data-testid=stColumn]')].map(part => part.scrollTop)]"""

# Height of the page, and of a dialog above it.
WHOLE_HEIGHT = """() => Math.max(...[...document.querySelectorAll('[data-testid=stMain],[data-testid=stDialog]')]
  .map(part => part.scrollHeight))"""


# The layout shift of a page: content that moves while nobody acts. 0.1 and more is poor (web.dev/cls).
SHIFTS = """new PerformanceObserver((list) => {
  for (const each of list.getEntries()) if (!each.hadRecentInput) window.shifted = (window.shifted ?? 0) + each.value;
}).observe({ type: "layout-shift", buffered: true });"""
MAX_SHIFT = 0.1


HEALTH = "/_stcore/health"  # an idle page of the same origin
POLICY = "Content Security Policy"  # in messages of Chromium's console
_VIOLATIONS: WeakKeyDictionary[Page, list[str]] = WeakKeyDictionary()
_IDLE: WeakKeyDictionary[Browser, dict[Theme, list[Page]]] = WeakKeyDictionary()


@contextmanager
def chromium(*arguments: str) -> Iterator[Browser]:
    """Start the installed Chromium, else the one of Playwright."""
    installed = next((path for name in NAMES if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed, args=[*ARGUMENTS, *arguments])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(browser: Browser, *, width: int = 1600, height: int = HEIGHT, theme: Theme = "light") -> Iterator[Page]:
    """Open an empty page of a given size and theme, in English and UTC, without animations.

    Fails on violations of the Content-Security-Policy. Tabs are reused, because loading the program takes
    longer than most tests; cookies and storage are cleared.
    """
    idle = _IDLE.setdefault(browser, {}).setdefault(theme, [])
    page = idle.pop() if idle else _new_page(browser, theme)
    page.set_viewport_size({"width": width, "height": height})
    try:
        yield page
        assert _VIOLATIONS[page] == []
    finally:
        _VIOLATIONS[page].clear()
        if _is_cleared(page, theme):
            idle.append(page)
        else:
            page.context.close()


def _new_page(browser: Browser, theme: Theme) -> Page:
    context = browser.new_context(
        device_scale_factor=1, locale="en-US", timezone_id="UTC", color_scheme=theme, reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    context.add_init_script(SHIFTS)
    page = context.new_page()
    seen = _VIOLATIONS[page] = []
    page.on("console", lambda message: seen.append(message.text) if POLICY in message.text else None)
    return page


def _is_cleared(page: Page, theme: Theme) -> bool:
    """Clear cookies, storage and media of a tab and leave the program. Returns False if the server has ended."""
    if not page.url.startswith("http"):
        return False
    try:
        page.context.clear_cookies()
        page.emulate_media(media="null", color_scheme=theme)
        page.mouse.move(0, 0)
        page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        answer = page.goto(urljoin(page.url, HEALTH))
    except Error:  # its server has ended
        return False
    return answer is not None and answer.ok


def visit(page: Page, url: str) -> None:
    """Open a URL and wait until the page is drawn and does not change."""
    page.goto(url)
    settle(page)


def at_rest(page: Page) -> None:
    """Wait until Streamlit marks the page as drawn."""
    page.wait_for_function(AT_REST)


def url_has(page: Page, text: str) -> None:
    """Wait until the URL of the page contains a text."""
    expect(page).to_have_url(re.compile(re.escape(text)))


def settle(page: Page) -> None:
    """Wait until the page is drawn and neither changes nor scrolls."""
    _wait_for_equal_looks(page, lambda: page.evaluate(CONTENT))


def switch_theme(page: Page, theme: Theme) -> None:
    """Switch the theme of a page. Charts have the theme of the time at which the page was opened."""
    page.emulate_media(color_scheme=theme)
    if page.locator("[data-testid=stPlotlyChart]").count():
        page.reload()
    settle(page)


def photograph(page: Page, is_expected: Callable[[bytes], bool] | None = None) -> bytes:
    """Return a picture that is as expected, or else equals the picture before it."""
    return _wait_for_equal_looks(page, lambda: page.screenshot(animations="disabled", caret="hide"), is_expected)


def _wait_for_equal_looks(page: Page, look: Callable[[], T], is_enough: Callable[[T], bool] | None = None) -> T:
    """Look at a drawn page until two looks in a row are equal, or one is enough; return the last."""
    before = None
    for _ in range(PATIENCE_MILLISECONDS // MOMENT_MILLISECONDS):
        at_rest(page)
        now = look()
        if now == before or (is_enough and is_enough(now)):
            return now
        before = now
        page.wait_for_timeout(MOMENT_MILLISECONDS)
    raise Error("the page keeps changing")


def grow(page: Page, is_expected: Callable[[bytes], bool] | None = None) -> bytes:
    """Make the window as high as the page and return a picture of it.

    Streamlit scrolls inside the window. Some elements grow with the window, so the height is read again, unless the
    picture is as expected.
    """
    taken = b""
    for _ in range(MAX_GROWTHS):
        size = page.viewport_size
        assert size is not None
        height = min(int(page.evaluate(WHOLE_HEIGHT)), MAX_HEIGHT)
        if taken and height <= size["height"]:
            break
        page.set_viewport_size({"width": size["width"], "height": max(height, size["height"])})
        at_rest(page)
        taken = photograph(page, is_expected)
        if is_expected and is_expected(taken):
            break
    return taken


def grow_late(page: Page, is_expected: Callable[[bytes], bool]) -> bytes:
    """Grow, and retry while the picture differs from the expected one: a busy machine draws late."""
    taken = grow(page, is_expected)
    for _ in range(LATE_LOOKS):
        if is_expected(taken):
            break
        page.wait_for_timeout(LATE_MILLISECONDS)
        taken = grow(page, is_expected)
    return taken
