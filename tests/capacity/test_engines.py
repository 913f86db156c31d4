"""Capacity of the captured servers, equal to what vLLM logged at start; and of engines of which less is told."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from dashboard.capacity.engines import (
    FORMULA_OPEN,
    NO_BLOCK_SIZE,
    NO_BLOCKS,
    ONLY_BLOCKS,
    ONLY_FIRST,
    SHARE_UNKNOWN,
    TOO_LARGE,
    engines_of,
    load_of,
)
from dashboard.fleet import Basis, Engine, EngineReport, KVCacheGroup, Setting, Source
from dashboard.vllm.canonical import setting
from dashboard.vllm.facts import facts_of
from tests.captured import (
    INFERENCE_CONFIG,
    METRICS,
    MODELS,
    SERVER_INFO,
    VERSION,
    Capture,
    capture,
    captures,
    has_python_api,
    snapshot,
)

OLD = {"0.12.0", "0.20.2"}  # they report no kv_cache_size_tokens
GIB = 2**30
ASYNC = "scheduler_config.async_scheduling"
API_ONLY = (INFERENCE_CONFIG, VERSION, MODELS)
FULL = KVCacheGroup(0, 0, "FullAttentionSpec", 16, 4096, 2)
SLIDING = KVCacheGroup(0, 1, "SlidingWindowSpec", 16, 4096, 2, sliding_window=512)


def told(**values: Any) -> dict[str, Setting]:
    paths = {name.replace("__", "."): value for name, value in values.items()}
    return {path: setting(path, value, Source.SERVER_INFO) for path, value in paths.items()}


def options(**more: Any) -> dict[str, Setting]:
    """The settings of a server of today with blocks of 16 tokens and a length of 2048."""
    given_ = {
        "version": "0.32.0",
        "cache_config__block_size": 16,
        "model_config__max_model_len": 2048,
        "scheduler_config__max_num_batched_tokens": 256,
        "parallel_config__tensor_parallel_size": 1,
        "parallel_config__pipeline_parallel_size": 1,
    }
    return told(**{name: value for name, value in {**given_, **more}.items() if value is not ...})


def engines(
    server: Capture, paths: Collection[str] | None = None, more: Mapping[str, Setting] | None = None
) -> tuple[Engine, ...]:
    facts = facts_of(snapshot(server.answers, paths))
    assert facts.document is not None
    return engines_of(facts.engines, facts.kv_cache_groups, {**facts.document.settings, **(more or {})})


def one(
    report: EngineReport, groups_: Collection[KVCacheGroup] = (), settings: Mapping[str, Setting] | None = None
) -> Engine:
    (engine,) = engines_of((report,), tuple(groups_), options() if settings is None else settings)
    return engine


def logged(server: Capture) -> list[tuple[int, float]]:
    return list(zip(server.logged["kv_cache_size_tokens"], server.logged["max_concurrency"], strict=True))


def shown(found: Collection[Engine]) -> list[tuple[int | None, float | None]]:
    return [(each.kv_cache_size_tokens, round(each.max_concurrency or 0, 2)) for each in found]


# What vLLM logged


@pytest.mark.parametrize("server", captures(lambda each: each.version not in OLD and has_python_api(each)))
@pytest.mark.parametrize(
    "paths", [None, (METRICS, VERSION, MODELS), (SERVER_INFO,)], ids=["all", "metrics", "server_info"]
)
def test_reported_tokens_and_concurrency_are_those_that_vllm_logged(
    server: Capture, paths: Collection[str] | None
) -> None:
    found = engines(server, paths)

    assert found[0].basis is Basis.REPORTED
    assert found[0].reason is None
    expected = logged(server)[: len(found)]
    # Without /server_info the length of the other engines' concurrency is told by /v1/models.
    assert shown(found) == expected


@pytest.mark.parametrize("server", captures(lambda each: INFERENCE_CONFIG in each.answers))
def test_tokens_derived_from_the_configuration_api_alone_are_those_that_vllm_logged(server: Capture) -> None:
    """It does not tell whether scheduling is asynchronous; that matters for one of the captures only."""
    (found,) = engines(server, API_ONLY)

    assert shown([found]) == logged(server)
    if server.case == "gemma3_long":
        assert (found.basis, found.reason) == (Basis.ASSUMED, FORMULA_OPEN)
    else:
        assert (found.basis, found.reason) == (Basis.DERIVED, None)


@pytest.mark.parametrize("server", captures(lambda each: INFERENCE_CONFIG in each.answers))
def test_once_it_is_known_that_scheduling_is_not_asynchronous_every_derivation_is_exact(server: Capture) -> None:
    """It was off on every captured server: vLLM on a CPU."""
    (found,) = engines(server, API_ONLY, {ASYNC: setting(ASYNC, value=False, source=Source.SERVER_INFO)})

    assert shown([found]) == logged(server)
    assert found.basis is Basis.DERIVED


def test_asynchronous_scheduling_takes_room_where_the_window_is_shorter_than_the_length() -> None:
    (found,) = engines(capture("gemma3_long"), API_ONLY, {ASYNC: setting(ASYNC, value=True, source=Source.SERVER_INFO)})

    assert found.kv_cache_size_tokens == 2_974_354
    assert found.basis is Basis.DERIVED


@pytest.mark.parametrize("server", captures(lambda each: each.version in OLD))
def test_older_versions_are_an_upper_bound(server: Capture) -> None:
    (found,) = engines(server)

    assert (found.basis, found.reason) == (Basis.ASSUMED, ONLY_BLOCKS)
    assert found.kv_cache_size_tokens == found.naive_tokens
    assert (found.kv_cache_size_tokens or 0) >= logged(server)[0][0]
    assert (found.max_concurrency or 0) >= logged(server)[0][1]


def test_the_naive_number_of_a_hybrid_model_is_six_times_too_large() -> None:
    (found,) = engines(capture("gemma3_plugin"))

    assert (found.naive_tokens, found.kv_cache_size_tokens) == (4_194_304, 664_444)
    assert found.basis is Basis.REPORTED


def test_two_engines_hold_half_of_the_sum_each_and_the_second_is_assumed() -> None:
    found = engines(capture("llama_dp2"))

    assert [(each.dp_rank, each.num_gpu_blocks, each.kv_cache_size_tokens) for each in found] == [
        (0, 8192, 1_048_576),
        (1, 8192, 1_048_576),
    ]
    assert [(each.basis, each.reason) for each in found] == [(Basis.REPORTED, None), (Basis.ASSUMED, ONLY_FIRST)]


def test_an_engine_on_two_devices_has_the_bytes_of_both() -> None:
    (found,) = engines(capture("llama_tp2"))

    assert (found.kv_cache_bytes_per_device, found.kv_cache_bytes) == (GIB, 2 * GIB)


def test_a_server_that_only_answers_openly_tells_no_bytes() -> None:
    (found,) = engines(capture("llama"), (METRICS, VERSION, MODELS))

    assert (found.kv_cache_bytes, found.kv_cache_bytes_per_device) == (None, None)
    assert (found.num_gpu_blocks, found.block_size, found.max_model_len) == (8192, 128, 2048)


# What is told in part


def test_reported_tokens_stand_before_any_formula() -> None:
    found = one(EngineReport(0, 100, 777), [FULL])

    assert (found.kv_cache_size_tokens, found.basis) == (777, Basis.REPORTED)
    assert found.max_concurrency == round(777 / 2048, 2)
    assert one(EngineReport(0, 100, 777, 5.5), [FULL]).max_concurrency == 5.5
    assert one(EngineReport(0, 100, 777), settings=options(model_config__max_model_len=...)).max_concurrency is None


def test_a_derivation_that_hangs_on_the_unknown_is_an_upper_bound() -> None:
    unknown, off, on = (
        one(EngineReport(0, 1000), [SLIDING], options(**more))
        for more in ({}, {"scheduler_config__async_scheduling": False}, {"scheduler_config__async_scheduling": True})
    )

    assert (unknown.basis, off.basis, on.basis) == (Basis.ASSUMED, Basis.DERIVED, Basis.DERIVED)
    assert unknown.kv_cache_size_tokens == off.kv_cache_size_tokens
    assert (on.kv_cache_size_tokens or 0) < (off.kv_cache_size_tokens or 0)


def test_with_pipeline_parallelism_even_asynchronous_scheduling_leaves_the_batches_open() -> None:
    more = {"parallel_config__pipeline_parallel_size": 2, "scheduler_config__async_scheduling": True}

    assert one(EngineReport(0, 1000), [SLIDING], options(**more)).basis is Basis.ASSUMED


@pytest.mark.parametrize(
    "name", ["scheduler_config__max_num_batched_tokens", "parallel_config__pipeline_parallel_size"]
)
def test_without_the_tokens_in_flight_a_sliding_window_is_an_upper_bound_and_full_attention_exact(name: str) -> None:
    assert one(EngineReport(0, 1000), [SLIDING], options(**{name: ...})).basis is Basis.ASSUMED
    assert one(EngineReport(0, 1000), [FULL], options(**{name: ...})).basis is Basis.DERIVED


@pytest.mark.parametrize("version", ["0.20.2", "0.31.9", "dev", "²³", "9" * 5000, None, ...])
def test_the_formula_is_believed_for_hybrids_only_since_the_version_it_was_checked_on(version: Any) -> None:
    settings = options(version=version, scheduler_config__async_scheduling=False)

    assert one(EngineReport(0, 1000), [SLIDING], settings).basis is Basis.ASSUMED
    assert one(EngineReport(0, 1000), [FULL], settings).basis is Basis.DERIVED


def test_an_unknown_kind_of_group_leaves_the_naive_number_as_an_upper_bound() -> None:
    found = one(EngineReport(0, 1000), [FULL, FULL._replace(group_id=1, spec_type="RSWASpec")])

    assert (found.kv_cache_size_tokens, found.basis, found.reason) == (16_000, Basis.ASSUMED, ONLY_BLOCKS)
    assert found.kv_cache_bytes == 1000 * 4096 * 2


@pytest.mark.parametrize(
    ("report", "settings", "reason"),
    [
        (EngineReport(0), options(), NO_BLOCKS),
        (EngineReport(0, 100), options(cache_config__block_size=...), NO_BLOCK_SIZE),
        (EngineReport(0, 100), options(cache_config__block_size=None), NO_BLOCK_SIZE),
        (EngineReport(0, 100), options(cache_config__block_size=0), NO_BLOCK_SIZE),
        (EngineReport(0, 100), options(cache_config__block_size=-16), NO_BLOCK_SIZE),
        (EngineReport(0, 100), options(cache_config__block_size="16"), NO_BLOCK_SIZE),
        (EngineReport(0, 100), options(cache_config__block_size=True), NO_BLOCK_SIZE),
        (EngineReport(0, 100), options(cache_config__block_size=2**64), NO_BLOCK_SIZE),
        (EngineReport(0, 2**60), options(), TOO_LARGE),
        (EngineReport(0, 100), {}, NO_BLOCK_SIZE),
    ],
)
def test_what_cannot_be_known_is_null_with_the_reason(
    report: EngineReport, settings: dict[str, Setting], reason: str
) -> None:
    found = one(report, settings=settings)

    assert (found.kv_cache_size_tokens, found.max_concurrency, found.naive_tokens) == (None, None, None)
    assert (found.basis, found.reason) == (Basis.UNKNOWN, reason)


def test_a_derivation_beyond_what_any_server_holds_is_no_number() -> None:
    found = one(EngineReport(0, 2**60), [FULL])

    assert (found.kv_cache_size_tokens, found.basis, found.reason) == (None, Basis.UNKNOWN, TOO_LARGE)


def summed(total: int, *tokens: int | None, **more: Any) -> list[Engine]:
    """Engines of which the blocks are told as a sum, and the tokens of some."""
    reports = (EngineReport(rank, None, each, blocks_of_all=total) for rank, each in enumerate(tokens))
    return list(engines_of(tuple(reports), (), options(**more)))


@pytest.mark.parametrize(
    ("total", "first"),
    [
        pytest.param(98_304, 524_288, id="the sum divides evenly, but the first engine holds less than half"),
        pytest.param(98_305, 524_288, id="the sum does not divide"),
        pytest.param(98_305, None, id="and nobody tells tokens"),
    ],
)
def test_engines_that_differ_are_bound_by_the_sum_of_all(total: int, first: int | None) -> None:
    """32,768 and 65,536 blocks of 16 tokens hold 1,572,864: not twice what the first one holds."""
    found = summed(total, first, None)

    assert [(each.kv_cache_size_tokens, each.basis, each.reason) for each in found] == [
        (16 * total, Basis.ASSUMED, SHARE_UNKNOWN)
    ] * 2
    assert all(each.shares_sum and each.num_gpu_blocks is None for each in found)
    assert found[0].max_concurrency == 16 * total / 2048


@pytest.mark.parametrize("length", [2048, 2000])
def test_equal_engines_of_a_uniform_model_divide_the_sum(length: int) -> None:
    tokens = 100 * length // -(-length // 16)
    found = summed(200, tokens, None, model_config__max_model_len=length)

    assert [(each.num_gpu_blocks, each.kv_cache_size_tokens) for each in found] == [(100, tokens)] * 2
    assert [each.basis for each in found] == [Basis.REPORTED, Basis.ASSUMED]
    assert not any(each.shares_sum for each in found)


def test_the_tokens_of_a_hybrid_model_tell_nothing_of_how_many_blocks_it_has() -> None:
    found = summed(200, 333, None)

    assert [(each.num_gpu_blocks, each.kv_cache_size_tokens) for each in found] == [(100, 333)] * 2


@pytest.mark.parametrize("name", ["cache_config__block_size", "model_config__max_model_len"])
def test_without_size_or_length_engines_are_not_known_to_differ(name: str) -> None:
    assert [each.num_gpu_blocks for each in summed(200, 5000, None, **{name: ...})] == [100, 100]


@pytest.mark.parametrize(
    ("total", "more", "reason"),
    [(201, {"cache_config__block_size": ...}, NO_BLOCK_SIZE), (2**60 + 1, {}, TOO_LARGE)],
)
def test_a_sum_without_tokens_is_unknown(total: int, more: dict[str, Any], reason: str) -> None:
    found = summed(total, None, None, **more)

    assert {(each.kv_cache_size_tokens, each.basis, each.reason) for each in found} == {(None, Basis.UNKNOWN, reason)}
    assert not any(each.shares_sum for each in found)


def test_server_info_alone_shows_every_engine_and_says_that_the_others_are_not_reported() -> None:
    found = engines(capture("llama_dp2"), (SERVER_INFO,))

    assert [(each.dp_rank, each.kv_cache_size_tokens, each.basis, each.reason) for each in found] == [
        (0, 1_048_576, Basis.REPORTED, None),
        (1, 1_048_576, Basis.ASSUMED, ONLY_FIRST),
    ]


def test_a_later_engine_after_one_that_is_unknown_is_naive() -> None:
    found = engines_of((EngineReport(0), EngineReport(1, 10)), (), options())

    assert (found[1].kv_cache_size_tokens, found[1].reason) == (160, ONLY_BLOCKS)


def test_groups_belong_to_their_engine() -> None:
    found = engines_of(
        (EngineReport(0, 100), EngineReport(1, 100)),
        (FULL, SLIDING._replace(dp_rank=1)),
        options(scheduler_config__async_scheduling=False),
    )

    assert [each.basis for each in found] == [Basis.DERIVED, Basis.DERIVED]
    assert found[0].kv_cache_size_tokens != found[1].kv_cache_size_tokens


@pytest.mark.parametrize(
    "group", [FULL._replace(page_size_bytes=None), FULL._replace(layers=0), FULL._replace(page_size_bytes=2**60)]
)
def test_bytes_are_unknown_where_a_page_or_its_layers_are(group: KVCacheGroup) -> None:
    assert one(EngineReport(0, 100), [FULL, group._replace(group_id=1)]).kv_cache_bytes is None


def test_bytes_on_each_device_stand_also_where_the_number_of_devices_is_not_told() -> None:
    found = one(EngineReport(0, 100), [FULL], options(parallel_config__tensor_parallel_size=...))

    assert (found.kv_cache_bytes_per_device, found.kv_cache_bytes) == (100 * 4096 * 2, None)
    assert (
        one(
            EngineReport(0, 100),
            [FULL],
            options(parallel_config__tensor_parallel_size=4, parallel_config__pipeline_parallel_size=2),
        ).kv_cache_bytes
        == 8 * 100 * 4096 * 2
    )


def test_bytes_that_are_reported_stand_before_the_product() -> None:
    found = one(
        EngineReport(0, 100, kv_cache_bytes_per_device=5000), [FULL], options(parallel_config__tensor_parallel_size=2)
    )

    assert (found.kv_cache_bytes_per_device, found.kv_cache_bytes) == (5000, 10_000)
    assert one(EngineReport(0, kv_cache_bytes_per_device=0)).kv_cache_bytes == 0


def test_an_engine_that_fitted_its_length_to_its_memory_counts_requests_of_that_length() -> None:
    first, second = engines_of(
        (EngineReport(0, 100, 1600), EngineReport(1, 100, 1600, max_model_len=800)), (), options()
    )

    assert (first.max_model_len, first.max_concurrency) == (2048, 0.78)
    assert (second.max_model_len, second.max_concurrency) == (800, 2.0)


def test_the_batches_that_the_provider_tells_leave_nothing_open() -> None:
    """Whatever scheduling and pipeline parallelism would let think."""
    more = {"parallel_config__pipeline_parallel_size": 2, "scheduler_config__async_scheduling": True}
    three, two = (one(EngineReport(0, 1000), [SLIDING], options(**more, concurrent_batches=told)) for told in (3, 2))
    without = options(parallel_config__pipeline_parallel_size=..., concurrent_batches=2)

    assert (two.basis, three.basis) == (Basis.DERIVED, Basis.DERIVED)
    assert (three.kv_cache_size_tokens or 0) < (two.kv_cache_size_tokens or 0)
    assert one(EngineReport(0, 1000), [SLIDING], without).basis is Basis.DERIVED


def test_the_group_with_the_most_layers_decides_the_bytes() -> None:
    assert one(EngineReport(0, 10), [FULL, FULL._replace(group_id=1, layers=7)]).kv_cache_bytes == 10 * 4096 * 7


def test_speculation_and_context_parallelism_reach_the_formula() -> None:
    load = load_of(
        options(
            speculative_config__num_speculative_tokens=3,
            parallel_config__decode_context_parallel_size=4,
            scheduler_config__max_num_encoder_input_tokens=99,
        ),
        1000,
    )

    assert load is not None
    assert (
        load.max_model_len,
        load.speculative_tokens,
        load.decode_context_parallel_size,
        load.max_encoder_tokens,
    ) == (1000, (0, 3), 4, 99)
    assert load.in_flight == (256, 512)
    assert load_of({}) is None


def test_concurrency_has_the_two_decimals_that_vllm_logs() -> None:
    assert one(EngineReport(0, 100, 777, 7.629394531250001)).max_concurrency == 7.63
