"""Laws of capacity: numbers fit, nothing is counted twice, reported numbers do not change."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dashboard.capacity.engines import engines_of
from dashboard.fleet import Basis, EngineReport, KVCacheGroup
from tests.capacity.servers import LENGTH, SERVER, one, options, settings_of
from tests.strategies import full_groups, groups
from vllm_fleet_provider.shared.types import MAX_INTEGER

numbers = st.one_of(st.none(), st.integers(0, MAX_INTEGER))
hostile: st.SearchStrategy[Any] = st.sampled_from(
    [None, -1, 0, 1, 16, 2**31, 10**9, 2**63 - 1, 2**63, 2**64, 0.5, True, "16", [], {}]
)


@given(
    st.lists(
        st.builds(
            EngineReport,
            st.integers(0, 3),
            numbers,
            numbers,
            st.none(),
            st.booleans(),
            numbers,
            st.none(),
            st.one_of(st.none(), st.integers(1, MAX_INTEGER)),
            numbers,
            st.none(),
        ),
        max_size=3,
    ),
    st.lists(groups(), max_size=3),
    st.dictionaries(st.sampled_from(sorted(SERVER)), hostile),
)
def test_every_number_fits_a_column_of_integers_for_any_input(
    reports: list[EngineReport], found: list[KVCacheGroup], values: dict[str, Any]
) -> None:
    for engine in engines_of(reports, found, settings_of(values)):
        counts = [value for value in engine if isinstance(value, int)]
        assert all(0 <= count <= MAX_INTEGER for count in counts)
        assert (engine.kv_cache_size_tokens is None) is (engine.basis is Basis.UNKNOWN)
        assert (engine.reason is None) is (engine.basis in {Basis.REPORTED, Basis.DERIVED})


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.lists(groups(), max_size=3))
def test_reported_numbers_do_not_change(blocks: int, tokens: int, found: list[KVCacheGroup]) -> None:
    engine = one(EngineReport(0, blocks, tokens), found)

    assert (engine.num_gpu_blocks, engine.kv_cache_size_tokens, engine.basis) == (blocks, tokens, Basis.REPORTED)


@given(st.integers(0, 10**7), st.lists(full_groups, min_size=1, max_size=4), st.integers(1, 200_000))
def test_derived_tokens_of_full_attention_never_exceed_the_naive_estimate(
    blocks: int, found: list[KVCacheGroup], length: int
) -> None:
    same = [group._replace(block_size=16, host_resident=None) for group in found]

    engine = one(EngineReport(0, blocks), same, options({LENGTH: length}))

    assert engine.basis is Basis.DERIVED
    assert (engine.kv_cache_size_tokens or 0) <= (engine.naive_tokens or 0)


@given(st.integers(0, 2**40), st.integers(2, 8), st.one_of(st.none(), st.integers(0, 2**40)))
def test_the_ranks_of_a_server_never_have_more_blocks_than_their_sum(
    total: int, ranks: int, tokens: int | None
) -> None:
    reports = [EngineReport(rank, None, None if rank else tokens, blocks_of_all=total) for rank in range(ranks)]

    found = engines_of(reports, (), options())

    assert sum(each.num_gpu_blocks or 0 for each in found) <= total
    assert len(found) == ranks
