"""The requests of simulated replicas, as the dashboard reads and compares them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dashboard.demo import changed, default_fleet, read_changes
from dashboard.demo.answers import DemoProcess
from dashboard.demo.describe import Behaviour, DemoReplica
from dashboard.demo.pages import render
from dashboard.fleet.traffic import COUNTERS, EngineCounts, Traffic, TrafficWindow, summed
from dashboard.vllm.traffic import read_counts
from tests.demo.conftest import FLEET, NOW, process_of

INTERVAL, WINDOW = 5, 120  # seconds, of the demo
LIVE = [each for each in FLEET.values() if each.behaviour in {Behaviour.NORMAL, Behaviour.SLOW}]
UP = {"chat": "chat-70b-", "gemma": "gemma-27b-", "prefill": "deepseek-v3-prefill-", "decode": "deepseek-v3-decode-"}


def _counts(process: DemoProcess, at: float) -> dict[int, EngineCounts]:
    return dict(read_counts(process.answer("GET", "/metrics", None, at).body))


def _traffic(process: DemoProcess, begin: float = NOW, seconds: float = WINDOW) -> dict[int, Traffic]:
    """What each engine did from a time on, of reads at the interval."""
    windows: dict[int, TrafficWindow] = {}
    for read in range(int(seconds / INTERVAL) + 1):
        at = begin + read * INTERVAL
        for rank, counts in _counts(process, at).items():
            windows.setdefault(rank, TrafficWindow(seconds)).add(at, counts)
    return {rank: found for rank, window in windows.items() if (found := window.traffic())}


def _of(replicas: Sequence[DemoReplica]) -> Traffic:
    return summed(each for replica in replicas for each in _traffic(process_of(replica)).values())


def _hit_rate(name: str) -> float:
    rate = _of([FLEET[name]]).hit_rate
    assert rate is not None
    return rate


def _restarted(name: str, changes: str) -> DemoProcess:
    replica = changed(FLEET[name], read_changes(changes))
    return DemoProcess.start(replica, render(replica.configuration, replica.speaks), NOW)


@pytest.mark.parametrize("replica", LIVE, ids=lambda each: each.name)
def test_counters_never_fall_and_hits_are_never_more_than_queries(replica: DemoReplica) -> None:
    process = process_of(replica)
    before = dict.fromkeys(_counts(process, NOW), EngineCounts())
    for seconds in (0.0, 0.5, 1.0, 5.0, 60.0, 3600.0, 86_400.0, 30 * 86_400.0):
        now = _counts(process, process.started_at + seconds)
        assert now.keys() == before.keys()
        for rank, counts in now.items():
            assert not counts.refused
            for name in COUNTERS:
                value, old = getattr(counts, name), getattr(before[rank], name)
                assert value is None or value >= (old or 0), name
            for part, whole in (
                ("hits", "queries"),
                ("queries", "prompt_tokens"),
                ("external_hits", "external_queries"),
            ):
                assert getattr(counts, part) <= getattr(counts, whole)
            assert (counts.kv_usage or 0) <= 1
        before = now


def test_every_engine_counts_from_its_start() -> None:
    counts = _counts(_restarted("deepseek-v3-prefill-1", "--max-num-seqs 64"), NOW)
    assert sorted(counts) == [0, 1]
    for each in counts.values():
        assert {getattr(each, name) for name in COUNTERS} == {0}
        assert each.counted_from == pytest.approx(NOW, abs=1)


def test_the_engines_of_a_server_count_alone() -> None:
    one, other = _traffic(process_of(FLEET["deepseek-v3-prefill-1"])).values()
    assert one.prompt_tokens != other.prompt_tokens
    assert one.hit_rate == pytest.approx(other.hit_rate, abs=0.1)


@pytest.mark.parametrize("pool", ["chat", "gemma", "prefill"])
def test_a_healthy_pool_finds_a_third_to_four_fifths_of_its_tokens(pool: str) -> None:
    misconfigured = {"chat-70b-04", "chat-70b-11", "gemma-27b-03", "gemma-27b-07"}
    healthy = [each for each in LIVE if each.name.startswith(UP[pool]) and each.name not in misconfigured]
    rates = [_hit_rate(each.name) for each in healthy]
    assert 0.3 < min(rates) < max(rates) < 0.8
    assert max(rates) - min(rates) < 0.1
    assert len(set(rates)) > 1


@pytest.mark.parametrize("name", ["chat-70b-04", "chat-70b-11"])
def test_a_replica_with_other_hashes_is_far_below_its_pool_and_slower(name: str) -> None:
    peer, own = _of([FLEET["chat-70b-01"]]), _of([FLEET[name]])
    assert _hit_rate(name) < _hit_rate("chat-70b-01") / 4
    assert own.requests == pytest.approx(peer.requests, rel=0.1)
    assert own.first_token is not None
    assert peer.first_token is not None
    assert own.first_token > 3 * peer.first_token


def test_what_a_replica_offloaded_is_found_by_its_connector() -> None:
    with_offloading, without = _of([FLEET["chat-70b-11"]]), _of([FLEET["chat-70b-01"]])
    assert 0 < (with_offloading.external_hit_rate or 0) < 0.2
    assert without.external_queries == 0


@pytest.mark.parametrize(
    ("name", "flags"),
    [("chat-70b-04", "--block-size 16"), ("chat-70b-11", "--prefix-caching-hash-algo sha256_cbor")],
)
def test_a_restart_with_the_flag_of_its_pool_mends_the_rate_within_two_windows(name: str, flags: str) -> None:
    process = _restarted(name, flags)
    first, second = (summed(_traffic(process, NOW + begin).values()) for begin in (0, WINDOW))
    usual = _hit_rate("chat-70b-01")
    assert (first.hit_rate or 0) > usual / 3
    assert (second.hit_rate or 0) == pytest.approx(usual, abs=0.08)


@pytest.mark.parametrize(
    "changes",
    ["--block-size 32", "--prefix-caching-hash-algo sha256", "PYTHONHASHSEED=7", "--no-enable-prefix-caching"],
)
def test_a_restart_with_what_makes_other_hashes_ruins_the_rate(changes: str) -> None:
    found = summed(_traffic(_restarted("chat-70b-01", changes), NOW + 600).values())
    assert (found.hits or 0) < 0.15 * (found.prompt_tokens or 0)


def test_with_prefix_caching_off_no_token_is_queried() -> None:
    found, peer = _of([FLEET["gemma-27b-03"]]), _of([FLEET["gemma-27b-02"]])
    assert (found.queries, found.hits, found.hit_rate) == (0, 0, None)
    assert found.prompt_tokens == found.computed_tokens
    assert found.prompt_tokens == pytest.approx(peer.prompt_tokens, rel=0.1)


def test_one_replica_gets_no_requests_while_its_peers_do() -> None:
    by_name = {each.name: _of([each]).requests for each in LIVE if each.name.startswith(UP["gemma"])}
    assert [name for name, requests in by_name.items() if not requests] == ["gemma-27b-07"]


def test_a_pool_that_is_hardly_used_has_not_enough_traffic() -> None:
    found = _of([each for each in LIVE if each.name.startswith("qwen")])
    assert found.requests
    assert not found.is_enough


def test_only_the_engine_with_less_kv_cache_preempts_and_queues() -> None:
    ranks = {each.name: _of([each]) for each in LIVE if each.name.startswith(UP["decode"])}
    assert [name for name, found in ranks.items() if found.preemptions] == ["deepseek-v3-decode-5"]
    assert [name for name, found in ranks.items() if found.waiting] == ["deepseek-v3-decode-5"]
    assert ranks["deepseek-v3-decode-5"].kv_usage == 1
    assert (ranks["deepseek-v3-decode-5"].first_token or 0) > 5


def test_decode_ranks_receive_what_they_have_not_and_find_more_with_one_hash_seed() -> None:
    found = _of([FLEET["deepseek-v3-decode-0"]])
    assert (found.hit_rate or 0) < 0.1
    assert (found.external_hit_rate or 0) > 0.98
    seeded = summed(_traffic(_restarted("deepseek-v3-decode-0", "PYTHONHASHSEED=0"), NOW + 300).values())
    assert (seeded.hit_rate or 0) > 0.15


def test_an_older_version_lacks_the_names_that_came_later() -> None:
    old = replace(FLEET["qwen3-8b-05"], configuration=replace(FLEET["qwen3-8b-05"].configuration, version="0.12.0"))
    assert _counts(process_of(old), NOW)[0].computed_tokens is None
    assert _counts(process_of(FLEET["qwen3-8b-05"]), NOW)[0].computed_tokens


def test_the_tokens_by_source_are_all_of_the_prompts() -> None:
    page = process_of(FLEET["chat-70b-11"]).answer("GET", "/metrics", None, NOW).body.decode()

    def total(metric: str) -> float:
        lines = [line for line in page.splitlines() if line.startswith(f"vllm:{metric}{{")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    assert total("prompt_tokens_by_source_total") == total("prompt_tokens_total") > 0
    assert total("prompt_tokens_cached_by_source_total") == total("prompt_tokens_cached_total") > 0


def test_the_same_replica_of_another_cluster_has_its_own_traffic() -> None:
    fleet = default_fleet(len(FLEET) + 1)
    one, other = _of([fleet[0]]), _of([fleet[-1]])
    assert fleet[-1].name == "c02/chat-70b-01"
    assert one.prompt_tokens != other.prompt_tokens
    assert one.hit_rate == pytest.approx(other.hit_rate, abs=0.1)
