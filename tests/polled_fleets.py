"""Fleets of one poll: captured servers at made-up addresses, and unreachable replicas."""

from datetime import timedelta
from typing import Any

from dashboard.analysis.assembly import Fleet, build_fleet
from dashboard.fleet import Failure, FailureKind, ProbeResult, Snapshot, Source, Target
from tests.captured import AT, METRICS, MODELS, VERSION, capture, snapshot

INTERVAL = timedelta(seconds=30)
REFUSED = Failure(FailureKind.REFUSED, "Nothing listens there.")
OPEN = (METRICS, VERSION, MODELS)


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
