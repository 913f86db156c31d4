"""What docs/ci.md says about tests of pages of a dashboard with sign-in."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest
import yaml

from tests.browser import chromium
from tests.docs_pages import code_blocks, docs_page
from tests.serving import ROOT, dashboard_on

TOKEN = "fleet_of_a_test"


def screenshot(url: str, file: Path, *more: str) -> str:
    """What the command says."""
    command = [sys.executable, "-m", "dashboard", "screenshot", url, "-o", str(file), *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stderr


@pytest.mark.long
@pytest.mark.browser
def test_the_example_and_the_command_sign_in_with_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"name": "ci", "role": "viewer", "sha256": sha256(TOKEN.encode()).hexdigest()}
    access = {"mode": "proxy", "trusted_proxies": ["unix"], "roles": {"viewer": ["*"]}, "tokens": [entry]}
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump({"targets": ["127.0.0.1:9"], "access": access}))
    (example,) = (each for each in code_blocks(docs_page("ci"), "python") if "/auth/token" in each)
    monkeypatch.setenv("FLEET_TOKEN", TOKEN)
    with dashboard_on(tmp_path / "fleet.yaml") as url, chromium() as browser:
        assert httpx2.get(url, trust_env=False).status_code == 401
        page = browser.new_page()
        code = f"import os\n{example.replace('http://localhost:8501', url)}"
        exec(code, {"page": page})  # noqa: S102  our own document

        assert page.get_by_test_id("stApp").is_visible()
        assert "fleet_session" in {each.get("name") for each in page.context.cookies()}
        picture = tmp_path / "picture.png"
        assert screenshot(url, picture) == f"exit 1: {url} needs a sign-in: use --token-env.\n"
        assert screenshot(url, picture, "--token-env", "FLEET_TOKEN").startswith(f"{picture}: 1600 x 1000 pixels")
