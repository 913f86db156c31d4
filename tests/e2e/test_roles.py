"""Roles in a browser: a viewer sees why a control is disabled, an editor uses it, and sign-out ends both."""

from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect

from tests.browser import chromium, settle
from tests.serving import dashboard_on

TOKENS = {role: f"token_of_{role}_" * 4 for role in ("viewer", "editor")}


def signed_in(browser: Browser, url: str, role: str) -> Page:
    """Open Overview with the session of a token."""
    page = browser.new_page(viewport={"width": 1600, "height": 900})
    headers = {"Authorization": f"Bearer {TOKENS[role]}", "Origin": url}
    assert page.request.post(f"{url}/auth/token", headers=headers).ok
    page.goto(url)
    settle(page)
    return page


@pytest.mark.long
@pytest.mark.browser
def test_a_viewer_is_told_which_role_saves_an_editor_saves_and_sign_out_ends_the_session(tmp_path: Path) -> None:
    entries = [
        {"name": f"a {role}", "role": role, "sha256": sha256(token.encode()).hexdigest()}
        for role, token in TOKENS.items()
    ]
    access = {"mode": "proxy", "trusted_proxies": ["unix"], "roles": {"viewer": ["*"]}, "tokens": entries}
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump({"targets": ["127.0.0.1:9"], "access": access}))
    with dashboard_on(tmp_path / "fleet.yaml") as url, chromium() as browser:
        viewer, editor = (signed_in(browser, url, role) for role in TOKENS)
        for page in (viewer, editor):
            page.get_by_role("button", name="Share").click()
        save = viewer.get_by_role("button", name="Save snapshot")
        expect(save).to_be_disabled()
        save.hover(force=True)
        expect(viewer.get_by_role("tooltip")).to_have_text("Needs role editor; yours is viewer.")
        editor.get_by_role("button", name="Save snapshot").click()
        expect(editor.get_by_text("Saved as")).to_be_visible()

        viewer.goto(f"{url}/timeline?show=audit")
        settle(viewer)
        expect(viewer.get_by_role("row", name="a editor")).to_contain_text("Save snapshot")
        expect(viewer.get_by_text("a viewer (viewer)").first).to_be_visible()
        viewer.locator(".st-key-gear button").first.click()
        viewer.get_by_role("button", name="Sign out").click()
        expect(viewer.get_by_role("heading", name="Unauthorized")).to_be_visible()
        assert viewer.goto(f"{url}/findings", wait_until="commit").status == 401  # type: ignore[union-attr]
