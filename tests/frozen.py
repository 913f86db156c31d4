"""The simulated fleet, polled once by a clock that stands still."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dashboard import service
from dashboard.collect.poller import Poller
from dashboard.demo import default_fleet, in_thread, judging, targets
from dashboard.discovery import Discovery
from dashboard.fleet import build_fleet
from dashboard.options import Options, policy_of

if TYPE_CHECKING:
    from dashboard.fleet import Fleet

AT = datetime(2026, 11, 20, 11, 42, 5, tzinfo=UTC)
SLOWEST_SECONDS = 2.0  # the fleet has a replica that never ends its answer; the others need a quarter of a second
PORT = 28_000  # always the same, for it stands on the pages


def frozen_fleet(port: int = PORT) -> Fleet:
    """Start the simulated fleet, ask it once, and derive what the pages show."""
    with in_thread(default_fleet(), port, clock=AT.timestamp) as server, ThreadPoolExecutor() as pool:
        entries = targets(server.fleet, server.port)
        listed = [{"url": entry["targets"][0], "labels": entry["labels"]} for entry in entries]
        options = Options.model_validate({"name": "demo", "targets": listed, **judging(AT.date())})
        limits = replace(service.limits_of(options), probe_timeout_seconds=SLOWEST_SECONDS)
        polling = Poller(limits).poll(Discovery(options).discover(), lambda: AT)
        # In a thread: a browser test, and the server that imports frozen_app.py, have an event loop already.
        snapshots = pool.submit(asyncio.run, polling).result()
    policy = policy_of(options)
    return build_fleet(options.name, snapshots, polled_at=AT, interval=timedelta(seconds=15), policy=policy)
