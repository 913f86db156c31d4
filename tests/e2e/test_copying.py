"""In a real browser: what Compare offers to paste is copied by its button, as it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser import visit

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_the_button_copies_what_stands_beside_it_and_says_so(frozen_url: str, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit(page, f"{frozen_url}/compare?pool=chat-70b&converge=A")
    button = page.get_by_role("button", name="Copy Flags", exact=True).first

    button.click()

    expect(button).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator(".paste code").first.inner_text()
