"""Kill a process that records polls, many times: the history opens, with every poll that was acknowledged.

Run it with `python -m tests.store.history.killed_writer FOLDER TIMES`. It prints the number of kills in the middle of a
poll, and the number of polls at the end. It forks: a process of its own would take a second to start.
"""

import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from dashboard.analysis.assembly import Fleet
from tests.captured import AT
from tests.polled_fleets import at, built
from tests.store.history.recorded import POLL, Recorded, shown

REPLICAS = 12
TURNS = [built(*[at(each) for each in range(REPLICAS) if (each + turn) % 3]) for turn in range(3)]
MOST_SECONDS = 0.05  # until the kill, after the first poll; a poll takes some milliseconds
BEGUN, DONE = b"b", b"d"


def fleet_of(number: int) -> Fleet:
    """Return poll `number`: in each one other replicas are gone."""
    return replace(TURNS[number % len(TURNS)], polled_at=AT + number * POLL)


def record_forever(folder: Path, first: int, acknowledged: int) -> None:
    """Record polls, and report the beginning and the end of each."""
    history, number = Recorded(folder), first
    while True:
        os.write(acknowledged, BEGUN)
        history.record(fleet_of(number))
        os.write(acknowledged, DONE)
        number += 1


def killed(folder: Path, first: int, seconds: float) -> bytes:
    """Return what a recording process reported until it was killed."""
    read, written = os.pipe()
    if not (child := os.fork()):
        os.close(read)
        record_forever(folder, first, written)
    os.close(written)
    with os.fdopen(read, "rb") as reports:
        begun = reports.read(2)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return begun + reports.read()


def main(folder: Path, times: int) -> None:
    """Raise AssertionError where a poll is lost."""
    chance, number, in_the_middle = random.Random(20), 0, 0  # noqa: S311  the same in each run
    for _ in range(times):
        reports = killed(folder, number, chance.uniform(0, MOST_SECONDS))
        number += reports.count(DONE)
        in_the_middle += reports.endswith(BEGUN)
        history = Recorded(folder)
        with history.database.read() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
        polls = history.rows("poll")
        assert polls in {number, number + 1}, (polls, number)  # the end of the last one may not be reported
        number = polls
        last = fleet_of(number - 1)
        assert last.polled_at is not None
        assert shown(history.reader.fleet_at(last.polled_at).fleet) == shown(last)
    print(in_the_middle, number)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
