"""Complete outputs of the simulated fleet and of captures: every change of text, value or order fails here.

`make golden` writes them again. Read the difference before you commit it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.outputs import FLEETS, FOLDER
from tests.serving import ROOT


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The outputs of a new process, because other tests leave cached pages."""
    folder = tmp_path_factory.mktemp("golden")
    subprocess.run([sys.executable, "-m", "tests.tools.golden", str(folder)], check=True, cwd=ROOT)
    return folder


@pytest.mark.parametrize("fleet", FLEETS)
def test_every_output_is_the_committed_one(written: Path, fleet: str) -> None:
    found, committed = (
        {file.name: file.read_text() for file in (folder / fleet).iterdir()} for folder in (written, FOLDER)
    )

    assert sorted(found) == sorted(committed)
    for name, text in found.items():
        assert text.splitlines() == committed[name].splitlines(), f"{name} changed; `make golden` if intended"
