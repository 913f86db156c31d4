"""A week of polls of 1,000 replicas, assembled and recorded under a simulated clock: time, size, memory and queries.

Run it with `python -m tests.benchmarks.bench_week`; it takes about ten minutes. Polls come every 60 s. Two rollouts
replace every pod within two hours: its address, its name, its blocks and its document are new. On each day 1% of the
replicas restart with other blocks. Nothing is asked over a network.
"""

import gc
import random
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from dashboard.analysis.assembly import NO_LIVES, Fleet, assemble, read_fleet
from dashboard.analysis.flapping import Watch
from dashboard.fleet import NO_LETTERS, ProbeResult, Snapshot, Target
from tests.benchmarks import bench_core
from tests.benchmarks.bench_core import FEW, captured
from tests.benchmarks.measures import Row, peak_bytes, print_table, processor_seconds
from tests.captured import AT
from tests.store.history.recorded import Recorded

POLL = timedelta(seconds=60)
DAYS = 7
POLLS = DAYS * 24 * 60
ROLLOUTS = (2, 5)  # days at which they begin
ROLLOUT_POLLS = 120
CHURN = 0.01  # of the replicas, each day
LIMIT_MINUTES = 30
METRICS = "/metrics"


class Pod(NamedTuple):
    """A replica as polls see it: its answers, which change only when it starts."""

    target: Target
    probes: Mapping[str, ProbeResult]

    def at(self, time: datetime) -> Snapshot:
        """Return what a poll makes of it: only /metrics is asked again."""
        again = {**self.probes, METRICS: replace(self.probes[METRICS], observed_at=time)}
        return Snapshot(self.target, time, again)


class Week:
    """The pods of a week, poll by poll."""

    def __init__(self) -> None:
        self._answers = captured()
        self._chance = random.Random(7)  # noqa: S311  the same in each run
        self.pods = [self._pod(number, 0, AT - timedelta(days=3)) for number in range(FEW)]
        self._restarts = {
            self._chance.randrange(POLLS): self._chance.randrange(FEW) for _ in range(int(CHURN * FEW * DAYS))
        }

    def polls(self) -> Iterator[tuple[datetime, list[Snapshot]]]:
        """Yield the snapshots of each poll."""
        for number in range(POLLS):
            at = AT + number * POLL
            for turn, day in enumerate(ROLLOUTS, 1):
                step = number - day * 24 * 60
                if 0 <= step < ROLLOUT_POLLS:
                    for each in range(step * FEW // ROLLOUT_POLLS, (step + 1) * FEW // ROLLOUT_POLLS):
                        self.pods[each] = self._pod(each, turn, at)
            if (restarted := self._restarts.get(number)) is not None:
                turn = sum(number >= day * 24 * 60 + ROLLOUT_POLLS for day in ROLLOUTS)
                self.pods[restarted] = self._pod(restarted, turn, at)
            yield at, [each.at(at) for each in self.pods]

    def _pod(self, number: int, turn: int, at: datetime) -> Pod:
        """Return a pod that started just before a poll."""
        metrics = self._answers[METRICS]
        metrics = re.sub(
            rb"^process_start_time_seconds .*",
            b"process_start_time_seconds %d" % at.timestamp(),
            metrics,
            flags=re.MULTILINE,
        )
        metrics = metrics.replace(
            b'num_gpu_blocks="8192"', b'num_gpu_blocks="%d"' % self._chance.randrange(8_000, 8_500)
        )
        made = bench_core.snapshot(number, {**self._answers, METRICS: metrics}, 100 * turn)
        labels = {**made.target.labels, "namespace": "ml", "pod": f"vllm-{turn}-{number:04}"}
        target = Target(f"http://10.{turn + 1}.{number // 250}.{number % 250}:8000", labels)
        return Pod(target, {path: replace(each, observed_at=at) for path, each in made.probes.items()})


def main() -> int:
    """Print the table; return 1 if a budget is exceeded."""
    week, watch, began = Week(), Watch(), time.monotonic()
    gc.collect()
    gc.freeze()
    before, fleet, quiet, building = peak_bytes(), None, [], 0.0
    with TemporaryDirectory() as folder:
        history = Recorded(Path(folder))
        for at, snapshots in week.polls():
            start = time.process_time()
            now = _built(snapshots, at, fleet, watch)
            built = time.process_time()
            recorded = history.record(now, 3 * POLL)
            ended = time.process_time()
            building += built - start
            if fleet is not None and now.documents == fleet.documents:
                quiet.append(ended - built)
            fleet = recorded
        history.writer.close()
        minutes, memory = (time.monotonic() - began) / 60, peak_bytes() - before
        file = history.database.file
        assert file is not None
        size = file.stat().st_size
        reader = history.reader
        first = processor_seconds(lambda: reader.fleet_at(AT + timedelta(days=1)))
        near = [processor_seconds(lambda n=n: reader.fleet_at(AT + timedelta(days=1, hours=n))) for n in range(1, 6)]  # type: ignore[misc]
        far = [processor_seconds(lambda n=n: reader.fleet_at(AT + timedelta(days=n))) for n in (3, 6)]  # type: ignore[misc]
        rows = {name: history.rows(name) for name in ("poll", "replica_span", "cohort_span", "finding_span", "body")}
    quiet.sort()
    print(f"{POLLS:,} polls of {FEW:,} replicas, {len(ROLLOUTS)} rollouts, {CHURN:.0%} restarts a day")
    mean = sum(quiet) / len(quiet)
    print(
        f"assembly {building / POLLS * 1e3:.1f} ms a poll, recording one without a change {mean * 1e3:.1f} ms (means)"
    )
    print(f"first past fleet {first:.2f} s, of another rollout {max(far):.2f} s; rows {rows}\n")
    return print_table(
        [
            Row("the week, minutes", minutes, LIMIT_MINUTES),
            Row("recording a poll without a change, median, ms", quiet[len(quiet) // 2] * 1e3, 20),
            Row("a past fleet after the first, same rollout, ms", max(near) * 1e3, 100),
            Row("the history, MB (that of a year)", size / 1e6, 150),
            Row("memory of assembly and store, MB", memory / 1e6, 400),
        ]
    )


def _built(snapshots: list[Snapshot], at: datetime, before: Fleet | None, watch: Watch) -> Fleet:
    lives, letters = (before.lives, before.letters) if before else (NO_LIVES, NO_LETTERS)
    read = read_fleet("bench", snapshots, polled_at=at, interval=POLL, before=before)
    read = replace(read, recent=watch.add_poll(read, at, lives), letters=letters)
    return assemble(read, at, before=before)


if __name__ == "__main__":
    sys.exit(main())
