"""In a real browser: every text can be read, in both themes, in a meeting, and in an exported report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page

from dashboard.analysis.assembly import Fleet
from dashboard.render.html_page import to_html
from dashboard.views.review import review_report
from tests.browser import Theme, at_rest, tab
from tests.e2e.frozen_fleets import STORY
from tests.e2e.states import CHAT, FINDING, HASHED_OTHERWISE, at

pytestmark = pytest.mark.browser

TOO_PALE = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")
LEAST_TEXT = 200  # characters on any page: fewer mean that it was not there yet
PATIENCE_SECONDS = 60.0  # a fleet is polled when it is shown for the first time
PAGES = (
    "/",
    at("", meeting="1"),
    at("findings"),
    at("findings", finding=FINDING),
    at("compare", pool=CHAT),
    at("compare", pool=CHAT, path="cache_config.block_size"),
    at("compare", pool=CHAT, converge="A"),
    at("capacity"),
    at("replicas"),
    at("replica", replica=HASHED_OTHERWISE),
    at("review", snapshot="SNAPSHOT-LATEST"),
    at("review", snapshot="SNAPSHOT-LATEST", meeting="1"),
    at("snapshots"),
    at("snapshots", manage="SNAPSHOT-LATEST"),
    at("changes", **{"from": "SNAPSHOT-BEFORE", "to": "SNAPSHOT-LATEST"}),
)


@pytest.fixture(scope="module")
def ids(frozen_url: str) -> Mapping[str, str]:
    shown = httpx.get(f"{frozen_url}/frozen/{STORY}", timeout=PATIENCE_SECONDS, trust_env=False)
    return dict(shown.raise_for_status().json())


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_every_text_of_every_page_stands_out(
    browser: Browser, frozen_url: str, ids: Mapping[str, str], path: str, theme: Theme
) -> None:
    for name, key in ids.items():
        path = path.replace(name, key)
    with tab(browser, theme=theme) as page:
        page.goto(frozen_url + path)
        at_rest(page)

        assert too_pale(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_of_an_exported_review_stands_out(browser: Browser, demo_fleet: Fleet, theme: Theme) -> None:
    with tab(browser, theme=theme) as page:
        page.set_content(to_html(review_report(demo_fleet)))

        assert too_pale(page) == []


def test_pale_text_is_found(browser: Browser) -> None:
    """The measure itself: grey on grey is pale, large type may be paler, and what nobody sees does not count."""
    with tab(browser) as page:
        page.set_content(
            '<p style="color:#8a8a8a">small</p><p style="color:#8a8a8a;font-size:24px">large</p>'
            '<p style="color:#767676">dark enough</p><p style="color:#eee;visibility:hidden">hidden</p>'
            '<div style="background:#000"><p style="color:#fff;opacity:.4">faded</p></div>'
            '<input placeholder="fill me in"><style>::placeholder { color: #aaa }</style>'
        )
        found = page.evaluate(TOO_PALE)["found"]

    assert [each.partition(": ")[2] for each in found] == ["small", "faded", "fill me in"]


def too_pale(page: Page) -> list[str]:
    """Return the texts that cannot be read well; fails where the page holds no text."""
    told = page.evaluate(TOO_PALE)
    assert told["read"] > LEAST_TEXT
    return list(told["found"])
