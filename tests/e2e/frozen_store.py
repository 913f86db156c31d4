"""Two snapshots of the simulated fleet: two weeks earlier, with fewer findings, and now."""

import shutil
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path

from dashboard.analysis.assembly import Fleet
from dashboard.demo import default_fleet
from dashboard.demo.describe import DemoReplica
from dashboard.store.snapshots import Snapshots
from tests.e2e.frozen_fleets import STORY, frozen
from tests.frozen import AT, frozen_fleet

# Placeholders in URLs for the ids of the snapshots, which change with every version of the program.
BEFORE, LATEST = "SNAPSHOT-BEFORE", "SNAPSHOT-LATEST"
FOLDER = Path("test-results/frozen-snapshots")  # in the working folder; always the same, because pages show it
AGO = timedelta(days=14)
# Replicas changed since, and the replica with their former configuration.
CHANGED = {
    "chat-70b-04": "chat-70b-01",
    "chat-70b-11": "chat-70b-01",
    "gemma-27b-04": "gemma-27b-02",
    **{f"qwen3-8b-{number:02}": "qwen3-8b-05" for number in range(1, 5)},
}


@cache
def snapshots() -> tuple[Snapshots, dict[str, str]]:
    """Freeze both; return the store, and the ids by placeholder."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    store = Snapshots(FOLDER)
    before = store.save(fleet_before(), "Review of 6 November", AT - AGO)
    latest = store.save(frozen(STORY), "Review of 20 November", AT)
    return store, {BEFORE: before.id, LATEST: latest.id}


def fleet_before() -> Fleet:
    """Return the fleet of two weeks earlier."""
    replicas = {each.name: each for each in default_fleet()}
    earlier = [
        replace(each, configuration=replicas[CHANGED.get(each.name, each.name)].configuration)
        for each in replicas.values()
    ]
    return frozen_fleet(simulated=[_younger(each) for each in earlier], at=AT - AGO)


def _younger(replica: DemoReplica) -> DemoReplica:
    """Return a replica with its uptime at that time; replicas started since keep theirs."""
    ago = AGO.total_seconds()
    uptime = replica.uptime_seconds
    return replace(replica, uptime_seconds=uptime - ago if uptime > ago else uptime)
