"""Capacity of captured servers: equal to the log of vLLM, or an upper bound of it."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from dashboard.capacity.engines import NO_GROUPS, ONLY_FIRST, RequestsAtLength, requests_at
from dashboard.fleet import Basis, Engine, Setting
from tests.builders import engine
from tests.capacity.servers import ASYNC, CONTEXT, engines_of_answers, settings_of
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
)
from tests.provider_answers import with_provider

IN_FLIGHT_OPEN = "Upper bound. Unknown: batches in flight."
OLD = {"0.12.0", "0.20.2"}  # they report no kv_cache_size_tokens
GIB = 2**30
API_ONLY, OPEN = (INFERENCE_CONFIG, VERSION, MODELS), (METRICS, VERSION, MODELS)
UNKNOWN = RequestsAtLength(None, served=True, at_most=False)


def engines(
    server: Capture, paths: Collection[str] | None = None, more: Mapping[str, Setting] | None = None
) -> tuple[Engine, ...]:
    return engines_of_answers(server.answers, paths, more)[0]


def numbers(found: Collection[Engine]) -> list[tuple[int | None, float | None]]:
    return [(each.kv_cache_size_tokens, round(each.max_concurrency or 0, 2)) for each in found]


def logged(server: Capture) -> list[tuple[int, float]]:
    return list(zip(server.logged["kv_cache_size_tokens"], server.logged["max_concurrency"], strict=True))


@pytest.mark.parametrize("server", captures(lambda each: each.version not in OLD and has_python_api(each)))
@pytest.mark.parametrize("paths", [None, OPEN, (SERVER_INFO,)], ids=["all", "metrics", "server_info"])
def test_reported_tokens_and_concurrency_equal_the_log(server: Capture, paths: Collection[str] | None) -> None:
    found = engines(server, paths)

    assert (found[0].basis, found[0].reason) == (Basis.REPORTED, None)
    assert numbers(found) == logged(server)[: len(found)]


@pytest.mark.parametrize("server", captures(lambda each: INFERENCE_CONFIG in each.answers))
def test_tokens_derived_from_the_configuration_api_equal_the_log(server: Capture) -> None:
    """The API does not report asynchronous scheduling, which matters for one capture. vLLM on a CPU has it off.

    Nor does it report the decode context parallel size, which is 1 unless the tensor parallel size is more.
    """
    (found,) = engines(server, API_ONLY, settings_of({CONTEXT: 1}))
    (known,) = engines(server, API_ONLY, settings_of({ASYNC: False, CONTEXT: 1}))
    is_open = server.case == "gemma3_long"

    assert numbers([found]) == numbers([known]) == logged(server)
    assert (found.basis, found.reason) == ((Basis.ASSUMED, IN_FLIGHT_OPEN) if is_open else (Basis.DERIVED, None))
    assert known.basis is Basis.DERIVED


def test_unreported_context_parallelism_leaves_the_tokens_of_two_devices_open() -> None:
    (found,), (alone,) = engines(capture("llama_tp2"), API_ONLY), engines(capture("llama"), API_ONLY)

    assert (found.basis, found.reason) == (Basis.ASSUMED, "Upper bound. Unknown: decode context parallel size.")
    assert found.kv_cache_size_tokens == 2 * logged(capture("llama_tp2"))[0][0]
    assert alone.basis is Basis.DERIVED


def test_asynchronous_scheduling_reduces_tokens_where_the_window_is_shorter_than_the_length() -> None:
    (found,) = engines(capture("gemma3_long"), API_ONLY, settings_of({ASYNC: True}))

    assert (found.kv_cache_size_tokens, found.basis) == (2_974_354, Basis.DERIVED)


@pytest.mark.parametrize("server", captures(lambda each: each.version in OLD))
def test_versions_that_report_only_blocks_have_no_tokens(server: Capture) -> None:
    """One of them is a hybrid model; nothing that they answer shows which."""
    (found,) = engines(server)

    assert (found.kv_cache_size_tokens, found.basis, found.reason) == (None, Basis.UNKNOWN, NO_GROUPS)
    assert found.naive_tokens == (found.num_gpu_blocks or 0) * (found.block_size or 0)


def test_the_naive_estimate_of_a_hybrid_model_is_six_times_too_large() -> None:
    (found,) = engines(capture("gemma3_plugin"))

    assert (found.naive_tokens, found.kv_cache_size_tokens, found.basis) == (4_194_304, 664_444, Basis.REPORTED)


@pytest.mark.parametrize("paths", [None, (SERVER_INFO,)], ids=["all", "server_info"])
def test_a_second_engine_without_own_numbers_is_assumed_equal_to_the_first(paths: Collection[str] | None) -> None:
    found = engines(capture("llama_dp2"), paths)

    assert [(each.dp_rank, each.kv_cache_size_tokens, each.basis, each.reason) for each in found] == [
        (0, 1_048_576, Basis.REPORTED, None),
        (1, 1_048_576, Basis.ASSUMED, ONLY_FIRST),
    ]
    assert [each.num_gpu_blocks for each in engines(capture("llama_dp2"))] == [8192, 8192]


def test_bytes_are_the_sum_over_devices_and_unknown_from_open_endpoints() -> None:
    (pair,), (bare,) = engines_of_answers(with_provider(capture("llama_tp2")))[0], engines(capture("llama"), OPEN)

    assert (pair.kv_cache_bytes_per_device, pair.kv_cache_bytes) == (GIB, 2 * GIB)
    assert (bare.kv_cache_bytes_per_device, bare.kv_cache_bytes) == (None, None)
    assert (bare.num_gpu_blocks, bare.block_size, bare.max_model_len) == (8192, 128, 2048)


@pytest.mark.parametrize("server", captures(has_python_api))
def test_every_rank_that_the_provider_reports_equals_the_log(server: Capture) -> None:
    found, *_ = engines_of_answers(with_provider(server, fingerprints=("one root",)))

    assert numbers(found) == logged(server)
    assert {(each.basis, each.reason) for each in found} == {(Basis.REPORTED, None)}


def test_the_provider_reports_blocks_and_hashes_per_rank() -> None:
    found, *_ = engines_of_answers(with_provider(capture("llama_dp2"), fingerprints=("a", "b")))

    assert [(each.dp_rank, each.num_gpu_blocks) for each in found] == [(0, 8192), (1, 8192)]
    assert len({each.fingerprint for each in found} - {None}) == 2


def at(case: str, length: int, paths: Any = None, spec_type: str = "") -> RequestsAtLength:
    (found,), replica, settings = engines_of_answers(capture(case).answers, paths)
    groups = [each._replace(spec_type=spec_type or each.spec_type) for each in replica.kv_cache_groups]
    result = requests_at(found, groups, settings, length)
    return result._replace(requests=round(result.requests, 3) if result.requests is not None else None)


@pytest.mark.parametrize(
    ("case", "length", "paths", "result"),
    [
        ("llama", 2048, None, RequestsAtLength(512.0, served=True, at_most=False)),
        ("gemma3", 2048, None, RequestsAtLength(324.44, served=True, at_most=False)),
        ("mamba2", 2048, None, RequestsAtLength(58661.0, served=True, at_most=False)),
        ("deepseek_mla", 2048, None, RequestsAtLength(113.77, served=True, at_most=False)),
        ("llama", 1024, None, RequestsAtLength(1024, served=True, at_most=False)),
        ("mamba2", 1024, None, RequestsAtLength(58661, served=True, at_most=False)),
        ("llama", 2049, None, RequestsAtLength(None, served=False, at_most=False)),
        ("llama", 1000, OPEN, RequestsAtLength(1048.576, served=True, at_most=False)),
        ("gemma3", 1000, OPEN, UNKNOWN),
        ("gemma3_long", 32768, API_ONLY, RequestsAtLength(102.08, served=True, at_most=True)),
    ],
)
def test_requests_at_a_length_follow_the_formula_or_a_uniform_model(
    case: str, length: int, paths: Any, result: RequestsAtLength
) -> None:
    found = at(case, length, paths)

    assert found._replace(requests=None) == result._replace(requests=None)
    assert found.requests == pytest.approx(result.requests, abs=0.005)


def test_requests_are_unknown_for_a_kind_without_a_formula_and_without_data() -> None:
    bare = engine(None, basis=Basis.UNKNOWN, max_model_len=None)
    groups = engines_of_answers(capture("llama").answers)[1].kv_cache_groups

    assert at("gemma3", 2048, spec_type="HiSparseHotSpec") == UNKNOWN
    assert requests_at(bare, (), {}, 1000) == requests_at(bare, groups, {}, 1000) == UNKNOWN


@pytest.mark.parametrize("basis", [Basis.REPORTED, Basis.ASSUMED])
def test_requests_of_an_upper_bound_are_an_upper_bound(basis: Basis) -> None:
    expected = RequestsAtLength(16.0, served=True, at_most=basis is Basis.ASSUMED)

    assert requests_at(engine(16_000, basis=basis), (), {}, 1000) == expected
