"""The simulated fleet, polled once with a stopped clock."""

import asyncio
import fcntl
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import gettempdir
from urllib.parse import urlsplit

from dashboard.analysis.assembly import Fleet
from dashboard.config import Options, PollOptions, policy_of
from dashboard.demo import DemoServer, default_fleet, demo_options, in_thread, targets
from dashboard.demo.describe import Behaviour, DemoReplica
from dashboard.fleet import ProbeResult, Snapshot, Target
from dashboard.fleet.traffic import ReplicaTraffic, Traffic
from dashboard.sources.discovery import discover_once
from dashboard.sources.polling.poller import Poller
from dashboard.vllm.traffic import read_counts
from tests.polled_fleets import build_fleet

AT = datetime(2026, 11, 20, 11, 42, 5, tzinfo=UTC)
ANSWER_SECONDS = 0.012  # recorded duration of every answer
SLOW_TIMEOUT_SECONDS = 2.0  # for replicas that never end their answer; shown on pages
SLOW_BYTES = 1  # of their answer that arrive in this time; a busy machine may be one early or late
BEGUN, MOST_POLLS = "in the middle of its answer", 5
PATIENCE_SECONDS = 300.0  # for the others: a busy machine must not change the result
PORT = 28_000  # always the same: it is shown on pages


def frozen_fleet(
    port: int = PORT, simulated: Sequence[DemoReplica] | None = None, at: datetime = AT, *, is_used: bool = False
) -> Fleet:
    """Start the simulated fleet or these replicas, poll once, and return the fleet.

    With `is_used` it has the traffic of the window before. Processes wait for each other, because they use the same
    port.
    """
    with (
        _alone(port),
        in_thread(tuple(simulated or default_fleet()), port, clock=at.timestamp) as server,
        ThreadPoolExecutor() as pool,
    ):
        entries = targets(server.fleet, server.port)
        listed = [{"url": entry["targets"][0], "labels": entry["labels"]} for entry in entries]
        options = Options.model_validate({"name": "demo", "targets": listed, **demo_options(at.date())})
        slow = {each.address for each in server.fleet if each.behaviour is Behaviour.SLOW}
        # In a thread: a browser test, and the server that imports frozen_app.py, have an event loop already.
        polling = _polled(pool.submit(discover_once, options).result().targets, options.poll, slow, at)
        snapshots = [_timeless(each) for each in pool.submit(asyncio.run, polling).result()]
        if is_used:
            window = options.traffic.window_seconds
            snapshots = [replace(each, traffic=_traffic(server, each, at.timestamp(), window)) for each in snapshots]
    policy = policy_of(options)
    return build_fleet(options.name, snapshots, polled_at=at, interval=timedelta(seconds=15), policy=policy)


def _traffic(server: DemoServer, snapshot: Snapshot, at: float, seconds: float) -> Mapping[int, Traffic]:
    """Return what the engines of a replica counted in a window, or since its start."""
    process, used = server.process(urlsplit(snapshot.target.id).hostname or ""), ReplicaTraffic()
    if process.replica.behaviour is Behaviour.NORMAL:
        for time in (max(at - seconds, process.started_at), at):
            used.add(time, read_counts(process.answer("GET", "/metrics", None, time).body), seconds)
    return used.traffic


async def _polled(targets: Sequence[Target], usual: PollOptions, slow: set[str], at: datetime) -> list[Snapshot]:
    """Poll slow hosts separately with a short timeout: only they are expected to time out."""
    patient = {"replica_timeout_seconds": PATIENCE_SECONDS, "poll_timeout_seconds": PATIENCE_SECONDS}
    found: dict[str, Snapshot] = {}
    for seconds, wanted in ((SLOW_TIMEOUT_SECONDS, True), (PATIENCE_SECONDS, False)):
        asked = [each for each in targets if (urlsplit(each.id).hostname in slow) is wanted]
        limits = usual.model_copy(update={**patient, "probe_timeout_seconds": seconds})
        for _ in range(MOST_POLLS if wanted else 1):  # on a busy machine a slow answer may not even begin in time
            polled = await Poller(limits).poll(asked, lambda: at)
            failed = [probe for each in polled for probe in each.probes.values() if probe.failure]
            if all(
                BEGUN in probe.failure.detail and probe.size_bytes >= SLOW_BYTES for probe in failed if probe.failure
            ):
                break
        found |= {each.target.id: each for each in polled}
    return [found[each.id] for each in targets]


@contextmanager
def _alone(port: int) -> Iterator[None]:
    """Lock the port for this process."""
    with (Path(gettempdir()) / f"vllm-fleet-dashboard-tests-{port}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _timeless(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, probes={path: _timeless_result(each) for path, each in snapshot.probes.items()})


def _timeless_result(result: ProbeResult) -> ProbeResult:
    result = replace(result, elapsed_seconds=ANSWER_SECONDS)
    if result.failure is None or BEGUN not in result.failure.detail:
        return result
    return replace(result, raw=result.raw[:SLOW_BYTES], size_bytes=SLOW_BYTES)
