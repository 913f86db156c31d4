"""A real Chromium for tests: started once, the same on every machine, and pages that have come to rest."""

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
MOMENT_MILLISECONDS = 150  # in which nothing changes on a page that has come to rest
LATE_LOOKS, LATE_MILLISECONDS = 3, 1_000
HEIGHT = 1000  # pixels of a window, until it grows with its page
TALLEST, MOST_GROWTHS = 8_000, 3  # pixels; how often the page may ask for more once it has more

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
)

# Streamlit's own marks of a page that is drawn.
AT_REST = """() => {
  const app = document.querySelector('[data-testid=stApp]');
  return app && app.dataset.testConnectionState === 'CONNECTED' && app.dataset.testScriptState === 'notRunning'
    && !document.querySelector('[data-testid=stSkeleton],[data-testid=stAppSkeleton],[data-testid=stSpinner]')
    && !document.querySelector('[data-stale=true]')
    && [...document.querySelectorAll('[data-testid=stPlotlyChart]')]
         .every(chart => chart.querySelector('.js-plotly-plot .main-svg'))
    && document.fonts.status === 'loaded';
}"""


# How much there is, and how far it is scrolled.
CONTENT = """() => [document.body.innerHTML.length,
  ...[...document.querySelectorAll('[data-testid=stMain],[data-testid=stColumn]')].map(part => part.scrollTop)]"""

# Of the page, and of a dialog above it.
WHOLE_HEIGHT = """() => Math.max(...[...document.querySelectorAll('[data-testid=stMain],[data-testid=stDialog]')]
  .map(part => part.scrollHeight))"""

# What sticks while the page scrolls is a layer of its own; at half a pixel it is drawn now on this line, now on that.
# In a window as high as the page nothing scrolls.
NOTHING_STICKS = """() => {
  for (const part of document.querySelectorAll('[data-testid=stMain] *')) {
    if (getComputedStyle(part).position === 'sticky') part.style.position = 'static';
  }
}"""


HEALTH = "/_stcore/health"  # of the server that a tab has open: a page of the same site, on which nothing happens
POLICY = "Content Security Policy"  # as Chromium's console names it
_VIOLATIONS: WeakKeyDictionary[Page, list[str]] = WeakKeyDictionary()
_IDLE: WeakKeyDictionary[Browser, dict[Theme, list[Page]]] = WeakKeyDictionary()


@contextmanager
def chromium(*arguments: str) -> Iterator[Browser]:
    """Start Chromium: an installed one, else Playwright's own."""
    installed = next((path for name in NAMES if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed, args=[*ARGUMENTS, *arguments])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(browser: Browser, *, width: int = 1600, height: int = HEIGHT, theme: Theme = "light") -> Iterator[Page]:
    """Open an empty page of a given size and theme, in English and UTC, with nothing moving.

    Nothing on it may violate the server's Content-Security-Policy.
    Tabs are used again: what one has loaded of the program takes another longer than most tests. Nothing else is kept.
    """
    idle = _IDLE.setdefault(browser, {}).setdefault(theme, [])
    page = idle.pop() if idle else _new_page(browser, theme)
    page.set_viewport_size({"width": width, "height": height})
    try:
        yield page
        assert _VIOLATIONS[page] == []
    finally:
        _VIOLATIONS[page].clear()
        if _is_cleared(page):
            idle.append(page)
        else:
            page.context.close()


def _new_page(browser: Browser, theme: Theme) -> Page:
    context = browser.new_context(
        device_scale_factor=1, locale="en-US", timezone_id="UTC", color_scheme=theme, reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    page = context.new_page()
    seen = _VIOLATIONS[page] = []
    page.on("console", lambda message: seen.append(message.text) if POLICY in message.text else None)
    return page


def _is_cleared(page: Page) -> bool:
    """Make a tab forget what it kept, and leave the program; tell whether that could be done."""
    if not page.url.startswith("http"):
        return False
    try:
        page.context.clear_cookies()
        page.emulate_media(media="null")
        page.mouse.move(0, 0)
        page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        answer = page.goto(urljoin(page.url, HEALTH))
    except Error:  # its server has ended
        return False
    return answer is not None and answer.ok


def visit(page: Page, url: str) -> None:
    """Go to an address and wait until the page has come to rest."""
    page.goto(url)
    settle(page)


def at_rest(page: Page) -> None:
    """Wait until Streamlit says that the page is drawn; its last pixels may still be on their way."""
    page.wait_for_function(AT_REST)


def url_has(page: Page, text: str) -> None:
    """Wait until the address of the page holds a text."""
    expect(page).to_have_url(re.compile(re.escape(text)))


def _never(_seen: object) -> bool:
    """Stand in for what one would know a picture by."""
    return False


def settle(page: Page) -> None:
    """Wait until the page is drawn and for a moment neither changes nor scrolls."""
    _seen_twice(page, lambda: page.evaluate(CONTENT))


def photograph(page: Page, is_expected: Callable[[bytes], bool] = _never) -> bytes:
    """Wait until the page is drawn and looks as expected, or two pictures in a row are equal; return the last."""
    return _seen_twice(page, lambda: picture(page), is_expected)


def _seen_twice(page: Page, look: Callable[[], T], is_enough: Callable[[T], bool] = _never) -> T:
    """Look at a page that is drawn until twice in a row the same is seen, or what is enough; return that."""
    before = None
    for _ in range(PATIENCE_MILLISECONDS // MOMENT_MILLISECONDS):
        at_rest(page)
        now = look()
        if now == before or is_enough(now):
            return now
        before = now
        page.wait_for_timeout(MOMENT_MILLISECONDS)
    raise Error("the page does not come to rest")


def picture(page: Page) -> bytes:
    """Take a screenshot of what is seen, as PNG."""
    return page.screenshot(animations="disabled", caret="hide")


def grow(page: Page, is_expected: Callable[[bytes], bool] = _never) -> bytes:
    """Make the window as high as the page, so that one picture shows all of it; return that picture.

    Streamlit scrolls inside the window. What fills a part of the window grows with it: hence a second look, unless the
    first picture looks as expected.
    """
    taken = b""
    for _ in range(MOST_GROWTHS):
        size = page.viewport_size
        assert size is not None
        height = min(int(page.evaluate(WHOLE_HEIGHT)), TALLEST)
        if taken and height <= size["height"]:
            break
        page.set_viewport_size({"width": size["width"], "height": max(height, size["height"])})
        at_rest(page)
        page.evaluate(NOTHING_STICKS)
        taken = photograph(page, is_expected)
        if is_expected(taken):
            break
    return taken


def grow_late(page: Page, is_expected: Callable[[bytes], bool]) -> bytes:
    """Grow, and where the page looks otherwise than expected look again for a while: a busy machine draws late."""
    taken = grow(page, is_expected)
    for _ in range(LATE_LOOKS):
        if is_expected(taken):
            break
        page.wait_for_timeout(LATE_MILLISECONDS)
        taken = grow(page, is_expected)
    return taken
