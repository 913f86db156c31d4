"""Capacity of engines with incomplete reports: each number has a basis, or a reason without one."""

from typing import Any

import pytest

from dashboard.capacity.engines import (
    NO_BLOCK_SIZE,
    NO_BLOCKS,
    ONLY_BLOCKS,
    SHARE_UNKNOWN,
    TOO_LARGE,
    engines_of,
    load_of,
)
from dashboard.fleet import Basis, Engine, EngineReport, KVCacheGroup, Setting
from tests.capacity.servers import ASYNC, BATCHED, BLOCK, LENGTH, PIPELINE, TENSOR, one, options

FULL = KVCacheGroup(0, 0, "FullAttentionSpec", 16, 4096, 2)
SLIDING = KVCacheGroup(0, 1, "SlidingWindowSpec", 16, 4096, 2, sliding_window=512)
BATCHES = "concurrent_batches"


def test_reported_tokens_and_concurrency_take_precedence_over_the_formula() -> None:
    found = one(EngineReport(0, 100, 777), [FULL])

    assert (found.kv_cache_size_tokens, found.basis) == (777, Basis.REPORTED)
    assert found.max_concurrency == round(777 / 2048, 2)
    assert one(EngineReport(0, 100, 777, 7.629394531250001), [FULL]).max_concurrency == 7.63
    assert one(EngineReport(0, 100, 777), settings=options({LENGTH: ...})).max_concurrency is None


@pytest.mark.parametrize(
    ("more", "sliding"),
    [
        ({}, Basis.ASSUMED),
        ({ASYNC: False}, Basis.DERIVED),
        ({ASYNC: True}, Basis.DERIVED),
        ({PIPELINE: 2, ASYNC: True}, Basis.ASSUMED),
        ({PIPELINE: 2, ASYNC: True, BATCHES: 2}, Basis.DERIVED),
        ({PIPELINE: ..., BATCHES: 2}, Basis.DERIVED),
        ({BATCHED: ...}, Basis.ASSUMED),
        ({PIPELINE: ...}, Basis.ASSUMED),
        *(
            ({"version": version, ASYNC: False}, Basis.ASSUMED)
            for version in ("0.20.2", "0.31.9", "dev", "²³", "9" * 5000, None, ...)
        ),
    ],
)
def test_a_sliding_window_needs_the_batches_in_flight_and_a_checked_version(
    more: dict[str, Any], sliding: Basis
) -> None:
    """Full attention needs neither."""
    assert one(EngineReport(0, 1000), [SLIDING], options(more)).basis is sliding
    assert one(EngineReport(0, 1000), [FULL], options(more)).basis is Basis.DERIVED


def test_an_upper_bound_assumes_the_fewest_batches_in_flight() -> None:
    unknown, off, on, two, three = (
        one(EngineReport(0, 1000), [SLIDING], options(more)).kv_cache_size_tokens or 0
        for more in ({}, {ASYNC: False}, {ASYNC: True}, {BATCHES: 2}, {BATCHES: 3})
    )

    assert unknown == off > on == two > three


def test_an_unknown_kind_of_group_leaves_the_naive_estimate_as_an_upper_bound() -> None:
    found = one(EngineReport(0, 1000), [FULL, FULL._replace(group_id=1, spec_type="RSWASpec")])

    assert (found.kv_cache_size_tokens, found.basis, found.reason) == (16_000, Basis.ASSUMED, ONLY_BLOCKS)
    assert found.kv_cache_bytes == 1000 * 4096 * 2


@pytest.mark.parametrize(
    ("report", "groups", "settings", "reason"),
    [
        (EngineReport(0), [], options(), NO_BLOCKS),
        *(
            (EngineReport(0, 100), [], options({BLOCK: size}), NO_BLOCK_SIZE)
            for size in (..., None, 0, -16, "16", True, 2**64)
        ),
        (EngineReport(0, 100), [], {}, NO_BLOCK_SIZE),
        (EngineReport(0, 2**60), [], options(), TOO_LARGE),
        (EngineReport(0, 2**60), [FULL], options(), TOO_LARGE),
    ],
)
def test_an_unknown_number_is_null_with_a_reason(
    report: EngineReport, groups: list[KVCacheGroup], settings: dict[str, Setting], reason: str
) -> None:
    found = one(report, groups, settings)

    assert (found.kv_cache_size_tokens, found.max_concurrency, found.naive_tokens) == (None, None, None)
    assert (found.basis, found.reason) == (Basis.UNKNOWN, reason)


def summed(total: int, *tokens: int | None, more: dict[str, Any] | None = None) -> list[Engine]:
    """Engines whose blocks are reported as a sum, some of them with tokens."""
    reports = (EngineReport(rank, None, each, blocks_of_all=total) for rank, each in enumerate(tokens))
    return list(engines_of(tuple(reports), (), options(more)))


@pytest.mark.parametrize(
    ("total", "first"),
    [
        pytest.param(98_304, 524_288, id="an even sum, but the first engine has less than half"),
        pytest.param(98_305, 524_288, id="an odd sum"),
        pytest.param(98_305, None, id="an odd sum without tokens"),
    ],
)
def test_engines_that_differ_are_bounded_by_their_sum(total: int, first: int | None) -> None:
    """32,768 and 65,536 blocks of 16 tokens are 1,572,864 tokens, not twice those of the first engine."""
    found = summed(total, first, None)

    assert [(each.kv_cache_size_tokens, each.basis, each.reason) for each in found] == [
        (16 * total, Basis.ASSUMED, SHARE_UNKNOWN)
    ] * 2
    assert all(each.shares_sum and each.num_gpu_blocks is None for each in found)
    assert found[0].max_concurrency == 16 * total / 2048


@pytest.mark.parametrize(
    ("tokens", "more"),
    [
        pytest.param(1600, {}, id="a uniform model"),
        pytest.param(100 * 2000 // 125, {LENGTH: 2000}, id="a uniform model, a length of whole blocks"),
        pytest.param(333, {}, id="a hybrid model, whose tokens do not determine its blocks"),
        pytest.param(5000, {BLOCK: ...}, id="no block size"),
        pytest.param(5000, {LENGTH: ...}, id="no length"),
    ],
)
def test_engines_that_are_not_known_to_differ_divide_the_sum(tokens: int, more: dict[str, Any]) -> None:
    found = summed(200, tokens, None, more=more)

    assert [each.num_gpu_blocks for each in found] == [100, 100]
    assert found[0].kv_cache_size_tokens == tokens
    assert not any(each.shares_sum for each in found)


@pytest.mark.parametrize(("total", "more", "reason"), [(201, {BLOCK: ...}, NO_BLOCK_SIZE), (2**60 + 1, {}, TOO_LARGE)])
def test_a_sum_without_tokens_is_unknown(total: int, more: dict[str, Any], reason: str) -> None:
    found = summed(total, None, None, more=more)

    assert {(each.kv_cache_size_tokens, each.basis, each.reason) for each in found} == {(None, Basis.UNKNOWN, reason)}
    assert not any(each.shares_sum for each in found)


def test_each_engine_has_its_own_report_groups_and_length() -> None:
    unknown, naive = engines_of((EngineReport(0), EngineReport(1, 10)), (), options())
    groups = (FULL, SLIDING._replace(dp_rank=1))
    full, sliding = engines_of((EngineReport(0, 100), EngineReport(1, 100)), groups, options({ASYNC: False}))
    reports = (EngineReport(0, 100, 1600), EngineReport(1, 100, 1600, max_model_len=800))
    long, short = engines_of(reports, (), options())

    assert (unknown.reason, naive.kv_cache_size_tokens, naive.reason) == (NO_BLOCKS, 160, ONLY_BLOCKS)
    assert full.basis is sliding.basis is Basis.DERIVED
    assert full.kv_cache_size_tokens != sliding.kv_cache_size_tokens
    assert [(each.max_model_len, each.max_concurrency) for each in (long, short)] == [(2048, 0.78), (800, 2.0)]


@pytest.mark.parametrize(
    ("report", "groups", "more", "on_each", "total"),
    [
        (EngineReport(0, 100), [FULL], {TENSOR: ...}, 100 * 8192, None),
        (EngineReport(0, 100), [FULL], {TENSOR: 4, PIPELINE: 2}, 100 * 8192, 8 * 100 * 8192),
        (EngineReport(0, 100, kv_cache_bytes_per_device=5000), [FULL], {TENSOR: 2}, 5000, 10_000),
        (EngineReport(0, kv_cache_bytes_per_device=0), [], {}, 0, 0),
        (EngineReport(0, 10), [FULL, FULL._replace(group_id=1, layers=7)], {}, 10 * 4096 * 7, 10 * 4096 * 7),
        *(
            (EngineReport(0, 100), [FULL, FULL._replace(group_id=1, **page)], {}, None, None)
            for page in ({"page_size_bytes": None}, {"layers": 0}, {"page_size_bytes": 2**60})
        ),
    ],
)
def test_bytes_are_reported_or_the_pages_of_the_group_with_the_most_layers(
    report: EngineReport, groups: list[KVCacheGroup], more: dict[str, Any], on_each: int | None, total: int | None
) -> None:
    found = one(report, groups, options(more))

    assert (found.kv_cache_bytes_per_device, found.kv_cache_bytes) == (on_each, total)


def test_the_formula_has_speculation_context_parallelism_and_the_encoder() -> None:
    more = {
        "speculative_config.num_speculative_tokens": 3,
        "parallel_config.decode_context_parallel_size": 4,
        "scheduler_config.max_num_encoder_input_tokens": 99,
    }
    load = load_of(options(more), 1000)

    assert load is not None
    assert (load.max_model_len, load.in_flight, load.speculative_tokens) == (1000, (256, 512), (0, 3))
    assert (load.decode_context_parallel_size, load.max_encoder_tokens) == (4, 99)
    assert load_of({}) is None
