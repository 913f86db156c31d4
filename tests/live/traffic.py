"""Requests with shared prefixes to live servers, what their answers say, and the dashboard that reads counters."""

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from dashboard.analysis.assembly import Fleet
from dashboard.config import Options
from dashboard.service import Collector
from tests.live.servers import ANSWER_SECONDS, Server
from tests.serving import END_SECONDS, wait_for

DETAILS = ("--enable-prompt-tokens-details",)  # answers then have `cached_tokens`
BLOCK = 128  # tokens of vLLM for CPUs
PREFIX, REST = 4 * BLOCK, 70  # tokens
SETTLING_POLLS = 6  # of a second each: the counters of an engine follow its last step, and are read in every other poll


class Usage(NamedTuple):
    """The sums of `usage` in the answers to some requests, in tokens."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0


def prompts(number: int, groups: int, first: int = 0) -> list[list[int]]:
    """Return different prompts; those of one group begin with the same PREFIX tokens. `first` (to 100): others."""
    return [
        [first + each % groups + 3 * place % 900 for place in range(PREFIX)]
        + [(17 * (first + each) + place) % 1000 for place in range(REST)]
        for each in range(number)
    ]


def in_turn(servers: Sequence[Server]) -> Callable[[Sequence[int]], Server]:
    """Return a router that gives each server the next request, as round-robin does."""
    turn = iter(range(10**9))
    return lambda _prompt: servers[next(turn) % len(servers)]


@contextmanager
def by_kv_events(servers: Mapping[str, Server], venv: Path) -> Iterator[Callable[[Sequence[int]], Server]]:
    """Yield a router to servers by the endpoint of their KV events: to the one with most of the blocks of a prompt.

    It computes block hashes with sha256_cbor. A prompt of which none has a block goes to the next server in turn.
    """
    command = [str(venv / "bin" / "python"), str(Path(__file__).with_name("kv_index.py")), str(BLOCK), *servers]
    names, fallback = list(servers.values()), in_turn([*servers.values()])
    index = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert index.stdin is not None
    assert index.stdout is not None
    asked, answered = index.stdin, index.stdout

    def route(prompt: Sequence[int]) -> Server:
        print(json.dumps(list(prompt)), file=asked, flush=True)
        blocks = json.loads(answered.readline())
        return names[blocks.index(max(blocks))] if any(blocks) else fallback(prompt)

    try:
        yield route
    finally:
        asked.close()
        answered.close()
        index.wait(END_SECONDS)


def send(wanted: Iterable[list[int]], route: Callable[[list[int]], Server]) -> Mapping[str, Usage]:
    """Send prompts one after another, so that each can find the blocks of those before; return the usage by server."""
    usages: dict[str, Usage] = {}
    models: dict[str, str] = {}
    with httpx2.Client(timeout=ANSWER_SECONDS, trust_env=False) as client:
        for prompt in wanted:
            server = route(prompt)
            url = server.url
            models[url] = models.get(url) or server.json("/v1/models")["data"][0]["id"]
            body = {"model": models[url], "prompt": prompt, "max_tokens": 2, "temperature": 0, "ignore_eos": True}
            answer = client.post(f"{url}/v1/completions", json={**body, "detokenize": False})
            usage = answer.raise_for_status().json()["usage"]
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
            before = usages.get(url, Usage())
            usages[url] = Usage(
                before.requests + 1, before.prompt_tokens + usage["prompt_tokens"], before.cached_tokens + cached
            )
    return usages


def counted(server: Server, name: str) -> float:
    """Return the sum of all series of a counter of vLLM, as the parser of the Prometheus client reads it."""
    families = text_string_to_metric_families(server.get("/metrics").text)
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


@contextmanager
def watching(servers: Sequence[Server], router: str | None = None, window: float = 900) -> Iterator[Collector]:
    """Run the dashboard's collector, which reads counters in each poll of a second; yield it after the first one.

    `window` is that of the counters, in seconds.
    """
    targets = [{"url": each.url, "labels": {"name": each.kind.name}} for each in servers]
    options = {
        "targets": targets,
        "poll": {"interval_seconds": 1},
        "traffic": {"interval_seconds": 1, "window_seconds": window},
        "history": {"enabled": False},
        "pools": {"*": {"router": router}} if router else {},
    }
    collector = Collector(Options.model_validate(options))
    collector.start()
    try:
        wait_for(lambda: collector.progress.polls > 0)
        yield collector
    finally:
        collector.stop()


def settled(collector: Collector) -> Fleet:
    """Return the fleet as it is when the counters of requests that were answered have been read."""
    enough = collector.progress.polls + SETTLING_POLLS
    wait_for(lambda: collector.progress.polls >= enough)
    return collector.fleet


def after_a_whole_window(collector: Collector) -> Fleet:
    """Return the fleet when every replica was read for a whole window: then rules compare their traffic."""
    window = collector.options.traffic.window_seconds
    ends_at = time.monotonic() + 2 * window + ANSWER_SECONDS

    def is_whole() -> bool:
        read = collector.fleet.traffic
        engines = [engine for own in read.values() for engine in own.values()]
        return len(read) == len(collector.fleet.replicas) and min(each.seconds for each in engines) >= window

    while not is_whole():
        assert time.monotonic() < ends_at, collector.fleet.traffic
        time.sleep(0.2)
    return settled(collector)
