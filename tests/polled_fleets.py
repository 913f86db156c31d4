"""Fleets of one poll: captured servers at made-up addresses, and unreachable replicas."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from dashboard.analysis.assembly import Fleet, assemble, read_fleet
from dashboard.fleet import NO_LETTERS, Failure, FailureKind, Letters, ProbeResult, Snapshot, Source, Target
from tests.captured import AT, METRICS, MODELS, VERSION, capture, snapshot

INTERVAL = timedelta(seconds=30)
REFUSED = Failure(FailureKind.REFUSED, "Nothing listens there.")
OPEN = (METRICS, VERSION, MODELS)


def build_fleet(
    name: str,
    snapshots: Sequence[Snapshot],
    *,
    polled_at: datetime,
    before: Fleet | None = None,
    letters: Letters | None = None,
    **more: Any,
) -> Fleet:
    """The fleet of one poll, with known letters of cohorts. `more` are other arguments of `read_fleet`."""
    read = read_fleet(name, snapshots, polled_at=polled_at, before=before, **more)
    if letters is None:
        letters = before.letters if before else NO_LETTERS
    return assemble(replace(read, letters=letters), polled_at, before=before)


def built(*snapshots: Snapshot, **more: Any) -> Fleet:
    """The fleet of these snapshots."""
    return build_fleet("prod", snapshots, **{"polled_at": AT, "interval": INTERVAL, **more})


def at(number: int, case: str = "llama", paths: Any = OPEN, **more: Any) -> Snapshot:
    """The snapshot of replica `number`, by default of the open endpoints only."""
    return snapshot(capture(case).answers, paths, target=f"http://10.0.0.{number}:8000", **more)


def unreachable(number: int, **labels: str) -> Snapshot:
    """The snapshot of replica `number`, which refuses connections."""
    failed = ProbeResult(METRICS, Source.METRICS, AT, 0.0, failure=REFUSED)
    return Snapshot(Target(f"http://10.0.0.{number}:8000", labels), AT, {METRICS: failed})
