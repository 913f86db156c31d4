"""A real Chromium for tests: started once, the same on every machine, and pages that have come to rest."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from playwright.sync_api import Error, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MILLISECONDS = 30_000

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

# Streamlit's own marks of a page that is drawn; two equal screenshots after that.
AT_REST = """() => {
  const app = document.querySelector('[data-testid=stApp]');
  return app && app.dataset.testConnectionState === 'CONNECTED' && app.dataset.testScriptState === 'notRunning'
    && !document.querySelector('[data-testid=stSkeleton],[data-testid=stAppSkeleton],[data-testid=stSpinner]')
    && !document.querySelector('[data-stale=true]')
    && [...document.querySelectorAll('[data-testid=stPlotlyChart]')]
         .every(chart => chart.querySelector('.js-plotly-plot .main-svg'))
    && document.fonts.status === 'loaded';
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium: an installed one, else Playwright's own."""
    installed = next((path for name in NAMES if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(
    browser: Browser, *, width: int = 1600, height: int = 1000, theme: Literal["light", "dark"] = "light"
) -> Iterator[Page]:
    """Open an empty page of a given size and theme, in English and UTC, with nothing moving."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=1,
        locale="en-US",
        timezone_id="UTC",
        color_scheme=theme,
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    try:
        yield context.new_page()
    finally:
        context.close()


def visit(page: Page, url: str) -> None:
    """Go to an address and wait until the page has come to rest."""
    page.goto(url)
    settle(page)


def settle(page: Page) -> None:
    """Wait until the page is drawn and two screenshots in a row are equal."""
    page.wait_for_function(AT_REST)
    before = b""
    for _ in range(PATIENCE_MILLISECONDS // 150):
        image = picture(page)
        if image == before:
            return
        before = image
        page.wait_for_timeout(150)
    raise Error("the page does not come to rest")


def picture(page: Page) -> bytes:
    """Take a screenshot of what is seen, as PNG."""
    return page.screenshot(animations="disabled", caret="hide")


def grow(page: Page) -> None:
    """Make the window as high as the page, so that one picture shows all of it; Streamlit scrolls inside."""
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    size = page.viewport_size
    assert size is not None
    page.set_viewport_size({"width": size["width"], "height": max(int(height), size["height"])})
    settle(page)
