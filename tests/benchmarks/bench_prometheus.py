"""Polls of 10,000 replicas that a real Prometheus server scrapes: processor time, memory, and the Overview.

Run it with `python -m tests.benchmarks.bench_prometheus`; it needs prometheus, nginx, Chromium and Linux. A poll is
what the collector does: discovery, the replicas that are asked directly, and the fleet with its findings. Before each
poll 1% of the replicas change. The same polls of 1,000 replicas with as many documents are the measure. Once a minute
a poll reads the counters of use of all replicas, too.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from dashboard.config import Options
from dashboard.service import Collector
from tests.benchmarks.bench_pages import drawn
from tests.benchmarks.measures import Row, print_table, process_megabytes, served
from tests.benchmarks.scraped_replicas import DOCUMENTS, FEW, INTERVAL_SECONDS, MANY, scraped
from tests.browser import chromium
from tests.serving import started

ROUNDS = 8  # two of them read counters; the best counts: what disturbs a measurement only ever adds to it
POLL_SECONDS = 15.0  # the default
PATIENCE_SECONDS = 120.0  # for an answer of Prometheus, which scrapes 10,000 replicas on the same processors
WARMING = round(INTERVAL_SECONDS / POLL_SECONDS)  # polls until each one sees as many changes as are made
TIMES, SECONDS_A_REPLICA = 1.5, 20e-6  # of a poll of 1,000, and in addition for each of 10,000
COUNTING_A_REPLICA = 60e-6  # of a poll that reads counters, besides one that does not; 40e-6 when it was written
MEMORY, OVERVIEW = 600.0, 1.5  # MB, seconds
SELECTORS = {FEW: '{part="few"}', MANY: "{}"}


def main() -> int:
    """Print the table; return 1 if a budget is exceeded."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(scraped(folder))
        with ExitStack() as polling:
            pollers = {number: polling.enter_context(_poller(server.url, number)) for number in SELECTORS}
            first = {number: next(polls) for number, polls in pollers.items()}
            later: dict[int, list[float]] = {number: [] for number in SELECTORS}
            counting: dict[int, list[float]] = {number: [] for number in SELECTORS}
            for turn in range(1, WARMING + ROUNDS + 1):
                server.replicas.change(turn)
                time.sleep(POLL_SECONDS)
                for number, polls in pollers.items():
                    poll = next(polls)
                    (counting if poll["counted"] else later)[number].append(poll["seconds"])
            server.wait_for_scrapes()
            anew = {number: next(polls)["seconds"] for number, polls in pollers.items()}
        few, many = (min(later[number][WARMING:]) for number in SELECTORS)
        few_counting, many_counting = (min(counting[number]) for number in SELECTORS)
        for number, poll in first.items():
            print(f"first poll of {number:,} replicas in {DOCUMENTS} documents: {poll['seconds']:.2f} s")
        print(f"later polls of {FEW:,}: {few:.3f} s; best of {ROUNDS}, processor time")
        print(f"polls that read counters: {FEW:,} {few_counting:.3f} s, {MANY:,} {many_counting:.3f} s")
        print(f"where every replica was scraped since: {FEW:,} {anew[FEW]:.3f} s, {MANY:,} {anew[MANY]:.3f} s")
        name = f"a poll of {MANY:,}, s; {TIMES} x that of {FEW:,} + {SECONDS_A_REPLICA * 1e6:.0f} µs a replica"
        rows = [
            Row(name, many, TIMES * few + SECONDS_A_REPLICA * MANY),
            Row(f"counters of {MANY:,}, s more once a minute", many_counting - many, COUNTING_A_REPLICA * MANY),
            *_overview_rows(server.url),
        ]
    return print_table(rows)


@contextmanager
def _poller(url: str, number: int) -> Iterator[Iterator[Mapping[str, Any]]]:
    """Start a collector in its own process; each item is what its next poll took."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_prometheus", url, SELECTORS[number]]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout

        def polls() -> Iterator[Mapping[str, Any]]:
            while True:
                print(file=process.stdin, flush=True)
                poll = json.loads(process.stdout.readline())  # type: ignore[union-attr]
                assert poll["up"] == number, poll
                yield poll

        yield polls()


async def _poll_when_asked(url: str, selector: str) -> None:
    """Poll once for each line of the standard input, and print what it took."""
    collector = Collector(
        Options.model_validate(
            {"prometheus": [{"url": url, "selector": selector, "timeout_seconds": PATIENCE_SECONDS}]}
        )
    )
    for _ in sys.stdin:
        began = time.process_time()
        await collector._refresh(time.monotonic())
        seconds = time.process_time() - began
        fleet = collector.fleet
        poll = {"up": fleet.coverage.up, "counted": len(fleet.counted), "failures": fleet.discovery_errors}
        print(json.dumps({"seconds": seconds, **poll}), flush=True)


def _overview_rows(url: str) -> list[Row]:
    """Serve the dashboard of all replicas; return the time of its Overview, and its memory after some polls."""
    with (
        served({"prometheus": [{"url": url, "timeout_seconds": PATIENCE_SECONDS}]}) as (address, pid),
        chromium() as browser,
    ):
        return [
            Row(f"Overview of {MANY:,} drawn warm, s", drawn(browser, f"{address}/"), OVERVIEW),
            Row("most memory of the server, MB", process_megabytes(pid, "VmHWM"), MEMORY),
        ]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(_poll_when_asked(*sys.argv[1:]))
    else:
        sys.exit(main())
