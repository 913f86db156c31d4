"""The simulated fleet, polled once by a clock that stands still."""

from __future__ import annotations

import asyncio
import fcntl
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from dashboard import service
from dashboard.collect.poller import Poller
from dashboard.demo import default_fleet, in_thread, judging, targets
from dashboard.discovery import Discovery
from dashboard.fleet import build_fleet
from dashboard.options import Options, policy_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dashboard.demo.describe import DemoReplica
    from dashboard.fleet import Fleet
    from dashboard.models import Snapshot

AT = datetime(2026, 11, 20, 11, 42, 5, tzinfo=UTC)
ANSWER_SECONDS = 0.012  # that every answer is said to have taken: the clock stands still for that, too
SLOWEST_SECONDS = 2.0  # the fleet has a replica that never ends its answer; the others need a quarter of a second
PORT = 28_000  # always the same, for it stands on the pages


def frozen_fleet(port: int = PORT, simulated: Sequence[DemoReplica] | None = None, at: datetime = AT) -> Fleet:
    """Start the simulated fleet, or only these replicas, ask it once, and derive what the pages show.

    One process at a time: the others wait, for the port is always the same.
    """
    with (
        _alone(port),
        in_thread(tuple(simulated or default_fleet()), port, clock=at.timestamp) as server,
        ThreadPoolExecutor() as pool,
    ):
        entries = targets(server.fleet, server.port)
        listed = [{"url": entry["targets"][0], "labels": entry["labels"]} for entry in entries]
        options = Options.model_validate({"name": "demo", "targets": listed, **judging(at.date())})
        limits = replace(service.limits_of(options), probe_timeout_seconds=SLOWEST_SECONDS)
        polling = Poller(limits).poll(Discovery(options).discover(), lambda: at)
        # In a thread: a browser test, and the server that imports frozen_app.py, have an event loop already.
        snapshots = [_timeless(each) for each in pool.submit(asyncio.run, polling).result()]
    policy = policy_of(options)
    return build_fleet(options.name, snapshots, polled_at=at, interval=timedelta(seconds=15), policy=policy)


@contextmanager
def _alone(port: int) -> Iterator[None]:
    """Keep other processes from using the port; the lock ends with this process at the latest."""
    with (Path(gettempdir()) / f"vllm-fleet-dashboard-tests-{port}.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _timeless(snapshot: Snapshot) -> Snapshot:
    told = {path: replace(each, elapsed_seconds=ANSWER_SECONDS) for path, each in snapshot.probes.items()}
    return replace(snapshot, probes=told)
