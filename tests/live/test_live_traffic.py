"""Hit rates of live servers are vLLM's own counters to the token, whatever serves them."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.rules.findings import Finding
from tests.live.dashboard_runs import check, options
from tests.live.servers import Kind, Server, running
from tests.live.traffic import (
    DETAILS,
    PREFIX,
    Usage,
    after_a_whole_window,
    by_kv_events,
    counted,
    in_turn,
    prompts,
    send,
    settled,
    watching,
)
from tests.serving import free_port, wait_for

pytestmark = [pytest.mark.vllm, pytest.mark.vllm_each]
POOL = ("--served-model-name", "chat", *DETAILS)
GROUPS = 3
COUNTERS = {
    "queries": "vllm:prefix_cache_queries_total",
    "hits": "vllm:prefix_cache_hits_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "requests": "vllm:request_success_total",
}
ALIKE = (Kind("one", "llama", POOL), Kind("another", "llama", POOL))
UNCACHED = Kind("uncached", "llama", (*POOL, "--no-enable-prefix-caching"))


class Watched(NamedTuple):
    """The fleet after some requests; by name of the server what its answers said and by how much its counters rose.

    `findings` are those after a whole window of counters.
    """

    fleet: Fleet
    usage: Mapping[str, Usage]
    rose: Mapping[str, Mapping[str, float]]
    findings: tuple[Finding, ...] = ()

    def named(self, rule: str) -> tuple[Finding, list[str]]:
        """The only finding of a rule, and the names of its replicas."""
        (finding,) = (each for each in self.findings if each.rule == rule)
        return finding, [self.fleet.names[each] for each in finding.replicas]

    def of(self, name: str) -> str:
        """The id of a replica."""
        return next(each.id for each in self.fleet.replicas if each.name == name)


def _watched(
    servers: list[Server],
    number: int,
    first: int = 0,
    *,
    groups: int = GROUPS,
    route: Callable[[Sequence[int]], Server] | None = None,
    router: str | None = None,
    window: float | None = None,
) -> Watched:
    """Send requests to servers, by default in turn, and read what the dashboard has; `first`: with other prompts.

    With a `window`, in seconds, also the findings after it.
    """
    with watching(servers, router, window or 900) as collector:
        before = {
            each.kind.name: {name: counted(each, metric) for name, metric in COUNTERS.items()} for each in servers
        }
        usage = send(prompts(number, groups, first), route or in_turn(servers))
        fleet = settled(collector)
        rose = {
            each.kind.name: {
                name: counted(each, metric) - before[each.kind.name][name] for name, metric in COUNTERS.items()
            }
            for each in servers
        }
        findings = after_a_whole_window(collector).inspection.findings if window else ()
    return Watched(fleet, {each.kind.name: usage[each.url] for each in servers}, rose, findings)


@pytest.fixture(scope="module")
def servers(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with running([*ALIKE, UNCACHED], venv, tmp_path_factory.mktemp("vllm")) as found:
        yield found


@pytest.fixture(scope="module")
def alike(servers: list[Server]) -> Watched:
    """Two equal servers behind a round-robin."""
    return _watched(servers[: len(ALIKE)], 60)


def test_each_replica_has_the_tokens_that_its_own_counters_and_its_answers_have(alike: Watched) -> None:
    for name, rose in alike.rose.items():
        found, usage = alike.fleet.traffic_of([alike.of(name)]), alike.usage[name]

        assert {each: getattr(found, each) for each in COUNTERS} == rose
        assert (found.requests, found.queries, found.hits) == usage
        assert found.refused == ()


def test_the_rate_of_the_pool_is_the_ratio_of_the_sums(alike: Watched) -> None:
    found = alike.fleet.traffic_of(each.id for each in alike.fleet.replicas)
    queries = sum(each["queries"] for each in alike.rose.values())
    hits = sum(each["hits"] for each in alike.rose.values())

    assert found.hit_rate == hits / queries
    assert alike.fleet.frames.traffic[["queries", "hits"]].sum().to_list() == [queries, hits]
    assert hits == (60 - 2 * GROUPS) * PREFIX  # each server computes the prefix of each group once


@pytest.fixture(scope="module")
def one_uncached(servers: list[Server]) -> Watched:
    """The same two, and one without prefix caching."""
    return _watched(servers, 90, 100, router="prefix-hash", window=60)


def test_without_prefix_caching_every_prompt_token_is_a_query_without_a_hit(one_uncached: Watched) -> None:
    found, usage = one_uncached.fleet.traffic_of([one_uncached.of("uncached")]), one_uncached.usage["uncached"]

    assert one_uncached.rose["uncached"]["queries"] == 0
    assert (found.queries, found.hits, found.hit_rate) == (usage.prompt_tokens, 0, 0)


def test_ef_01_names_the_uncached_one_and_its_cause(one_uncached: Watched) -> None:
    finding, names = one_uncached.named("EF-01")

    assert names == ["uncached"]
    assert finding.sentence.startswith("Prefix hit rate 0%; the rest of the pool ")
    assert one_uncached.named("RT-13")[1] == names
    assert "RT-13" in finding.explained_by


def test_in_ci_check_reads_the_counters_twice_and_names_the_uncached_one(servers: list[Server], tmp_path: Path) -> None:
    config, done = options(servers, tmp_path), threading.Event()

    def keep_sending() -> None:
        route = in_turn(servers)
        while not done.is_set():
            send(prompts(len(servers), GROUPS, 50), route)

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(keep_sending)
        try:
            found = check(config, "--traffic", "45s")
        finally:
            done.set()
        sending.result()
    without = check(config)

    assert [each["name"] for each in found.of("EF-01")["replicas"]] == ["uncached"]
    assert without.all_of("EF-01") == []


def test_the_rate_of_the_pool_counts_the_prompts_of_the_uncached_one(one_uncached: Watched) -> None:
    found = one_uncached.fleet.traffic_of(each.id for each in one_uncached.fleet.replicas)
    whole = [sum(column) for column in zip(*one_uncached.usage.values(), strict=True)]

    assert (found.requests, found.queries, found.hits) == tuple(whole)
    assert found.hit_rate == whole[2] / whole[1]


SEVERAL = (
    Kind("ranks", "llama", (*POOL, "--data-parallel-size", "2"), {"VLLM_CPU_SIM_MULTI_NUMA": "1"}),
    Kind("api-servers", "llama", (*POOL, "--api-server-count", "2")),
    pytest.param(
        Kind("rust", "llama_tokenizer", ("--served-model-name", "chat"), {"VLLM_USE_RUST_FRONTEND": "1"}),
        marks=pytest.mark.vllm_033,
    ),
)


@pytest.mark.parametrize("kind", SEVERAL, ids=lambda each: each.name)
def test_engines_and_frontends_are_summed_to_the_token(kind: Kind, venv: Path, tmp_path: Path) -> None:
    with running([kind], venv, tmp_path) as servers:
        watched = _watched(servers, 40)
    found, usage = watched.fleet.traffic_of([watched.of(kind.name)]), watched.usage[kind.name]

    assert {each: getattr(found, each) for each in COUNTERS} == watched.rose[kind.name]
    assert (found.requests, found.prompt_tokens) == usage[:2]
    assert found.hit_rate == watched.rose[kind.name]["hits"] / watched.rose[kind.name]["queries"]
    if DETAILS[0] in kind.options:
        assert found.hits == usage.cached_tokens
    ranks = watched.fleet.traffic[watched.of(kind.name)]
    assert len(ranks) == (2 if kind.name == "ranks" else 1)
    assert all(each.requests for each in ranks.values())


def test_a_restart_begins_the_window_anew(venv: Path, tmp_path: Path) -> None:
    kind = Kind("restarted", "llama", POOL, port=free_port())
    with ExitStack() as first:
        (server,) = first.enter_context(running([kind], venv, tmp_path))
        with watching([server]) as collector:
            send(prompts(30, GROUPS), in_turn([server]))
            ((before,),) = (each.values() for each in settled(collector).traffic.values())
            first.close()
            wait_for(lambda: not collector.fleet.traffic)
            with running([kind], venv, tmp_path) as (again,):
                wait_for(lambda: bool(collector.fleet.traffic))
                usage = send(prompts(5, 1), in_turn([again]))[again.url]
                ((after,),) = (each.values() for each in settled(collector).traffic.values())

    assert (before.requests, before.is_enough) == (30, True)
    assert (after.requests, after.queries, after.hits) == usage
    assert after.hit_rate is None


def _publishing(name: str, algorithm: str) -> tuple[str, Kind]:
    """A server with this hash algorithm, and the endpoint of its KV events."""
    port = free_port()
    events = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://*:{port}"}
    options = (*POOL, "--prefix-caching-hash-algo", algorithm, "--kv-events-config", json.dumps(events))
    return f"tcp://127.0.0.1:{port}", Kind(name, "llama", options)


@pytest.fixture(scope="module")
def one_with_another_hash(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """Three servers behind a router that finds blocks by their sha256_cbor hashes, which one does not compute."""
    published = [_publishing("one", "sha256_cbor"), _publishing("other", "sha256"), _publishing("two", "sha256_cbor")]
    with running([kind for _, kind in published], venv, tmp_path_factory.mktemp("events")) as servers:
        endpoints = {endpoint: server for (endpoint, _), server in zip(published, servers, strict=True)}
        with by_kv_events(endpoints, venv) as route:
            return _watched(servers, 400, route=route, groups=75, router="kv-events", window=120)


@pytest.mark.vllm_033
def test_behind_a_router_that_indexes_kv_events_the_one_with_another_hash_finds_far_less(
    one_with_another_hash: Watched,
) -> None:
    fleet = one_with_another_hash.fleet
    rates = {each.name: fleet.traffic_of([each.id]).hit_rate or 0.0 for each in fleet.replicas}

    assert {name: usage.cached_tokens for name, usage in one_with_another_hash.usage.items()} == {
        name: rose["hits"] for name, rose in one_with_another_hash.rose.items()
    }
    assert rates["other"] > 0  # it has a rate: what it computed it finds
    assert all(rates[name] - rates["other"] > 0.3 for name in ("one", "two"))


@pytest.mark.vllm_033
def test_ef_01_names_the_one_with_another_hash_and_its_cause(one_with_another_hash: Watched) -> None:
    finding, names = one_with_another_hash.named("EF-01")

    assert names == ["other"]
    assert one_with_another_hash.named("RT-05")[1] == names
    assert "RT-05" in finding.explained_by
