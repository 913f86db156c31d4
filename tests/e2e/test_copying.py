"""Copy buttons of Compare in Chromium, also on plain http."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser import visit

pytestmark = pytest.mark.browser

# A page on plain http has no navigator.clipboard; the tests keep it to read what was copied.
PLAIN_HTTP = """
window.clipboardOfTests = navigator.clipboard;
Object.defineProperty(navigator, "clipboard", { value: undefined });
"""


@pytest.fixture
def plain_http(page: Page) -> Iterator[Page]:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.add_init_script(PLAIN_HTTP)
    yield page
    page.context.close()  # the init script must not run in other tests


def copied(page: Page) -> str:
    return str(page.evaluate("window.clipboardOfTests.readText()"))


def test_the_button_copies_the_text_next_to_it_and_confirms(frozen_url: str, plain_http: Page) -> None:
    visit(plain_http, f"{frozen_url}/compare?pool=chat-70b&converge=A")
    button = plain_http.locator(".paste .copy").first

    button.click()

    expect(button).to_have_text("Copied")
    assert copied(plain_http) == plain_http.locator(".paste code").first.inner_text()


def test_the_table_is_copied_as_rows_and_columns_without_a_selection(frozen_url: str, plain_http: Page) -> None:
    visit(plain_http, f"{frozen_url}/compare?pool=chat-70b")
    button = plain_http.get_by_role("button", name="Copy table")

    button.click()
    button.click()  # again, while it still confirms

    expect(plain_http.get_by_role("button", name="Copied")).to_have_count(1)
    rows = [line.split("\t") for line in copied(plain_http).splitlines()]
    assert len({len(row) for row in rows if len(row) > 1}) == 1
    assert any(row[0] == "cache_config.block_size" and {"16", "32"} <= set(row) for row in rows)
    assert plain_http.evaluate("window.getSelection().toString()") == ""
    expect(button).to_have_text("Copy table")
