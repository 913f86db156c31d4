"""Counters of use from Prometheus: a real server that scrapes recorded pages, and answers of something hostile."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from dashboard.config import EVERY_POLL, Options, PollOptions, PrometheusOptions, TrafficOptions
from dashboard.fleet.traffic import EngineCounts
from dashboard.service import Collector, poll_once
from dashboard.sources.discovery import discover_once
from dashboard.sources.prometheus.server import counters_query
from dashboard.sources.prometheus.source import Prometheus
from dashboard.sources.source import Listing
from dashboard.vllm.traffic import read_counts
from tests.sources.polling.hostile import Exchange, HostileServer, answers
from tests.sources.prometheus_server import prometheus, wait_for_result

PAGES = Path(__file__).parents[1] / "traffic" / "0.33.0"
NOW = 1_800_000_000.0
QUERY = "/api/v1/query"
SMALLEST = 2**16  # bytes of max_answer_bytes
OFTEN = TrafficOptions(interval_seconds=1, window_seconds=60)
HITS, REQUESTS = "vllm:prefix_cache_hits_total", "vllm:request_success_total"


def page(case: str, name: str) -> bytes:
    return (PAGES / case / f"{name}.txt").read_bytes()


@contextmanager
def scraped(server: HostileServer, folder: Path, case: str) -> Iterator[tuple[str, str, Callable[[], None]]]:
    """Let two jobs scrape a recorded page; yield Prometheus, the replica, and what waits for its second page."""
    replica = f"127.0.0.1:{server.port}"
    groups = [{"targets": [replica], "labels": {"team": each}} for each in ("a", "b")]
    server.routes["/metrics"] = answers(page(case, "first"))
    with prometheus(folder, groups) as url:
        wait_for_result(url, HITS, lambda found: len({each["metric"]["team"] for each in found}) == len(groups))

        def change() -> None:
            server.routes["/metrics"] = answers(page(case, "second"))
            hits = sum(each.hits or 0 for each in read_counts(page(case, "second")).values())
            is_scraped = f"sum by (team) ({HITS}) == {hits}"
            wait_for_result(url, is_scraped, lambda found: len(found) == len(groups))

        yield url, f"http://{replica}", change


@pytest.mark.parametrize("case", ["llama", "llama_dp2"])
def test_counters_that_prometheus_scraped_are_those_of_the_page(
    server: HostileServer, tmp_path: Path, case: str
) -> None:
    with scraped(server, tmp_path, case) as (url, replica, change):
        options = {"prometheus": [{"url": url, "direct": "never"}], "traffic": OFTEN.model_dump()}
        collector = Collector(Options.model_validate(options))
        asyncio.run(collector._refresh(time.monotonic()))
        assert collector.fleet.traffic == {}
        change()
        asyncio.run(collector._refresh(time.monotonic()))
        rates = collector.fleet.traffic[replica]

    first, second = (read_counts(page(case, name)) for name in ("first", "second"))
    assert rates.keys() == second.keys()
    for rank, rose in rates.items():
        assert rose.requests == (second[rank].requests or 0) - (first[rank].requests or 0)
        assert rose.hits == (second[rank].hits or 0) - (first[rank].hits or 0)
        assert rose.prompt_tokens == (second[rank].prompt_tokens or 0) - (first[rank].prompt_tokens or 0)
        assert not rose.refused
        assert rose.seconds > 0.9, "the time between the samples: a second, more on a busy machine"
    assert collector.fleet.counted[replica].requests == sum(each.requests or 0 for each in rates.values())


def test_a_command_that_polls_once_asks_for_no_counters(server: HostileServer, tmp_path: Path) -> None:
    with scraped(server, tmp_path, "llama") as (url, _, _):
        found = discover_once(Options.model_validate({"prometheus": [{"url": url, "direct": "never"}]}))
    assert (len(found.targets), found.failures, found.counts) == (1, (), {})


def test_a_command_with_traffic_has_the_counters_of_two_scrapes(server: HostileServer, tmp_path: Path) -> None:
    with scraped(server, tmp_path, "llama") as (url, replica, change):
        options = Options.model_validate({"prometheus": [{"url": url, "direct": "never"}]})
        fleet = poll_once(options, discover_once(options, EVERY_POLL), wait=change)

    assert fleet.traffic[replica][0].requests == 18


class Scraper:
    """A server with Prometheus' API that has replicas, by address, and the samples of their counters."""

    def __init__(self, server: HostileServer) -> None:
        self.server = server
        self.replicas: dict[str, list[tuple[str, Mapping[str, str], str]]] = {}
        self.more: dict[str, Any] = {}  # of an answer with counters
        self.queries = 0  # for counters
        self.largest = 2**30  # bytes of such an answer, or it is another one
        self.own_spelling = True
        server.routes[QUERY] = self._answer

    def source(self, traffic: TrafficOptions = OFTEN, **more: Any) -> Prometheus:
        options = {"url": self.server.address, "direct": "never", "max_answer_bytes": SMALLEST, **more}
        return Prometheus(PrometheusOptions(**options), None, PollOptions(), lambda: NOW, traffic)

    def counts(self, **more: Any) -> Mapping[str, Mapping[int, EngineCounts]]:
        return counts_of(read(self.source(**more)))

    async def _answer(self, exchange: Exchange) -> None:
        query = parse_qs(exchange.asked.body.decode())["query"][0]
        if not query.startswith("sum by"):
            found = [
                series({"instance": each, "engine": "0", "block_size": "16", "scheme": "2"}, str(NOW))
                for each in self.replicas
            ]
            await exchange.reply(spelled(found))
            return
        self.queries += 1
        addresses = [each for each in self.replicas if 'instance=~"' not in query or each in query]
        found = [
            series({"__name__": name, "instance": address, **labels}, value)
            for address in addresses
            for name, labels, value in self.replicas[address]
        ]
        found += [series({"instance": address}, str(NOW - 7)) for address in addresses]
        await exchange.reply(spelled(found, own=self.own_spelling, **self.more))


def series(labels: Mapping[str, str], value: Any) -> dict[str, Any]:
    return {"metric": labels, "value": [NOW, value]}


def spelled(found: list[dict[str, Any]], *, own: bool = True, **more: Any) -> bytes:
    answer = {"status": "success", "data": {"resultType": "vector", "result": found}, **more}
    return json.dumps(answer, separators=(",", ":") if own else None).encode()


def read(source: Prometheus) -> Listing:
    (listing,) = asyncio.run(source.read())
    return listing


def counts_of(listing: Listing) -> Mapping[str, Mapping[int, EngineCounts]]:
    return {name.removeprefix("http://"): each.engines for name, each in listing.counts.items()}


def sample(metric: str, value: str, engine: str = "0") -> tuple[str, Mapping[str, str], str]:
    return metric, {"engine": engine}, value


@pytest.fixture
def scraper(server: HostileServer) -> Scraper:
    return Scraper(server)


@pytest.mark.parametrize("own_spelling", [True, False])
def test_counts_have_the_time_of_their_scrape(scraper: Scraper, *, own_spelling: bool) -> None:
    scraper.own_spelling = own_spelling
    scraper.replicas = {"a:1": [sample(HITS, "5"), sample(HITS, "6", "1")], "b:1": [sample(REQUESTS, "7e+00")]}
    listing = read(scraper.source())

    assert counts_of(listing) == {
        "a:1": {0: EngineCounts(hits=5), 1: EngineCounts(hits=6)},
        "b:1": {0: EngineCounts(requests=7)},
    }
    assert {each.at for each in listing.counts.values()} == {NOW - 7}
    assert listing.failure is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e308", "many", "1_0", "é", '\\"'])
def test_a_value_that_no_counter_can_have_is_that_of_one_replica(scraper: Scraper, value: str) -> None:
    scraper.replicas = {"a:1": [sample(HITS, value), sample(REQUESTS, "3")], "b:1": [sample(HITS, "5")]}
    counts = scraper.counts()

    assert counts["b:1"] == {0: EngineCounts(hits=5)}
    assert (counts["a:1"][0].hits, counts["a:1"][0].requests) == (None, 3)
    assert HITS in "".join(counts["a:1"][0].refused)


def test_series_of_other_replicas_metrics_and_engines_are_left_out(scraper: Scraper) -> None:
    scraper.replicas = {
        "a:1": [
            sample(HITS, "5"),
            sample(HITS, "6", "x"),
            sample("up", "1"),
            (REQUESTS, {"engine": "0", "instance": "c:1"}, "9"),
            ("", {"instance": "c:1"}, str(NOW)),
        ]
    }
    assert scraper.counts() == {"a:1": {0: EngineCounts(hits=5)}}


def test_of_two_pods_at_an_address_the_one_that_was_scraped_last_counts(scraper: Scraper) -> None:
    old, new = {"pod": "old", "engine": "0"}, {"pod": "new", "engine": "0"}
    scraper.replicas = {
        "a:1": [
            (HITS, old, "900"),
            (HITS, new, "5"),
            ("", {"pod": "old"}, str(NOW - 100)),
            ("", {"pod": "new"}, str(NOW)),
        ]
    }
    listing = read(scraper.source())
    assert listing.counts["http://a:1"] == (NOW, {0: EngineCounts(hits=5)})


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"warnings": ["a store is down"]}, "counters not read: answers with partial data: a store is down"),
        ({"status": "error", "error": "no"}, "counters not read: answers with an error: no"),
        ({"data": {"resultType": "matrix", "result": []}}, "counters not read: answers with another type of result"),
        ({"data": {"resultType": "vector", "result": [1]}}, "counters not read: answers with a series of another"),
        (
            {"data": {"resultType": "vector", "result": [series({"a": 1}, "1")]}},  # type: ignore[dict-item]
            "counters not read: answers with a series of another shape",
        ),
    ],
)
def test_without_counters_the_targets_are_fresh_and_the_last_counts_stay(
    scraper: Scraper, more: dict[str, Any], sentence: str
) -> None:
    scraper.replicas = {"a:1": [sample(HITS, "5")]}
    source = scraper.source()
    before = read(source)
    scraper.more = more
    after = read(source)

    assert sentence in (after.failure or "")
    assert after.counts == before.counts
    assert not any(each.stale for each in after.targets)
    scraper.more = {}
    assert read(source).failure is None


def test_an_answer_that_is_too_large_is_asked_for_in_parts(scraper: Scraper) -> None:
    replicas = [f"a:{number}" for number in range(100, 300)]
    scraper.replicas = {each: [sample(HITS, "5", str(rank)) for rank in range(8)] for each in replicas}
    source = scraper.source()
    first, asked = read(source), scraper.queries
    second = read(source)

    assert len(first.counts) == len(second.counts) == len(replicas)
    assert scraper.queries - asked == asked - 1, "the whole is not tried again"
    scraper.replicas = {"a:1": [sample(HITS, "5" * SMALLEST)]}
    failure = read(scraper.source()).failure or ""
    assert failure.endswith("counters not read: the smallest answer has more than 65,536 bytes; raise max_answer_bytes")


def test_counters_are_asked_for_once_an_interval_where_a_replica_is_not_asked_itself(scraper: Scraper) -> None:
    scraper.replicas = {"a:1": [sample(HITS, "5")]}

    def queries(traffic: TrafficOptions, direct: str) -> int:
        before, source = scraper.queries, scraper.source(traffic, direct=direct)
        for _ in range(3):
            read(source)
        return scraper.queries - before

    assert queries(TrafficOptions(), "never") == 1
    assert queries(TrafficOptions(), "missing") == 1, "Prometheus has digests"
    assert queries(OFTEN, "never") == 3
    assert queries(OFTEN, "always") == 0
    assert queries(TrafficOptions(enabled=False), "never") == 0


def test_a_selector_limits_the_counters() -> None:
    query = counters_query('{job="x"}', "instance", ["b:1"])
    assert '{job="x",instance=~"b:1",__name__=~"' in query
    assert query.endswith('(timestamp(vllm:cache_config_info{job="x",instance=~"b:1"}))')
