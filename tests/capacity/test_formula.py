"""vLLM's formula: blocks of one request in each kind of KV cache group, and its laws."""

from math import inf
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dashboard.capacity.formula import Load, blocks_per_request, ceil_div, concurrency
from dashboard.fleet import KVCacheGroup
from tests.strategies import groups, loads

LOAD = Load(max_model_len=2048, in_flight=(256, 512), speculative_tokens=(0, 3))


def group(spec_type: str, block_size: int = 16, **more: Any) -> KVCacheGroup:
    return KVCacheGroup(0, 0, spec_type, block_size, 4096, 2)._replace(**more)


@pytest.mark.parametrize(
    "kind",
    [
        "FullAttentionSpec",
        "full_attention",
        "MLAAttentionSpec",
        "mla_attention",
        "SinkFullAttentionSpec",
        "sink_full_attention",
    ],
)
def test_every_token_of_a_request_stays(kind: str) -> None:
    assert blocks_per_request(group(kind), LOAD) == (128, 128)
    assert blocks_per_request(group(kind), LOAD._replace(max_model_len=2049)) == (129, 129)
    assert blocks_per_request(group(kind), LOAD._replace(decode_context_parallel_size=4)) == (32, 32)


@pytest.mark.parametrize("kind", ["SlidingWindowSpec", "sliding_window"])
def test_a_sliding_window_keeps_itself_the_batch_in_flight_and_one_block_more(kind: str) -> None:
    """Ceil((512 - 1 + 256) / 16) + 1, and with two batches ceil((512 - 1 + 3 + 512) / 16) + 1."""
    assert blocks_per_request(group(kind, sliding_window=512), LOAD) == (49, 66)
    assert blocks_per_request(group(kind, sliding_window=512, extra_retained_tokens=9), LOAD) == (50, 66)


def test_a_window_counts_the_token_that_is_computed_as_its_own() -> None:
    """257 - 1 + 256 tokens are 32 blocks of 16 exactly; one token more would be 33."""
    assert blocks_per_request(group("SlidingWindowSpec", sliding_window=257), LOAD) == (33, 50)


def test_a_sliding_window_is_cut_off_by_the_length() -> None:
    assert blocks_per_request(group("SlidingWindowSpec", sliding_window=9999), LOAD) == (129, 129)


def test_a_sliding_window_that_is_not_told_has_no_formula() -> None:
    assert blocks_per_request(group("SlidingWindowSpec"), LOAD) is None


def test_a_chunk_keeps_itself_and_the_batch_in_flight() -> None:
    assert blocks_per_request(group("ChunkedLocalAttentionSpec", attention_chunk_size=512), LOAD) == (48, 64)
    assert blocks_per_request(group("chunked_local_attention", attention_chunk_size=9999), LOAD) == (128, 128)
    assert blocks_per_request(group("ChunkedLocalAttentionSpec"), LOAD) is None


@pytest.mark.parametrize(
    ("mode", "speculative", "checkpoints", "blocks"),
    [
        ("none", 0, None, (1, 1)),
        ("none", 2, None, (3, 3)),
        ("none", None, None, (1, 4)),
        ("align", 0, 0, (2, 2)),
        ("align", 2, 1, (5, 5)),
        ("align", None, None, (2, 6)),
        ("all", 0, 0, None),
        (None, 0, 0, None),
    ],
)
def test_a_mamba_state_takes_a_fixed_number_of_blocks(
    mode: str | None, speculative: int | None, checkpoints: int | None, blocks: tuple[int, int] | None
) -> None:
    told = group(
        "MambaSpec",
        mamba_cache_mode=mode,
        num_speculative_blocks=speculative,
        num_prefill_checkpoint_blocks=checkpoints,
    )

    assert blocks_per_request(told, LOAD) == blocks


def test_cross_attention_keeps_what_the_encoder_puts_out() -> None:
    assert blocks_per_request(group("CrossAttentionSpec"), LOAD) is None
    assert blocks_per_request(group("cross_attention"), LOAD._replace(max_encoder_tokens=100)) == (7, 7)


def test_encoder_only_attention_keeps_nothing() -> None:
    assert blocks_per_request(group("encoder_only_attention"), LOAD) == (0, 0)
    assert concurrency(100, [group("encoder_only_attention")], LOAD) is None


@pytest.mark.parametrize("kind", ["RSWASpec", "unknown", "sliding_window_mla", "<b>"])
def test_an_unknown_kind_makes_the_whole_underivable(kind: str) -> None:
    assert blocks_per_request(group(kind, sliding_window=5), LOAD) is None
    assert concurrency(100, [group("FullAttentionSpec"), group(kind)], LOAD) is None


def test_requests_share_the_blocks_of_all_groups() -> None:
    both = [group("FullAttentionSpec"), group("MambaSpec", mamba_cache_mode="none", num_speculative_blocks=0)]

    result = concurrency(1290, both, LOAD)

    assert result is not None
    assert result.concurrency == 10
    assert result.exact


def test_what_is_open_gives_the_upper_bound() -> None:
    result = concurrency(4900, [group("SlidingWindowSpec", sliding_window=512)], LOAD)

    assert result is not None
    assert result.concurrency == 100
    assert not result.exact


def test_no_groups_hold_nothing() -> None:
    assert concurrency(100, [], LOAD) is None


@given(st.integers(0, 2**70), st.integers(1, 2**40))
def test_division_rounds_up_exactly(number: int, by: int) -> None:
    assert (ceil_div(number, by) - 1) * by < number <= ceil_div(number, by) * by


def fits(blocks: int, found: list[KVCacheGroup], load: Load) -> float:
    result = concurrency(blocks, found, load)
    return inf if result is None else result.concurrency


@given(st.integers(0, 10**6), st.lists(groups(), min_size=1, max_size=4), loads(), st.integers(1, 10_000))
def test_longer_requests_never_fit_more_often(blocks: int, found: list[KVCacheGroup], load: Load, more: int) -> None:
    assert fits(blocks, found, load._replace(max_model_len=load.max_model_len + more)) <= fits(blocks, found, load)


@given(st.integers(0, 10**6), st.lists(groups(), min_size=1, max_size=4), loads(), st.integers(1, 5000))
def test_a_wider_window_or_chunk_never_lets_more_fit(
    blocks: int, found: list[KVCacheGroup], load: Load, more: int
) -> None:
    wider = [
        each._replace(
            sliding_window=each.sliding_window + more if each.sliding_window else None,
            attention_chunk_size=each.attention_chunk_size + more if each.attention_chunk_size else None,
        )
        for each in found
    ]

    assert fits(blocks, wider, load) <= fits(blocks, found, load)


@given(st.integers(0, 10**6), st.lists(groups(), min_size=1, max_size=4), groups(), loads())
def test_another_group_never_lets_more_fit(
    blocks: int, found: list[KVCacheGroup], more: KVCacheGroup, load: Load
) -> None:
    assert fits(blocks, [*found, more], load) <= fits(blocks, found, load)


@given(st.integers(0, 10**6), st.lists(groups(), min_size=1, max_size=4), loads(), st.integers(1, 9999))
def test_more_blocks_never_hold_less_and_more_in_flight_never_lets_more_fit(
    blocks: int, found: list[KVCacheGroup], load: Load, more: int
) -> None:
    busier = load._replace(in_flight=(load.in_flight[0] + more, load.in_flight[1] + more))

    assert fits(blocks + more, found, load) >= fits(blocks, found, load)
    assert fits(blocks, found, busier) <= fits(blocks, found, load)


@given(groups(), loads())
def test_the_least_is_never_more_than_the_most(found: KVCacheGroup, load: Load) -> None:
    blocks = blocks_per_request(found, load)

    assume(blocks is not None)
    assert blocks is not None
    assert 0 < blocks[0] <= blocks[1]
