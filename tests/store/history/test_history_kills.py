"""A process that is killed while it records or freezes loses no poll and no snapshot that it acknowledged."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("times", [8, pytest.param(100, marks=pytest.mark.long)])
def test_kills_lose_no_acknowledged_poll(tmp_path: Path, times: int) -> None:
    in_the_middle, polls = killed(tmp_path, str(times))

    assert in_the_middle > times / 4, "most kills were between two polls"
    assert polls > times


@pytest.mark.parametrize("times", [4, pytest.param(50, marks=pytest.mark.long)])
def test_a_snapshot_is_whole_or_absent_after_a_kill_and_is_saved_at_the_next_try(tmp_path: Path, times: int) -> None:
    in_the_middle, polls = killed(tmp_path, str(times), "freeze")

    assert in_the_middle > times / 4, "most kills were between two freezes"
    assert polls > times


def killed(*arguments: str | Path) -> tuple[int, int]:
    """Return the numbers of kills in the middle, and of polls."""
    command = [sys.executable, "-m", "tests.store.history.killed_writer", *map(str, arguments)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    in_the_middle, polls = map(int, ended.stdout.split())
    return in_the_middle, polls
