"""What the counters of use cost at 1,000 replicas: processor time as ratios, and memory.

Run it with `python -m tests.benchmarks.bench_traffic`; it needs nginx. What they cost at 10,000 replicas that
Prometheus scrapes is in `bench_prometheus`.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from dashboard.config import TrafficOptions
from dashboard.fleet import Target
from dashboard.fleet.traffic import ReplicaTraffic
from dashboard.sources.polling.poller import Poller
from dashboard.vllm.traffic import read_counts
from tests.benchmarks.bench_network import KEPT_ALIVE, LIMITS, REPLICAS, plain_aiohttp
from tests.benchmarks.measures import Row, print_table, processor_seconds
from tests.benchmarks.nginx import nginx
from tests.captured import METRICS, MODELS, capture
from tests.provider_answers import provider_body
from tests.serving import ROOT

PAGE = (ROOT / "tests" / "traffic" / "0.33.0" / "llama" / "second.txt").read_bytes()
HITS = b'vllm:prefix_cache_hits_total{engine="0",model_name="./llama"} '
PROVIDER = "/inference/v1/config"
TRAFFIC = TrafficOptions()  # the default
OFTEN = 5.0  # seconds between two reads, of which the memory is measured, too
ROUNDS = 7  # the best counts: what disturbs a measurement only ever adds to it
COUNTING, READING, MEMORY = 0.3, 1.3, 30.0  # of fetching the pages, of fetching the pages, MB
SELDOM_FULL = LIMITS.model_copy(update={"full_poll_interval_seconds": 86_400})


@contextmanager
def serving() -> Iterator[int]:
    """Serve a page and an answer of our provider, by its ETag, on every loopback address; yield the port."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "metrics").write_bytes(PAGE)
        (folder / "provider").write_bytes(provider_body(capture("llama")))
        (folder / "models").write_text('{"data": [{"id": "m", "object": "model"}]}')
        files = {METRICS: "metrics", PROVIDER: "provider", MODELS: "models"}
        locations = " ".join(
            f"location = {path} {{ alias {folder}/{file}; {'etag on;' if path == PROVIDER else ''} }}"
            for path, file in files.items()
        )
        with nginx(folder, locations, KEPT_ALIVE) as port:
            yield port


class Polls:
    """Polls of replicas with our provider, by a clock that is set."""

    def __init__(self, targets: Sequence[Target]) -> None:
        """Ask every path once."""
        self._targets = targets
        self._seconds = 0.0
        self._poller = Poller(SELDOM_FULL, lambda: self._seconds, TRAFFIC)
        self._poll()

    def seconds(self, *, counting: bool) -> float:
        """Return the processor time of the next poll, which reads the counters or does not."""
        self._seconds += TRAFFIC.interval_seconds if counting else 1
        return processor_seconds(self._poll)

    def _poll(self) -> None:
        snapshots = asyncio.run(self._poller.poll(self._targets, lambda: datetime.now(UTC)))
        assert all(each.probes[METRICS].reply for each in snapshots)
        assert bool(snapshots[0].counted) == (self._seconds > 0 and self._poller._counted_at == self._seconds)


def windows(seconds: float, replicas: int = REPLICAS) -> tuple[list[ReplicaTraffic], float]:
    """Return the traffic of replicas after a whole window that was read so often, and the MB of REPLICAS such."""
    tracemalloc.start()
    found = [ReplicaTraffic() for _ in range(replicas)]
    for turn in range(round(TRAFFIC.window_seconds / seconds) + 1):
        page = PAGE.replace(HITS, HITS + b"%d" % turn)
        for each in found:
            each.add(turn * seconds, read_counts(page), TRAFFIC.window_seconds)
    megabytes = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    return found, megabytes * REPLICAS / replicas


def main() -> int:
    """Print the table; return 1 when a budget is exceeded."""
    known, by_minute = windows(TRAFFIC.interval_seconds)
    _, often = windows(OFTEN, REPLICAS // 5)
    at = TRAFFIC.window_seconds

    def count() -> None:
        nonlocal at
        at += TRAFFIC.interval_seconds
        for each in known:
            each.add(at, read_counts(PAGE), TRAFFIC.window_seconds)

    with serving() as port:
        targets = [Target(f"http://127.1.{i // 250}.{i % 250 + 1}:{port}") for i in range(REPLICAS)]
        polls = Polls(targets)
        rounds = [
            (
                processor_seconds(lambda: asyncio.run(plain_aiohttp(targets, (METRICS,)))),
                processor_seconds(count),
                polls.seconds(counting=False),
                polls.seconds(counting=True),
            )
            for _ in range(ROUNDS)
        ]
    fetching, counting, quiet, reading = map(min, zip(*rounds, strict=True))
    print(f"{REPLICAS:,} pages of {len(PAGE):,} bytes by plain aiohttp: {fetching:.3f} s of processor time")
    print(f"poll by ETag: {quiet:.3f} s, poll that reads the counters: {reading:.3f} s; best of {ROUNDS}")
    return print_table(
        [
            Row("reading the counters of pages that a poll has, x fetching them", counting / fetching, COUNTING),
            Row("poll that reads pages besides a poll by ETag, x fetching them", (reading - quiet) / fetching, READING),
            Row("memory of the windows with the default options, MB", by_minute, MEMORY),
            Row(f"memory of the windows, read every {OFTEN:.0f} s, MB", often, MEMORY),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
