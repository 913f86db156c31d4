"""Take the committed screenshots again, remove those without a state, and report the changes."""

import os
import sys

import pytest

from tests.e2e import album
from tests.e2e.states import PICTURES

TESTS = "tests/e2e/test_screenshots.py"


def main(arguments: list[str]) -> int:
    """Write the report of changes since the last commit. `arguments` are for pytest, whose exit code is returned."""
    before = album.committed()
    os.environ[album.UPDATE] = "1"
    code = pytest.main([TESTS, "--quiet", "-m", "browser", *arguments])
    for file in album.orphans([*PICTURES]):
        file.unlink()
    after = album.held()
    names = sorted({*before, *after})
    changes = [each for name in names if (each := album.change_between(name, before.get(name), after.get(name)))]
    print(f"{len(after)} pictures: {album.tally(changes)} since the last commit. Look at {album.write_report(changes)}")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
