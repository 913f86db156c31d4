"""The screenshot example of docs/ci.md works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.browser import NAMES
from tests.docs_pages import code_blocks, docs_page
from tests.e2e.frozen_fleets import STORY
from tests.e2e.frozen_store import LATEST
from tests.e2e.pictures import difference, read

pytestmark = pytest.mark.browser


@pytest.fixture
def example() -> str:
    """The program of the page."""
    (program,) = code_blocks(docs_page("ci"), "python")
    return program


def test_the_example_takes_the_same_picture_twice(frozen_url: str, example: str, tmp_path: Path) -> None:
    """The example, with the URL and the Chromium of this machine."""
    snapshot = httpx2.get(f"{frozen_url}/frozen/{STORY}", timeout=60, trust_env=False).json()[LATEST]
    assert "localhost:8501" in example
    program = example.replace("http://localhost:8501", frozen_url).replace("SNAPSHOT", snapshot)
    installed = next((path for name in NAMES if (path := shutil.which(name))), None)
    program = program.replace("launch()", f"launch(executable_path={installed!r}, args=['--no-sandbox'])")

    pictures = []
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=dict(os.environ), check=True)
        pictures.append((tmp_path / "compare.png").read_bytes())
    shown, again = (read(each) for each in pictures)
    assert difference(shown, again) is None
    assert shown.size == (1600, 1000)
    assert len(shown.getcolors(1 << 20) or []) > 500, "the page is not drawn"
