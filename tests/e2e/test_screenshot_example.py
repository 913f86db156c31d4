"""What docs/ci.md promises to tests of users: the command screenshot, and names in pages."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page

from tests.browser import visit
from tests.docs_pages import code_blocks, docs_page
from tests.e2e.frozen_fleets import STORY, frozen
from tests.e2e.frozen_store import LATEST
from tests.e2e.pictures import read
from tests.serving import ROOT

pytestmark = pytest.mark.browser
PROMISED = re.compile(r"^\| (`/.*`) \| `(\w+)` \|", re.MULTILINE)
TICKED = re.compile(r"`([^`]+)`")


def _screenshot(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dashboard", "screenshot", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_the_command_takes_the_same_picture_twice(frozen_url: str, tmp_path: Path) -> None:
    snapshot = httpx2.get(f"{frozen_url}/frozen/{STORY}", timeout=60, trust_env=False).json()[LATEST]
    (example,) = (each for each in code_blocks(docs_page("ci"), "sh") if " screenshot " in each)
    *_, url, _, _ = shlex.split(example)
    url = url.replace("http://localhost:8501", frozen_url).replace("SNAPSHOT", snapshot)

    for name in ("one.png", "two.png"):
        done = _screenshot(url, "-o", str(tmp_path / name))
        assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    shown = read((tmp_path / "one.png").read_bytes())
    assert shown.size == (1600, 1000)
    assert len(shown.getcolors(1 << 20) or []) > 500, "the page is not drawn"


@pytest.mark.long
def test_what_is_no_page_has_a_reason(frozen_url: str, tmp_path: Path) -> None:
    file = str(tmp_path / "x.png")
    for url, code, reason in (
        ("localhost:8501", 2, "expected a URL of a running dashboard"),
        ("http://127.0.0.1:9", 1, "cannot be opened"),
        (f"{frozen_url}/healthz", 1, "timed out after 2 s"),
    ):
        done = _screenshot(url, "-o", file, "--timeout", "2")
        assert done.returncode == code
        assert reason in done.stderr


@pytest.mark.long
def test_every_promised_test_id_is_on_its_page(frozen_url: str, page: Page) -> None:
    promised = PROMISED.findall(docs_page("ci"))
    missing = []
    for places, name in promised:
        for place in TICKED.findall(places):
            visit(page, f"{frozen_url}{place}")
            page.wait_for_selector("body[data-ready=true]", state="attached")
            if not page.get_by_test_id(name).count():
                missing.append((place, name))

    assert len(promised) >= 8
    assert missing == []


@pytest.mark.long
def test_a_replica_has_one_cell_and_a_cohort_one_column(frozen_url: str, page: Page) -> None:
    visit(page, frozen_url)
    assert page.get_by_test_id("cell").count() == len(frozen(STORY).replicas)

    visit(page, f"{frozen_url}/compare?pool=chat-70b")
    (pool,) = (each for each in frozen(STORY).pools if each.name == "chat-70b")
    cohorts = [each.inner_text().split()[0] for each in page.get_by_test_id("cohort").all()]
    assert set(cohorts) == {each.letter for each in pool.cohorts}
