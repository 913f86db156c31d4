"""requirements.lock is within requirements*.txt, with the hash of each file."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FILES = tuple(f"requirements{each}.txt" for each in ("", "-pdf", "-postgres", "-auth", "-mcp"))
LOCK = (ROOT / "requirements.lock").read_text()
ENTRY = re.compile(
    r"^([a-z0-9][a-z0-9-]*)==([^ ;]+)(?: ; [^\\\n]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n", re.MULTILINE
)
PINNED = {canonicalize_name(name): version for name, version, _ in ENTRY.findall(LOCK)}


def requirements(name: str) -> list[Requirement]:
    lines = (line.partition("#")[0].strip() for line in (ROOT / name).read_text().splitlines())
    return [Requirement(line) for line in lines if line]


@pytest.mark.parametrize("name", FILES)
def test_the_lock_is_within_the_ranges(name: str) -> None:
    wrong = [
        str(each)
        for each in requirements(name)
        if not each.specifier.contains(PINNED.get(canonicalize_name(each.name), "0"))
    ]

    assert requirements(name)
    assert not wrong, "run make lock"


def test_every_entry_has_hashes_and_no_index_or_host() -> None:
    assert ENTRY.sub("", LOCK) == ""
    assert "://" not in LOCK


def test_every_requirement_has_a_range() -> None:
    assert not [str(each) for each in (each for name in FILES for each in requirements(name)) if not each.specifier]
