"""Capacity of engines with incomplete reports: each number has a basis, or a reason without one."""

from typing import Any

import pytest

from dashboard.capacity.engines import (
    NO_BLOCKS,
    NO_GROUPS,
    ONLY_BLOCKS,
    ONLY_FIRST,
    ONLY_SUM,
    SHARE_UNKNOWN,
    TOO_LARGE,
    engines_of,
    load_of,
)
from dashboard.fleet import Basis, Engine, EngineReport, KVCacheGroup, Setting
from tests.capacity.servers import (
    ASYNC,
    BATCHED,
    BLOCK,
    CONTEXT,
    FULL_BLOCK,
    LENGTH,
    PIPELINE,
    PREFILL_CONTEXT,
    SPECULATIVE,
    TENSOR,
    one,
    options,
)

FULL = KVCacheGroup(0, 0, "FullAttentionSpec", 16, 4096, 2)
NEW = FULL._replace(group_id=2, spec_type="HiSparseHotSpec", host_resident=False)
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
            ({"version": version, ASYNC: False}, Basis.UNKNOWN)
            for version in ("0.20.2", "0.31.9", "0.1.dev5", "dev", "²³", "9" * 5000, None, ...)
        ),
        ({"version": "0.1.dev5", "earliest_release": "0.32.0", ASYNC: False}, Basis.DERIVED),
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


@pytest.mark.parametrize(
    ("groups", "tokens", "reason"),
    [
        ([FULL, NEW], None, "Unknown: formula of a kind of KV cache group."),
        (
            [FULL._replace(host_resident=False), NEW],
            16_000,
            "Upper bound. Unknown: formula of a kind of KV cache group.",
        ),
        (
            [FULL._replace(host_resident=False), FULL._replace(group_id=1, host_resident=True)],
            16_000,
            "Upper bound. Unknown: blocks in host memory.",
        ),
    ],
)
def test_a_group_without_a_formula_leaves_the_bound_of_the_others(
    groups: list[KVCacheGroup], tokens: int | None, reason: str
) -> None:
    found = one(EngineReport(0, 1000), groups)

    assert (found.kv_cache_size_tokens, found.reason) == (tokens, reason)
    assert found.basis is (Basis.UNKNOWN if tokens is None else Basis.ASSUMED)


@pytest.mark.parametrize(
    ("more", "tokens", "reason"),
    [
        ({CONTEXT: 4}, 16_000 * 4, None),
        ({CONTEXT: ..., TENSOR: 1, PREFILL_CONTEXT: 1}, 16_000, None),
        (
            {CONTEXT: ..., TENSOR: 4, PREFILL_CONTEXT: 1},
            16_000 * 4,
            "Upper bound. Unknown: decode context parallel size.",
        ),
        ({CONTEXT: ..., TENSOR: 4}, None, "Unknown: decode context parallel size."),
        ({CONTEXT: ..., TENSOR: ..., PREFILL_CONTEXT: 1}, None, "Unknown: decode context parallel size."),
        ({LENGTH: ...}, None, "Unknown: maximum request length."),
    ],
)
def test_tokens_are_derived_only_where_context_parallelism_is_known(
    more: dict[str, Any], tokens: int | None, reason: str | None
) -> None:
    found = one(EngineReport(0, 1000), [FULL._replace(dcp_sharded=True)], options(more))

    assert (found.kv_cache_size_tokens, found.reason) == (tokens, reason)


def test_groups_that_are_not_sharded_hold_no_more_under_context_parallelism() -> None:
    """A draft model's groups: with `dcp_sharded` not reported, the tokens are a bound only."""
    draft = FULL._replace(group_id=1, dcp_sharded=False)
    more = options({CONTEXT: 4})
    sharded = FULL._replace(dcp_sharded=True)

    exact = one(EngineReport(0, 1000), [sharded, draft], more)
    bound = one(EngineReport(0, 1000), [sharded, draft._replace(dcp_sharded=None)], more)

    assert (exact.kv_cache_size_tokens, exact.basis) == (1000 * 2048 // (32 + 128), Basis.DERIVED)
    assert (bound.kv_cache_size_tokens, bound.basis) == (1000 * 2048 // (32 + 32), Basis.ASSUMED)


@pytest.mark.parametrize("speculation", [..., {"num_speculative_tokens": 4}])
def test_a_mamba_group_without_its_speculative_blocks_needs_the_speculation(speculation: Any) -> None:
    mamba = FULL._replace(spec_type="MambaSpec", mamba_cache_mode="none")
    tokens = "speculative_config.num_speculative_tokens"
    known = one(EngineReport(0, 1000), [mamba])
    null = one(EngineReport(0, 1000), [mamba], options({SPECULATIVE: ..., tokens: None}))
    more = {SPECULATIVE: ...} if speculation is ... else {SPECULATIVE: ..., tokens: 4}

    assert known.basis is null.basis is Basis.DERIVED
    assert one(EngineReport(0, 1000), [mamba], options(more)).reason == "Upper bound. Unknown: speculative tokens."


def test_blocks_alone_are_bounded_by_the_block_size_of_full_attention() -> None:
    """`block_size` is that of the smallest group."""
    found = one(EngineReport(0, 1000), settings=options({BLOCK: 4, FULL_BLOCK: 256}))

    assert (found.kv_cache_size_tokens, found.basis, found.reason) == (256_000, Basis.ASSUMED, ONLY_BLOCKS)
    assert found.naive_tokens == 4000


@pytest.mark.parametrize(
    ("report", "groups", "settings", "reason"),
    [
        (EngineReport(0), [], options(), NO_BLOCKS),
        *(
            (EngineReport(0, 100), [], options({FULL_BLOCK: size}), NO_GROUPS)
            for size in (..., None, 0, -16, "16", True, 2**64)
        ),
        (EngineReport(0, 100), [], {}, NO_GROUPS),
        (EngineReport(0, 2**60), [], options(), TOO_LARGE),
        (EngineReport(0, 2**60), [FULL], options(), TOO_LARGE),
    ],
)
def test_an_unknown_number_is_null_with_a_reason(
    report: EngineReport, groups: list[KVCacheGroup], settings: dict[str, Setting], reason: str
) -> None:
    found = one(report, groups, settings)

    assert (found.kv_cache_size_tokens, found.max_concurrency) == (None, None)
    assert (found.basis, found.reason) == (Basis.UNKNOWN, reason)


def summed(total: int, *tokens: int | None, more: dict[str, Any] | None = None) -> list[Engine]:
    """Engines whose blocks are reported as a sum, some of them with tokens."""
    reports = (EngineReport(rank, None, each, blocks_of_all=total) for rank, each in enumerate(tokens))
    return list(engines_of(tuple(reports), (), options(more)))


def test_uniform_engines_that_differ_are_bounded_by_their_sum() -> None:
    """32,768 and 65,536 blocks of 16 tokens are 1,572,864 tokens, not twice those of the first engine."""
    found = summed(98_304, 524_288, None)

    assert [(each.kv_cache_size_tokens, each.basis, each.reason) for each in found] == [
        (16 * 98_304, Basis.ASSUMED, SHARE_UNKNOWN)
    ] * 2
    assert all(each.shares_sum and each.num_gpu_blocks is None for each in found)
    assert found[0].max_concurrency == 16 * 98_304 / 2048


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="a length of whole blocks"),
        pytest.param({LENGTH: 2001}, id="another length"),
        pytest.param({BLOCK: ...}, id="the block size of full attention alone"),
        pytest.param({FULL_BLOCK: ...}, id="block_size alone"),
        pytest.param({BLOCK: 4}, id="smaller blocks of other groups"),
    ],
)
def test_uniform_engines_divide_a_sum_that_is_a_multiple_of_the_first(more: dict[str, Any]) -> None:
    tokens = 100 * more.get(LENGTH, 2048) // -(-more.get(LENGTH, 2048) // 16)
    found = summed(300, tokens, None, None, more=more)

    assert [(each.dp_rank, each.num_gpu_blocks, each.kv_cache_size_tokens) for each in found] == [
        (rank, 100, tokens) for rank in range(3)
    ]
    assert [(each.basis, each.reason) for each in found] == [(Basis.REPORTED, None), *[(Basis.ASSUMED, ONLY_FIRST)] * 2]
    assert not any(each.shares_sum for each in found)


@pytest.mark.parametrize(
    ("total", "tokens", "more"),
    [
        pytest.param(200, 333, {}, id="a hybrid model, whose tokens do not determine its blocks"),
        pytest.param(200, 1600, {LENGTH: ...}, id="no length"),
        pytest.param(200, 1600, {BLOCK: ..., FULL_BLOCK: ...}, id="no block size"),
        pytest.param(300, 1600, {FULL_BLOCK: ...}, id="engines that differ, without the block size of full attention"),
        pytest.param(2**60, 1600, {}, id="an impossible sum"),
        pytest.param(201, None, {}, id="no tokens"),
        pytest.param(200, None, {}, id="no tokens and an even sum"),
    ],
)
def test_engines_are_unknown_where_a_sum_does_not_determine_them(
    total: int, tokens: int | None, more: dict[str, Any]
) -> None:
    first, second = summed(total, tokens, None, more=more)

    assert (first.kv_cache_size_tokens, first.basis) == (tokens, Basis.UNKNOWN if tokens is None else Basis.REPORTED)
    assert (second.kv_cache_size_tokens, second.basis, second.reason) == (None, Basis.UNKNOWN, ONLY_SUM)
    assert first.num_gpu_blocks is second.num_gpu_blocks is None


def test_an_engine_keeps_its_own_numbers_in_spite_of_a_sum() -> None:
    assert [each.kv_cache_size_tokens for each in summed(200, 1600, 1500)] == [1600, 1500]


@pytest.mark.parametrize(
    ("others", "rest"),
    [
        ((EngineReport(0, 90, 1440), EngineReport(1, 10, 160)), 200 - 100),
        ((EngineReport(0, 90, 1440), EngineReport(1, 110, 1760)), None),
        ((EngineReport(0, 90, 1440), EngineReport(1)), None),
    ],
)
def test_the_only_engine_without_blocks_has_the_rest_of_the_sum(
    others: tuple[EngineReport, ...], rest: int | None
) -> None:
    """Such as one on another machine, whose process has no provider."""
    *_, last = engines_of((*others, EngineReport(2, blocks_of_all=200)), (), options())

    assert last.num_gpu_blocks == rest
    assert (last.kv_cache_size_tokens, last.reason) == ((None, ONLY_SUM) if rest is None else (rest * 16, ONLY_BLOCKS))


def test_each_engine_has_its_own_report_groups_and_length() -> None:
    unknown, naive = engines_of((EngineReport(0), EngineReport(1, 10)), (), options())
    groups = (FULL, SLIDING._replace(dp_rank=1))
    full, sliding = engines_of((EngineReport(0, 100), EngineReport(1, 100)), groups, options({ASYNC: False}))
    reports = (EngineReport(0, 100, 1600), EngineReport(1, 100, 1600, max_model_len=800))
    long, short = engines_of(reports, (), options())

    assert (unknown.reason, naive.kv_cache_size_tokens, naive.reason) == (NO_BLOCKS, 160, ONLY_BLOCKS)
    assert engines_of((), (), options()) == ()
    assert full.basis is sliding.basis is Basis.DERIVED
    assert full.kv_cache_size_tokens != sliding.kv_cache_size_tokens
    assert [(each.max_model_len, each.max_concurrency) for each in (long, short)] == [(2048, 0.78), (800, 2.0)]


@pytest.mark.parametrize(
    ("report", "more", "on_each", "total"),
    [
        (EngineReport(0, 100, kv_cache_bytes_per_device=5000), {TENSOR: ...}, 5000, None),
        (EngineReport(0, 100, kv_cache_bytes_per_device=5000), {TENSOR: 4, PIPELINE: 2}, 5000, 40_000),
        (EngineReport(0, kv_cache_bytes_per_device=0), {}, 0, 0),
        (EngineReport(0, 100), {}, None, None),
    ],
)
def test_bytes_are_reported_and_never_those_of_the_groups(
    report: EngineReport, more: dict[str, Any], on_each: int | None, total: int | None
) -> None:
    """The page size of a group is that of its first layer; others may have smaller pages."""
    found = one(report, [FULL], options(more))

    assert (found.kv_cache_bytes_per_device, found.kv_cache_bytes) == (on_each, total)


def test_the_formula_has_speculation_context_parallelism_and_the_encoder() -> None:
    more = {
        "speculative_config.num_speculative_tokens": 3,
        SPECULATIVE: ...,
        "parallel_config.decode_context_parallel_size": 4,
        "scheduler_config.max_num_encoder_input_tokens": 99,
    }
    load = load_of(options(more), 1000)

    assert load is not None
    assert (load.max_model_len, load.in_flight, load.speculative_tokens) == (1000, (256, 512), (0, 3))
    assert (load.decode_context_parallel_size, load.max_encoder_tokens) == ((4, 4), 99)
    assert load_of({}) is None


@pytest.mark.parametrize(
    "reports",
    [
        [EngineReport(0, 100, 1600, sleep_level=1)],
        [EngineReport(0, 100, sleep_level=1)],
        [EngineReport(rank, None, None if rank else 1600, blocks_of_all=200, sleep_level=1) for rank in (0, 1)],
        [EngineReport(rank, None, None if rank else 1600, blocks_of_all=300, sleep_level=1) for rank in (0, 1)],
    ],
    ids=["reported", "a bound", "the sum divided", "the sum as a bound"],
)
def test_an_engine_that_sleeps_says_so(reports: list[EngineReport]) -> None:
    found = engines_of(reports, (), options())

    assert {each.sleep_level for each in found} == {1}
    assert {each.reason for each in found} == {"Asleep (level 1): its KV cache takes no requests and adds to no sum."}
