"""Counters of use on /metrics: from live servers that answered requests, and hostile ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from dashboard.fleet.traffic import EngineCounts, Traffic, TrafficWindow, summed
from dashboard.vllm.metrics import MAX_ENGINES
from dashboard.vllm.traffic import MAX_COUNT, MOST_LINES, read_counts

CAPTURES = Path(__file__).parents[1] / "traffic"
CASES = sorted(each.parent for each in CAPTURES.glob("*/*/told.json"))
PREFIX, GROUPS = 512, 3  # of the requests in tests/tools/traffic_captures.py


def _told(folder: Path) -> list[dict[str, Any]]:
    reads: list[dict[str, Any]] = json.loads((folder / "told.json").read_text())["reads"]
    return reads


def _between(folder: Path) -> Traffic:
    """What the engines of a server did between its two reads."""
    windows: dict[int, TrafficWindow] = {}
    for name, told in zip(("first", "second"), _told(folder), strict=True):
        for rank, counts in read_counts((folder / f"{name}.txt").read_bytes()).items():
            windows.setdefault(rank, TrafficWindow(900)).add(told["at"], counts)
    return summed(each for window in windows.values() if (each := window.traffic()))


@pytest.mark.parametrize("folder", CASES, ids=lambda each: f"{each.parent.name}-{each.name}")
def test_the_requests_and_their_tokens_are_counted_to_the_token(folder: Path) -> None:
    _, second = _told(folder)
    between = _between(folder)
    assert (between.requests, between.prompt_tokens) == (second["requests"], second["prompt_tokens"])
    assert not between.refused


@pytest.mark.parametrize("version", ["0.32.0", "0.33.0"])
def test_every_request_found_the_prefix_of_its_group(version: str) -> None:
    between, (_, told) = _between(CAPTURES / version / "llama"), _told(CAPTURES / version / "llama")
    assert between.hits == told["requests"] * PREFIX
    assert between.queries == told["prompt_tokens"]
    assert between.computed_tokens == told["prompt_tokens"] - between.hits


def test_with_prefix_caching_off_vllm_counts_no_queries() -> None:
    between = _between(CAPTURES / "0.33.0" / "llama_no_caching")
    assert (between.queries, between.hits) == (0, 0)
    assert between.hit_rate is None


def test_each_dp_rank_is_counted_alone() -> None:
    counts = read_counts((CAPTURES / "0.33.0" / "llama_dp2" / "second.txt").read_bytes())
    assert sorted(counts) == [0, 1]
    for each in counts.values():
        assert (each.requests, each.first_tokens) == (12, 12)
        assert None not in (each.first_token_seconds, each.prefill_seconds, each.computed_tokens)


def _page(value: str, metric: str = "vllm:prefix_cache_hits_total") -> bytes:
    return (
        f'vllm:prefix_cache_queries_total{{engine="0"}} 100\n{metric}{{engine="0",model_name="m"}} {value}\n'.encode()
    )


@pytest.mark.parametrize(
    "value", ["NaN", "+Inf", "-Inf", "-1", "1e308", "0x10", "1_000", "", "many", "١", "9" * 500, str(2 * MAX_COUNT)]
)
def test_a_value_that_no_counter_can_have_is_refused_by_name(value: str) -> None:
    counts = read_counts(_page(value))[0]
    assert (counts.queries, counts.hits) == (100, None)
    assert counts.refused == (f"vllm:prefix_cache_hits_total is {value[:40]!r}, expected 0 to 9,007,199,254,740,992",)


def test_a_share_above_one_is_refused() -> None:
    counts = read_counts(_page("57", "vllm:kv_cache_usage_perc"))[0]
    assert (counts.queries, counts.kv_usage) == (100, None)
    assert counts.refused == ("vllm:kv_cache_usage_perc is '57', expected 0 to 1",)


def test_a_sum_of_series_that_no_counter_can_have_is_refused() -> None:
    line = b'vllm:prefix_cache_hits_total{engine="0"} %d\n' % MAX_COUNT
    assert read_counts(line)[0].hits == MAX_COUNT
    assert read_counts(line * 2)[0].hits is None


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            [f'vllm:prefix_cache_hits_total{{engine="{engine}"}} 1' for engine in range(MAX_ENGINES + 1)],
            "/metrics has counters of more than 1,024 engines",
        ),
        (
            ['vllm:prefix_cache_hits_total{engine="no"} 1'],
            "/metrics has vllm:prefix_cache_hits_total without a DP rank",
        ),
        (['vllm:prefix_cache_hits_total{model="m"} 1'], "/metrics has vllm:prefix_cache_hits_total without a DP rank"),
        (
            ['vllm:prefix_cache_hits_total{engine="0"} 1'] * (MOST_LINES + 1),
            "/metrics has more than 8,192 series of vllm:prefix_cache_hits_total",
        ),
    ],
)
def test_a_page_with_series_that_no_server_can_have_is_refused_as_a_whole(lines: list[str], sentence: str) -> None:
    page = "\n".join(['vllm:prefix_cache_queries_total{engine="0"} 9', *lines]).encode()
    assert read_counts(page) == {0: EngineCounts(refused=(sentence,))}


def test_a_name_that_is_missing_is_not_zero() -> None:
    assert read_counts(b'vllm:num_requests_waiting{engine="3"} 2 1795780277000\n') == {3: EngineCounts(waiting=2.0)}


def test_a_page_without_these_lines_has_no_engines() -> None:
    assert read_counts(b"<html>vllm:prefix_cache_queries_total{</html>") == {}


def test_the_series_of_a_histogram_are_read_in_both_orders_of_the_client() -> None:
    one = "".join(
        f'vllm:time_to_first_token_seconds_{name}{{engine="{engine}"}} {engine + 1}\n'
        for engine in (0, 1)
        for name in ("bucket", "count", "sum")
    )
    other = "\n".join(reversed(one.splitlines()))
    for page in (one, other):
        counts = read_counts(page.encode())
        assert {rank: (each.first_tokens, each.first_token_seconds) for rank, each in counts.items()} == {
            0: (1, 1),
            1: (2, 2),
        }


def test_series_that_differ_in_another_label_are_added() -> None:
    page = b"".join(
        b'vllm:request_success_total{engine="0",finished_reason="%b"} %d\n' % each
        for each in ((b"stop", 3), (b"length", 4))
    )
    assert read_counts(page)[0].requests == 7
