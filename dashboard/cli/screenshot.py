"""The command `screenshot`: a page as a picture."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import typer

from dashboard.cli.terminal import FAILED, fail, say, token_of, wrong

if TYPE_CHECKING:  # an extra
    from playwright.sync_api import Page

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
INSTALL = "pip install -r requirements-screenshot.txt (the extra screenshot), then playwright install chromium"
READY = "body[data-ready=true]"  # the dashboard sets it once the page is drawn
MAX_HEIGHT = 20_000  # pixels
NO_ROLE = frozenset({401, 403})
# Pages scroll inside the window.
WHOLE_HEIGHT = "() => document.querySelector('[data-testid=stMain]')?.scrollHeight ?? 0"


def screenshot(
    url: Annotated[str, typer.Argument(metavar="URL", help="The page. screenshot=1 is added: nothing moves.")],
    file: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.png", help="Output file; an existing one is overwritten.")
    ],
    width: Annotated[int, typer.Option(help="Width of the window in pixels.", min=300, max=4000)] = 1600,
    height: Annotated[int, typer.Option(help="Height of the window in pixels.", min=300, max=4000)] = 1000,
    theme: Annotated[Literal["light", "dark"], typer.Option(help="Theme of the page.")] = "light",
    token_env: Annotated[
        str | None, typer.Option("--token-env", metavar="NAME", help="The variable with a token of the dashboard.")
    ] = None,
    timeout: Annotated[int, typer.Option(help="Seconds until the page must be drawn.", min=1, max=600)] = 60,
    *,
    full_page: Annotated[bool, typer.Option("--full-page", help="As high as the content of the page.")] = False,
) -> None:
    """Save a picture of a page of a running dashboard, for tests of your own fleet.

    Uses Playwright, and the installed Chromium if there is one. With a snapshot in the URL the picture is the same at
    each run of one Chromium version.

    Exit code 1 where the page cannot be drawn, 2 for wrong usage.
    """
    if not url.startswith(("http://", "https://")):
        wrong(f"{url}: expected a URL of a running dashboard, such as http://localhost:8501/compare")
    token = token_of(token_env) if token_env else ""
    if not file.parent.is_dir():
        wrong(f"-o {file}: no such folder")
    try:
        from playwright.sync_api import Error, sync_playwright  # an extra
    except ImportError:
        fail(f"exit {FAILED}: Playwright is not installed: {INSTALL}.")
    installed = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=installed, args=["--no-sandbox"] if installed else [])
        except Error as error:
            fail(f"exit {FAILED}: Chromium does not start: {_first_line(error)} {INSTALL}.")
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
        )
        try:
            try:
                _open(page, url, token, timeout)
            except Error as error:
                fail(f"exit {FAILED}: {url} cannot be opened: {_first_line(error)}")
            page.wait_for_selector(READY, state="attached", timeout=timeout * 1000)
            if full_page:
                whole = min(int(page.evaluate(WHOLE_HEIGHT)), MAX_HEIGHT)
                page.set_viewport_size({"width": width, "height": max(whole, height)})
            taken, before = page.screenshot(animations="disabled"), b""
            while taken != before:  # charts are drawn last
                page.wait_for_timeout(200)
                before, taken = taken, page.screenshot(animations="disabled")
        except Error as error:
            fail(f"exit {FAILED}: {url} timed out after {timeout} s. Is it a page of a dashboard? {_first_line(error)}")
        finally:
            browser.close()
    file.write_bytes(taken)
    say(f"{file}: {width} x {max(height, whole) if full_page else height} pixels of {url}.")


def _open(page: "Page", url: str, token: str, timeout: int) -> None:
    """Open a page, with the session of a token; end the program where a sign-in is missing."""
    parts = urlsplit(url)
    if token:
        answer = page.request.post(
            f"{parts.scheme}://{parts.netloc}/auth/token", headers={"Authorization": f"Bearer {token}"}
        )
        if not answer.ok:
            fail(f"exit {FAILED}: {url} refused the token: HTTP {answer.status} {_first_line(answer.text())}")
    opened = page.goto(_still(url), timeout=timeout * 1000)
    if opened and (opened.status in NO_ROLE or urlsplit(opened.url).netloc != parts.netloc):
        fail(f"exit {FAILED}: {url} needs a sign-in: use --token-env.")


def _still(url: str) -> str:
    """Return the URL with `screenshot=1`."""
    address, hash_sign, place = url.partition("#")
    if "screenshot=" in address:
        return url
    return f"{address}{'&' if '?' in address else '?'}screenshot=1{hash_sign}{place}"


def _first_line(text: object) -> str:
    return f"{str(text).strip().splitlines()[0].rstrip('.')}."
