"""How fast 1,000 and 5,000 replicas are asked, as ratios: nginx serves captured answers on loopback addresses.

Run it with `python -m tests.benchmarks.bench_network`; it needs nginx.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import aiohttp
import httpx2

from dashboard.analysis.assembly import Fleet
from dashboard.config import PollOptions
from dashboard.fleet import Target
from dashboard.sources.http.client import Client
from dashboard.sources.polling.poller import Poller
from dashboard.sources.polling.probes import PROBES
from tests import captured
from tests.benchmarks.nginx import nginx
from tests.captured import METRICS, MODELS, SERVER_INFO, VERSION
from tests.polled_fleets import build_fleet
from tests.serving import ROOT

CAPTURE = captured.FOLDER / "0.32.0" / "llama"
REPLICAS, MANY = 1_000, 5_000  # MANY: of later polls
CONNECTIONS = 100
ROUNDS = 3  # the best counts: what disturbs a measurement only ever adds to it
PROVIDER = ROOT / "tests" / "provider" / "answers" / "0.33.0" / "llama_eagle.json"
WITH_PROVIDER = "/provider"  # path prefix of the same replicas with our provider
TWO = (METRICS, MODELS)  # the requests of a later poll at commit 6929f590
# Processor time of a later poll at 6929f590, in that of plain aiohttp for TWO: of 1,000 replicas the median of four
# runs, 2.4 to 2.8; of 5,000 one run, 3.4. The smaller one counts.
LATER_BEFORE = 2.6
FOUR = (METRICS, SERVER_INFO, VERSION, MODELS)
FILES = {path.partition("?")[0]: file for path, file in captured.FILES.items() if (CAPTURE / file).exists()}
KEPT_ALIVE = (
    "sendfile on; tcp_nopush on; keepalive_timeout 60; keepalive_requests 100000; open_file_cache max=100; etag off;"
)
LIMITS = PollOptions(
    interval_seconds=1,  # later polls are spread over a quarter of it
    probe_timeout_seconds=60,
    replica_timeout_seconds=60,
    poll_timeout_seconds=600,
    full_poll_interval_seconds=300,
    connections=CONNECTIONS,
    max_answer_bytes=4 * 2**20,
    max_headers=100,
)


class Cost(NamedTuple):
    """What one round took: seconds on the wall, and of this process' CPU."""

    wall: float
    cpu: float


@contextmanager
def serving() -> Iterator[int]:
    """Serve the capture on every loopback address, and with our provider below WITH_PROVIDER; yield the port."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in FILES.values():
            shutil.copyfile(CAPTURE / file, folder / file)  # nginx's worker may not read the repository
        shutil.copyfile(PROVIDER, folder / "provider.json")
        for file in ("server_info.json", "provider.json"):  # with equal ids they are one process with many addresses
            content = (folder / file).read_text()
            (folder / file).write_text(content.replace("instance_id", "instance"))
        provided = {**FILES, "/inference/v1/config": "provider.json"}
        locations = " ".join(
            f"location = {prefix}{path} {{ alias {folder}/{file}; {'etag on;' if file == 'provider.json' else ''} }}"
            for prefix, files in (("", FILES), (WITH_PROVIDER, provided))
            for path, file in files.items()
        )
        with nginx(folder, locations, KEPT_ALIVE) as port:
            yield port


async def _fan_out(targets: Sequence[Target], ask: Callable[[Target], Awaitable[None]], workers: int) -> None:
    waiting = iter(targets)

    async def work() -> None:
        for target in waiting:
            await ask(target)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())


async def plain_aiohttp(targets: Sequence[Target], paths: Sequence[str] = FOUR) -> None:
    """Ask with aiohttp alone, without any limit."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS)) as session:

        async def ask(target: Target) -> None:
            for path in paths:
                async with session.get(target.id + path) as response:
                    assert await response.read()

        await _fan_out(targets, ask, CONNECTIONS)


async def plain_httpx2(targets: Sequence[Target]) -> None:
    """Ask with httpx2 and its own transport, without any limit."""
    async with httpx2.AsyncClient(
        limits=httpx2.Limits(max_connections=CONNECTIONS), trust_env=False, timeout=60
    ) as client:

        async def ask(target: Target) -> None:
            for path in FOUR:
                assert (await client.get(target.id + path)).content

        await _fan_out(targets, ask, CONNECTIONS)


async def our_client(targets: Sequence[Target]) -> None:
    """Ask with our client and all its limits."""
    async with Client(
        connections=CONNECTIONS,
        max_answer_bytes=LIMITS.max_answer_bytes,
        max_headers=LIMITS.max_headers,
    ) as client:

        async def ask(target: Target) -> None:
            for path in FOUR:
                assert (await client.get(target, path, 60, last=path == FOUR[-1])).failure is None

        await _fan_out(targets, ask, CONNECTIONS)


async def _timed(work: Awaitable[object]) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    await work
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def _best(run: Callable[[], Awaitable[object]]) -> Cost:
    async def once() -> Cost:
        return await _timed(run())

    costs = [asyncio.run(once()) for _ in range(ROUNDS)]
    return _least(costs)


def _least(costs: Sequence[Cost]) -> Cost:
    return Cost(min(cost.wall for cost in costs), min(cost.cpu for cost in costs))


async def _polls(targets: Sequence[Target]) -> tuple[Cost, Cost]:
    """Return the cost of the first refresh of a fleet, and of one of the light ones after it."""
    poller = Poller(LIMITS)
    fleets: list[Fleet] = []

    async def refresh() -> None:
        now = datetime.now(UTC)
        snapshots = await poller.poll(targets, lambda: now)
        before = fleets[-1] if fleets else None
        interval = timedelta(seconds=LIMITS.interval_seconds)
        fleets.append(build_fleet("bench", snapshots, polled_at=now, interval=interval, before=before))

    first = await _timed(refresh())
    gc.collect()
    gc.freeze()  # as the service does after its first poll
    later = [await _timed(refresh()) for _ in range(ROUNDS)]
    gc.unfreeze()
    return first, _least(later)


def poll_command(targets: Sequence[Target]) -> Cost:
    """Return the cost of the whole command `poll`, from the start of its process to its end."""
    with tempfile.TemporaryDirectory() as folder:
        options = Path(folder) / "fleet.yaml"
        options.write_text("targets:\n" + "".join(f"  - {target.id}\n" for target in targets))
        command = (sys.executable, "-m", "dashboard", "poll", "--config", str(options), "--format", "json")
        wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - wall, spent)


def main() -> int:
    """Print the table; return 1 when a budget is exceeded."""
    with serving() as port:
        many = [Target(f"http://127.1.{i // 250}.{i % 250 + 1}:{port}") for i in range(MANY)]
        targets = many[:REPLICAS]
        aio = _best(lambda: plain_aiohttp(targets))
        two = _best(lambda: plain_aiohttp(many, TWO))
        ours = _best(lambda: our_client(targets))
        default = _best(lambda: plain_httpx2(targets))
        command = _least([poll_command(targets) for _ in range(ROUNDS)])
        polls = [asyncio.run(_polls(targets)) for _ in range(ROUNDS)]
        direct = asyncio.run(_polls(many))[1]
        with_provider = asyncio.run(_polls([Target(target.id + WITH_PROVIDER) for target in many]))[1]
    first, later = _least([first for first, _ in polls]), _least([later for _, later in polls])
    share, share_provided = (each.cpu / two.cpu for each in (direct, with_provider))
    rows = (
        ("plain aiohttp, four documents", aio, ""),
        ("our client, four documents", ours, f"{ours.wall / aio.wall:.1f} x plain aiohttp (budget 3.5)"),
        (
            "httpx2 default transport, four documents",
            default,
            f"{default.wall / ours.wall:.1f} x ours (budget 5 or more)",
        ),
        ("the whole command `poll`", command, f"{command.wall / aio.wall:.1f} x plain aiohttp (budget 4.8)"),
        (
            f"first refresh, {len(PROBES)} probes, 404s included",
            first,
            f"{first.wall:.1f} s to the finished fleet (budget 4 for known documents, 10 with 404s)",
        ),
        ("next refresh, nothing restarted", later, f"{later.cpu / first.cpu:.2f} of the first one's CPU (budget 0.33)"),
        (f"plain aiohttp, two documents, {MANY:,}", two, "what a later poll asked for before"),
        (f"next refresh of {MANY:,}", direct, _against_before(share)),
        (f"next refresh of {MANY:,} with the provider", with_provider, _against_before(share_provided)),
    )
    print(f"{REPLICAS:,} replicas on loopback, {CONNECTIONS} connections, best of {ROUNDS}")
    for name, cost, ratio in rows:
        print(f"{name:42} {cost.wall:6.2f} s  {cost.cpu:6.2f} s CPU  {ratio}")
    over = (
        ours.wall > 3.5 * aio.wall,
        command.wall > 4.8 * aio.wall,
        default.wall < 5 * ours.wall,
        first.wall > 10,
        later.cpu > first.cpu / 3,
    )
    return int(any(over) or max(share, share_provided) > LATER_BEFORE / 2)


def _against_before(share: float) -> str:
    return f"{share:.2f} x two documents; at 6929f590 {LATER_BEFORE} (budget {LATER_BEFORE / 2:.2f})"


if __name__ == "__main__":
    sys.exit(main())
