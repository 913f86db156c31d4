"""A hub of 20 clusters with 500 replicas each: its polls, what follows from them, its memory and its pages.

Run it with `python -m tests.benchmarks.bench_hub`; the last part needs Chromium. Documents of simulated fleets are
served by this process; before each poll 1% of the replicas change, and the times of all. Reading and parsing the same
documents is the measure of a poll.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

from pydantic_core import from_json

from dashboard.config import Options, PollOptions
from dashboard.demo import default_fleet, in_thread, targets
from dashboard.demo.describe import Behaviour
from dashboard.documents.fleet import fleet_json
from dashboard.documents.reported import MOST_BYTES
from dashboard.garbage import uncollected
from dashboard.service import Collector, poll_once
from dashboard.sources.dashboards import PACKED, PATH, QUERY
from dashboard.sources.discovery import discover_once
from dashboard.sources.http.client import Client
from dashboard.sources.http.failures import endpoint_of
from tests.benchmarks.bench_pages import drawn
from tests.benchmarks.measures import Row, print_table, process_megabytes, served
from tests.browser import chromium
from tests.serving import started

CLUSTERS, REPLICAS, STEP = 20, 500, 100  # of 100 replicas one changes between two polls
ROUNDS = 5  # the best counts: what disturbs a measurement only ever adds to it
TIMES, PLAN_SECONDS, MEMORY, OVERVIEW = 2.0, 1.0, 900.0, 1.5  # of reading and parsing; seconds, MB, seconds
SOURCE_SECONDS = 120.0


class Documents:
    """The documents of the clusters: those of one simulated fleet, with other addresses in each."""

    def __init__(self) -> None:
        fleet = [each for each in default_fleet(2 * REPLICAS) if each.behaviour is Behaviour.NORMAL][:REPLICAS]
        with in_thread(fleet) as server:
            listed = [{"url": each["targets"][0], "labels": each["labels"]} for each in targets(fleet, server.port)]
            options = Options.model_validate({"targets": listed})
            polled = poll_once(options, discover_once(options))
        self._found = json.loads(fleet_json(polled, datetime.now(UTC), full=True))
        self.answers: dict[str, bytes] = {}
        self.change(0)

    def change(self, turn: int) -> None:
        """Make the documents of the next poll."""
        now = datetime.now(UTC).isoformat()
        self._found["data_as_of"] = now
        for number, row in enumerate(self._found["replicas"]):
            row["observed_at"] = now
            for probe in row["probes"]:
                probe["observed_at"] = now
            if number % STEP == turn % STEP:
                row["started_at"] = now
        whole = json.dumps(self._found, separators=(",", ":")).replace("http://127.1.", "http://10.{}.")
        self.size = len(whole)
        for number in range(CLUSTERS):
            self.answers[f"/{number}{PATH}{QUERY}"] = gzip.compress(
                whole.replace("10.{}.", f"10.{number}.").encode(), 1
            )
        self.turn = turn


@contextmanager
def serving(documents: Documents) -> Iterator[str]:
    """Serve the documents; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            etag, body = f'"{documents.turn}"', documents.answers[self.path]
            is_known = self.headers.get("If-None-Match") == etag
            self.send_response(304 if is_known else 200)
            self.send_header("ETag", etag)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", "0" if is_known else str(len(body)))
            self.end_headers()
            self.wfile.write(b"" if is_known else body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def options_of(url: str) -> dict[str, Any]:
    clusters = [{"url": f"{url}/{each}", "labels": {"cluster": f"c{each}"}} for each in range(CLUSTERS)]
    return {"dashboards": clusters, "history": {"enabled": False}}


def main() -> int:
    """Print the table; return 1 if a budget is exceeded."""
    documents = Documents()
    with serving(documents) as url:
        polls: list[Mapping[str, Any]] = []
        command = [sys.executable, "-m", "tests.benchmarks.bench_hub", url]
        with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin
            assert process.stdout
            for turn in range(ROUNDS + 1):
                documents.change(turn + 1)
                print(file=process.stdin, flush=True)
                polls.append(json.loads(process.stdout.readline()))
                assert polls[-1]["replicas"] == CLUSTERS * REPLICAS, polls[-1]
            memory = process_megabytes(process.pid, "VmHWM")
        first, *later = polls
        print(f"{CLUSTERS} documents of {REPLICAS} replicas and {documents.size / 1e6:.1f} MB")
        print("first poll: " + ", ".join(f"{name} {first[name]:.2f} s" for name in ("parse", "poll", "plan", "same")))
        best = {name: min(each[name] for each in later) for name in ("parse", "poll", "plan", "same")}
        rows = [
            Row("a poll, times reading and parsing its documents", best["poll"] / best["parse"], TIMES),
            Row("a poll without a change, times the same", best["same"] / best["parse"], TIMES / 20),
            Row("from the poll to the plan, s", best["plan"], PLAN_SECONDS),
            Row("most memory of the poller, MB", memory, MEMORY),
        ]
        with served(options_of(url)) as (address, pid), chromium() as browser:
            rows.append(Row("Overview drawn warm, s", drawn(browser, f"{address}/"), OVERVIEW))
            rows.append(Row("most memory of the server, MB", process_megabytes(pid, "VmHWM"), MEMORY))
    return print_table(rows)


async def _read(url: str) -> None:
    """Read and parse all documents, and nothing else."""
    async with Client(
        connections=CLUSTERS, max_answer_bytes=MOST_BYTES, max_headers=PollOptions().max_headers
    ) as client:
        for each in options_of(url)["dashboards"]:
            endpoint = endpoint_of(each["url"], PATH)._replace(query=QUERY)
            answer = await client.fetch(endpoint, SOURCE_SECONDS, limit=MOST_BYTES, headers=PACKED)
            with uncollected():
                from_json(answer.body)


async def _poll_when_asked(url: str) -> None:
    """Poll once for each line of the standard input, and print what its parts took in processor time."""
    collector = Collector(Options.model_validate(options_of(url)))
    for _ in sys.stdin:
        times = [time.process_time()]
        await _read(url)
        times.append(time.process_time())
        await collector.discovery.discover(datetime.now(UTC))
        times.append(time.process_time())
        await collector._refresh(time.monotonic())  # the documents did not change since
        times.append(time.process_time())
        await collector.discovery.discover(datetime.now(UTC))
        times.append(time.process_time())
        parse, poll, plan, same = (after - before for before, after in pairwise(times))
        found = {"parse": parse, "poll": poll, "plan": plan - same, "same": same}
        print(json.dumps({**found, "replicas": len(collector.fleet.replicas)}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(_poll_when_asked(*sys.argv[1:]))
    else:
        sys.exit(main())
