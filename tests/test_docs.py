"""The documents say what the program does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving import ROOT

HELP = re.compile(r"^\$ (python -m dashboard [a-z ]*--help)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://)([^)#]+)\)")
FORBIDDEN = re.compile(r"(?<![\w.])/(?:root|home|tmp|mnt)/")


def test_the_help_texts_in_the_readme_are_the_real_ones(readme: str) -> None:
    shown = HELP.findall(readme)

    assert shown
    for command, text in shown:
        environment = {"PATH": "/usr/bin:/bin", "COLUMNS": "80", "TERM": "dumb"}
        done = subprocess.run(
            [sys.executable, *command.split()[1:]],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert text.strip() == done.stdout.strip()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_link_leads_somewhere(document: str) -> None:
    for link in LINK.findall((ROOT / document).read_text()):
        assert (ROOT / link).exists(), link


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "fleet.example.yaml"])
def test_no_document_names_a_path_of_one_machine(document: str) -> None:
    assert not FORBIDDEN.search((ROOT / document).read_text())


def test_every_make_target_that_a_document_names_exists(readme: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    contributing = (ROOT / "CONTRIBUTING.md").read_text()

    named = set(re.findall(r"(?:^    |`)make ([a-z-]+)", readme + contributing, re.MULTILINE))

    assert {"demo", "run", "check"} <= named
    assert {name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)} == set()


def test_the_first_line_of_the_readme_says_what_it_needs(readme: str) -> None:
    first = readme.split("\n\n")[1]

    assert "Linux" in first
    assert "Python 3.11" in first


def test_the_version_is_told_once() -> None:
    assert (Path(ROOT) / "dashboard" / "__init__.py").read_text().count("__version__ =") == 1
