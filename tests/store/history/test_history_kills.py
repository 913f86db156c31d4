"""A process that is killed while it records loses no poll that it acknowledged."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TIMES = 100


def test_a_hundred_kills_lose_no_acknowledged_poll(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.store.history.killed_writer", str(tmp_path), str(TIMES)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    in_the_middle, polls = map(int, ended.stdout.split())
    assert in_the_middle > TIMES / 4, "most kills were between two polls"
    assert polls > TIMES
