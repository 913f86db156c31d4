"""Kill a process that records polls, many times: the history opens, with every poll that was acknowledged.

Run it with `python -m tests.store.history.killed_writer FOLDER TIMES`. It prints the number of kills in the middle of a
poll, and the number of polls at the end. With `freeze` after that the process freezes each poll, too, and kills are
in the middle of a freeze: no snapshot is there in part. It forks: a process of its own would take a second to start.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dashboard.analysis.assembly import Fleet
from dashboard.store.packing import content_of, id_of, unpacked
from dashboard.store.snapshots import Snapshots
from tests.captured import AT
from tests.polled_fleets import at, built
from tests.store.history.recorded import POLL, Recorded, shown

REPLICAS = 12
TURNS = [built(*[at(each) for each in range(REPLICAS) if (each + turn) % 3]) for turn in range(3)]
ANSWER_BYTES = 1_000
BEGUN, RECORDED, DONE = b"b", b"r", b"d"


def fleet_of(number: int) -> Fleet:
    """Return poll `number`: in each one other replicas are gone, and the raw answers are other ones."""
    fleet = TURNS[number % len(TURNS)]
    raw = b"%d" % number * ANSWER_BYTES
    replicas = (replace(each, probes=(replace(each.probes[0], raw=raw),)) for each in fleet.replicas)
    return replace(fleet, replicas=tuple(replicas), polled_at=AT + number * POLL)


def work_forever(folder: Path, first: int, acknowledged: int, *, freezes: bool) -> None:
    """Record polls, freeze them, and report the beginning and the end of each."""
    history, number = Recorded(folder), first
    while True:
        os.write(acknowledged, BEGUN)
        history.record(fleet_of(number))
        if freezes:
            os.write(acknowledged, RECORDED)
            Snapshots(folder).save(fleet_of(number), "", AT)
        os.write(acknowledged, DONE)
        number += 1


def killed(folder: Path, first: int, part: float, *, freezes: bool) -> bytes:
    """Return what a working process reported until it was killed: a part of the time of its first poll later."""
    read, written = os.pipe()
    if not (child := os.fork()):
        os.close(read)
        work_forever(folder, first, written, freezes=freezes)
    os.close(written)
    before_end = len(BEGUN + RECORDED) if freezes else len(BEGUN)
    with os.fdopen(read, "rb") as reports:
        seen, began = reports.read(before_end), time.monotonic()
        seen, ended = seen + reports.read(len(DONE)), time.monotonic()
        seen += reports.read(before_end)
        time.sleep(part * (ended - began))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return seen + reports.read()


def main(folder: Path, times: int, *, freezes: bool) -> None:
    """Raise AssertionError where a poll is lost, or a snapshot is lost or is there in part."""
    chance, number, in_the_middle = random.Random(20), 0, 0  # noqa: S311  the same in each run
    for _ in range(times):
        reports = killed(folder, number, chance.random(), freezes=freezes)
        first, number = number, number + reports.count(DONE)
        in_the_middle += reports.endswith(RECORDED if freezes else BEGUN)
        history = Recorded(folder)
        with history.database.read() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
        polls = history.rows("poll")
        assert polls in {number, number + 1}, (polls, number)  # the end of the last one may not be reported
        if freezes:
            check_snapshots(Snapshots(folder), [fleet_of(each) for each in range(first, polls)], number - first)
        number = polls
        last = fleet_of(number - 1)
        assert last.polled_at is not None
        assert shown(history.reader.fleet_at(last.polled_at)) == shown(last)
    print(in_the_middle, number)


def check_snapshots(snapshots: Snapshots, fleets: Sequence[Fleet], acknowledged: int) -> None:
    """Raise AssertionError where a snapshot is lost or is there in part, also after it was frozen again."""
    by_id = {id_of(content_of(each)): each for each in fleets}
    found = by_id.keys() & {each.id for each in snapshots.all()}
    assert found >= set(list(by_id)[:acknowledged])
    for key in found:
        check_snapshot(snapshots, key, by_id[key])
    for key in by_id.keys() - found:
        snapshots.save(by_id[key], "", AT)
        check_snapshot(snapshots, key, by_id[key])


def check_snapshot(snapshots: Snapshots, key: str, fleet: Fleet) -> None:
    """Raise AssertionError where a snapshot is there in part."""
    assert id_of(unpacked(snapshots.export(key))) == key
    assert snapshots.fleet(key).polled_at == fleet.polled_at
    for row, each in enumerate(fleet.replicas):
        assert snapshots.answers(key, row) == {each.probes[0].path: each.probes[0].raw}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), freezes="freeze" in sys.argv[3:])
