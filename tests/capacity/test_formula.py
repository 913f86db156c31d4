"""vLLM's formula: blocks of one request in each kind of KV cache group, and its laws."""

from math import inf
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dashboard.capacity.formula import Load, Result, blocks_per_request, ceil_div, concurrency
from dashboard.fleet import KVCacheGroup
from tests.strategies import groups, loads

LOAD = Load(max_model_len=2048, in_flight=(256, 512), speculative_tokens=(0, 3))


def group(spec_type: str, block_size: int = 16, **more: Any) -> KVCacheGroup:
    return KVCacheGroup(0, 0, spec_type, block_size, 4096, 2)._replace(**more)


KEEPS_ALL = ("FullAttentionSpec", "full_attention", "MLAAttentionSpec", "mla_attention", "sink_full_attention")
CHUNKED = "ChunkedLocalAttentionSpec"


@pytest.mark.parametrize(
    ("found", "load", "blocks"),
    [
        *((group(kind), LOAD, (128, 128)) for kind in (*KEEPS_ALL, "SinkFullAttentionSpec")),
        (group("full_attention"), LOAD._replace(max_model_len=2049), (129, 129)),
        (group("full_attention"), LOAD._replace(decode_context_parallel_size=4), (32, 32)),
        # ceil((512 - 1 + 256) / 16) + 1, and with two batches ceil((512 - 1 + 3 + 512) / 16) + 1
        (group("SlidingWindowSpec", sliding_window=512), LOAD, (49, 66)),
        (group("sliding_window", sliding_window=512, extra_retained_tokens=9), LOAD, (50, 66)),
        # 257 - 1 + 256 tokens are exactly 32 blocks of 16
        (group("sliding_window", sliding_window=257), LOAD, (33, 50)),
        (group("sliding_window", sliding_window=9999), LOAD, (129, 129)),
        (group("sliding_window"), LOAD, None),
        (group(CHUNKED, attention_chunk_size=512), LOAD, (48, 64)),
        (group("chunked_local_attention", attention_chunk_size=9999), LOAD, (128, 128)),
        (group(CHUNKED), LOAD, None),
        (group("cross_attention"), LOAD._replace(max_encoder_tokens=100), (7, 7)),
        (group("CrossAttentionSpec"), LOAD, None),
        (group("encoder_only_attention"), LOAD, (0, 0)),
        *((group(kind, sliding_window=5), LOAD, None) for kind in ("RSWASpec", "sliding_window_mla", "<b>")),
    ],
)
def test_each_kind_of_group_has_its_formula_or_none(
    found: KVCacheGroup, load: Load, blocks: tuple[int, int] | None
) -> None:
    assert blocks_per_request(found, load) == blocks


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
def test_a_mamba_state_has_a_fixed_number_of_blocks(
    mode: str | None, speculative: int | None, checkpoints: int | None, blocks: tuple[int, int] | None
) -> None:
    found = group(
        "MambaSpec",
        mamba_cache_mode=mode,
        num_speculative_blocks=speculative,
        num_prefill_checkpoint_blocks=checkpoints,
    )

    assert blocks_per_request(found, LOAD) == blocks


MAMBA = group("MambaSpec", mamba_cache_mode="none", num_speculative_blocks=0)


@pytest.mark.parametrize(
    ("blocks", "found", "result"),
    [
        pytest.param(1290, [group("full_attention"), MAMBA], Result(10, exact=True), id="groups share the blocks"),
        pytest.param(
            4900, [group("sliding_window", sliding_window=512)], Result(100, exact=False), id="an upper bound"
        ),
        pytest.param(100, [group("full_attention"), group("RSWASpec")], None, id="an unknown kind"),
        pytest.param(100, [group("encoder_only_attention")], None, id="no blocks per request"),
        pytest.param(100, [], None, id="no groups"),
    ],
)
def test_concurrency_is_the_blocks_divided_by_those_of_one_request(
    blocks: int, found: list[KVCacheGroup], result: Result | None
) -> None:
    assert concurrency(blocks, found, LOAD) == result


@given(st.integers(0, 2**70), st.integers(1, 2**40))
def test_division_rounds_up_exactly(number: int, by: int) -> None:
    assert (ceil_div(number, by) - 1) * by < number <= ceil_div(number, by) * by


def fits(blocks: int, found: list[KVCacheGroup], load: Load) -> float:
    result = concurrency(blocks, found, load)
    return inf if result is None else result.concurrency


@given(st.integers(0, 10**6), st.lists(groups(), min_size=1, max_size=4), loads(), st.integers(1, 10_000))
def test_longer_requests_never_increase_concurrency(
    blocks: int, found: list[KVCacheGroup], load: Load, more: int
) -> None:
    assert fits(blocks, found, load._replace(max_model_len=load.max_model_len + more)) <= fits(blocks, found, load)


@given(st.integers(0, 10**6), st.lists(groups(), min_size=1, max_size=4), loads(), st.integers(1, 5000))
def test_a_wider_window_or_chunk_never_increases_concurrency(
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
def test_another_group_never_increases_concurrency(
    blocks: int, found: list[KVCacheGroup], more: KVCacheGroup, load: Load
) -> None:
    assert fits(blocks, [*found, more], load) <= fits(blocks, found, load)


@given(st.integers(0, 10**6), st.lists(groups(), min_size=1, max_size=4), loads(), st.integers(1, 9999))
def test_concurrency_never_falls_with_blocks_nor_grows_with_tokens_in_flight(
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
