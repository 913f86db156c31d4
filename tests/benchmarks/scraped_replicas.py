"""Replicas that nginx serves on loopback addresses and a real Prometheus server scrapes.

Each has the series that the dashboard reads, and the answers of one of the documents. Linux only: all of 127.0.0.0/8 is
local there.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2

from dashboard.demo.answers import DemoProcess
from dashboard.demo.describe import Configuration, DemoReplica
from dashboard.demo.pages import render
from dashboard.demo.story import CHAT_SETTINGS, H100, LLAMA_70B, PROVIDER
from dashboard.vllm.traffic import METRICS
from tests.benchmarks.nginx import nginx
from tests.serving import ROOT
from tests.sources.prometheus_server import prometheus

MANY, FEW, DOCUMENTS, POOLS = 10_000, 1_000, 60, 8
STEP = 97  # of 97 replicas one changes between two polls; a prime number, so that some of each pool do
INTERVAL_SECONDS = 60  # between two scrapes of a replica: Prometheus' default
PATIENCE_SECONDS = 300.0
# What the dashboard reads of /metrics; Prometheus would keep the other 580 lines, too.
READ = (b"vllm:cache_config_info{", b"vllm_fleet_config_info{", b"process_start_time_seconds ")
COUNTERS = tuple(f"{metric}{{".encode() for metric in METRICS.values())
TRAFFIC = (ROOT / "tests" / "traffic" / "0.33.0" / "llama" / "second.txt").read_bytes()
PATHS = {
    "/v1/models": "",
    "/version": "",
    "/kv_event_sources": "",
    "/inference/v1/config": "full=true",
}


class Replicas:
    """The files that nginx serves. Replica `number` has document `number % DOCUMENTS`."""

    def __init__(self, folder: Path) -> None:
        """Write the answers of each document, and the series of each replica."""
        self._folder = folder
        self._metrics, self._documents = folder / "metrics", folder / "documents"
        self._metrics.mkdir()
        self._documents.mkdir()
        self._pages = [self._write_document(folder, number) for number in range(DOCUMENTS)]
        for number in range(MANY):
            self._write(number, number % DOCUMENTS, 0)

    def change(self, turn: int) -> None:
        """Change 1% of the replicas: half of them have another document, the others another size of the cache."""
        for number in range(turn, MANY, STEP):
            document = number % DOCUMENTS
            other = (document + POOLS) % DOCUMENTS if number % 2 else document
            self._write(number, other, turn)

    def _write_document(self, folder: Path, document: int) -> bytes:
        """Return the series of a replica with this document."""
        settings = {**CHAT_SETTINGS, "scheduler_config.max_num_seqs": 128 + document}
        configuration = Configuration(
            "chat-70b", LLAMA_70B, H100, tensor_parallel_size=4, settings=tuple(settings.items())
        )
        replica = DemoReplica(address_of(document), f"{document}", configuration, speaks=PROVIDER)
        process = DemoProcess.start(replica, render(configuration, PROVIDER), time.time() - 86_400)
        own = folder / str(document)
        own.mkdir()
        for path, query in PATHS.items():
            (own / file_of(path)).write_bytes(process.answer("GET", path, None, time.time(), query).body)
        page = process.answer("GET", "/metrics", None, time.time()).body
        lines = [line for line in page.splitlines() if line.startswith(READ)]
        lines += [line for line in TRAFFIC.splitlines() if line.startswith(COUNTERS)]
        return b"".join(line + b"\n" for line in lines)

    def _write(self, number: int, document: int, turn: int) -> None:
        page = self._pages[document]
        start = page.index(b'num_gpu_blocks="') + len(b'num_gpu_blocks="')
        end = page.index(b'"', start)
        blocks = int(page[start:end]) + turn
        part = self._metrics / "part"
        part.write_bytes(page[:start] + b"%d" % blocks + page[end:])
        part.rename(self._metrics / address_of(number))
        link = self._documents / "part"
        link.symlink_to(self._folder / str(document))
        link.rename(self._documents / address_of(number))


def address_of(number: int) -> str:
    """Return the address of a replica."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def file_of(path: str) -> str:
    """Return the name of the file with the answer of a path."""
    return path.strip("/").replace("/", "-")


class Scraped(NamedTuple):
    """The replicas, and the URL of the Prometheus server that scrapes them."""

    replicas: Replicas
    url: str

    def wait_for_scrapes(self) -> None:
        """Wait until every replica was scraped anew."""
        now = time.time()
        query = f"count(timestamp(vllm_fleet_config_info) > {now:.3f})"
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < ends_at:
            answer = httpx2.post(f"{self.url}/api/v1/query", data={"query": query}, trust_env=False, timeout=60)
            found = answer.json()["data"]["result"]
            if found and int(found[0]["value"][1]) == MANY:
                return
            time.sleep(1)
        raise TimeoutError(f"Prometheus did not scrape {MANY:,} replicas within {PATIENCE_SECONDS:.0f} s")


@contextmanager
def scraped(folder: Path) -> Iterator[Scraped]:
    """Serve and scrape the replicas. The first FEW have the label part="few"."""
    served = folder / "served"
    served.mkdir()
    replicas = Replicas(served)
    metrics = f'alias {served}/metrics/$server_addr; default_type "text/plain; version=0.0.4";'
    locations = [f"location = /metrics {{ {metrics} }}"]
    locations += [f"location = {path} {{ alias {served}/documents/$server_addr/{file_of(path)}; }}" for path in PATHS]
    with (
        nginx(folder, " ".join(locations), "keepalive_timeout 0;") as port,
        prometheus(folder, _groups(port), f"{INTERVAL_SECONDS}s") as url,
    ):
        server = Scraped(replicas, url)
        server.wait_for_scrapes()
        yield server


def _groups(port: int) -> Iterator[Mapping[str, object]]:
    """Yield the targets of each pool."""
    for few in (True, False):
        numbers = range(FEW) if few else range(FEW, MANY)
        for pool in range(POOLS):
            found = [f"{address_of(each)}:{port}" for each in numbers if each % DOCUMENTS % POOLS == pool]
            labels = {"pool": f"pool-{pool}", "part": "few" if few else "rest"}
            yield {"targets": found, "labels": labels}
