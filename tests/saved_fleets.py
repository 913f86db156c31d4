"""Fleets of captured servers, and what a fleet is saved as."""

from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.documents.fleet import fleet_json
from tests.captured import AT, Capture, captures, snapshot
from tests.polled_fleets import INTERVAL, OPEN, build_fleet


def saved(fleet: Fleet, indent: int | None = None) -> bytes:
    """What poll --format json --full writes."""
    return fleet_json(fleet, AT, full=True, indent=indent)


def built_of_captures(*given: Capture, **more: Any) -> Fleet:
    """Every capture read in full and on the open endpoints only, in one pool each, some in a common one."""
    servers: list[Capture] = list(given) or [each.values[0] for each in captures()]
    snapshots = []
    for number, each in enumerate(servers):
        labels = {"pool": "mixed"} if number % 3 == 0 else {}
        for address, paths in enumerate((None, OPEN)):
            target = f"http://10.{address}.0.{number}:8000"
            snapshots.append(snapshot(each.answers, paths, target=target, labels=labels))
    return build_fleet("captures", snapshots, **{"polled_at": AT, "interval": INTERVAL, **more})
