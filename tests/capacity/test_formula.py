"""vLLM's formula: blocks of one request in each kind of KV cache group, and its laws."""

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.capacity.formula import (
    CHECKPOINTS,
    ENCODER,
    HOST_POOL,
    IN_FLIGHT,
    KIND,
    NO_BLOCKS_NEEDED,
    OF_VERSION,
    SHARDED,
    SHARDS,
    SPECULATIVE,
    Load,
    Need,
    blocks_per_request,
    ceil_div,
    concurrency,
)
from dashboard.fleet import KVCacheGroup
from tests.strategies import groups, loads

LOAD = Load(max_model_len=2048, in_flight=(256, 512), speculative_tokens=(0, 3))


def group(spec_type: str, block_size: int = 16, **more: Any) -> KVCacheGroup:
    return KVCacheGroup(0, 0, spec_type, block_size, 4096, 2)._replace(**more)


KEEPS_ALL = (
    *("FullAttentionSpec", "full_attention", "MLAAttentionSpec", "mla_attention", "sink_full_attention"),
    *("SinkFullAttentionSpec", "RSWASpec", "HiddenStateCacheSpec"),
)
SLIDING = ("SlidingWindowSpec", "sliding_window", "SlidingWindowMLASpec", "sliding_window_mla")
CHUNKED = "ChunkedLocalAttentionSpec"
NO_FORMULA = Need(0, None, KIND)
FULL = group("full_attention")


@pytest.mark.parametrize(
    ("found", "load", "blocks"),
    [
        *((group(kind), LOAD, Need(128, 128)) for kind in KEEPS_ALL),
        (FULL, LOAD._replace(max_model_len=2049), Need(129, 129)),
        # ceil((512 - 1 + 256) / 16) + 1, and with two batches ceil((512 - 1 + 3 + 512) / 16) + 1
        *((group(kind, sliding_window=512), LOAD, Need(49, 66, IN_FLIGHT)) for kind in SLIDING),
        (group("sliding_window", sliding_window=512, extra_retained_tokens=9), LOAD, Need(50, 66, IN_FLIGHT)),
        # 257 - 1 + 256 tokens are exactly 32 blocks of 16
        (group("sliding_window", sliding_window=257), LOAD, Need(33, 50, IN_FLIGHT)),
        (group("sliding_window", sliding_window=9999), LOAD, Need(129, 129)),
        (group("sliding_window", sliding_window=510), LOAD._replace(in_flight=(256, 256)), Need(49, 49)),
        (group("sliding_window", sliding_window=512), LOAD._replace(in_flight=(256, 256)), Need(49, 50, SPECULATIVE)),
        (
            group("sliding_window", sliding_window=512),
            LOAD._replace(in_flight=(256, 256), speculative_tokens=(0, None)),
            Need(49, 129, SPECULATIVE),
        ),
        (group("sliding_window"), LOAD, NO_FORMULA),
        (group(CHUNKED, attention_chunk_size=512), LOAD, Need(48, 64, IN_FLIGHT)),
        (group("chunked_local_attention", attention_chunk_size=9999), LOAD, Need(128, 128)),
        (group(CHUNKED), LOAD, NO_FORMULA),
        (group("cross_attention"), LOAD._replace(max_encoder_tokens=100), Need(7, 7)),
        (group("CrossAttentionSpec"), LOAD, Need(0, None, ENCODER)),
        (group("CircularBufferSpec"), LOAD, Need(1, 1)),
        *((group(kind), LOAD, Need(0, 0)) for kind in ("encoder_only_attention", "EncoderOnlyAttentionSpec")),
        *((group(kind, sliding_window=5), LOAD, NO_FORMULA) for kind in ("HiSparseHotSpec", "<b>")),
    ],
)
def test_each_kind_of_group_has_its_formula_or_none(found: KVCacheGroup, load: Load, blocks: Need) -> None:
    assert blocks_per_request(found, load) == blocks


@pytest.mark.parametrize(
    ("sizes", "is_sharded", "blocks"),
    [
        ((4, 4), True, Need(32, 32)),
        ((4, 4), False, Need(128, 128)),  # such as the layers of a draft model
        ((4, 4), None, Need(32, 128, SHARDED)),
        ((1, 4), True, Need(32, 128, SHARDS)),
        ((1, 4), False, Need(128, 128)),
        ((1, None), True, Need(0, 128, SHARDS)),
        ((1, None), False, Need(128, 128)),
        ((1, 1), None, Need(128, 128)),
    ],
)
def test_decode_context_parallelism_divides_the_tokens_of_sharded_groups_alone(
    sizes: tuple[int, int | None],
    is_sharded: bool | None,  # noqa: FBT001
    blocks: Need,
) -> None:
    load = LOAD._replace(decode_context_parallel_size=sizes)

    assert blocks_per_request(FULL._replace(dcp_sharded=is_sharded), load) == blocks


def test_a_version_whose_formula_is_not_known_has_that_of_groups_that_keep_every_token() -> None:
    load = LOAD._replace(is_checked=False)

    assert blocks_per_request(FULL, load) == Need(128, 128)
    assert blocks_per_request(group("sliding_window", sliding_window=5), load) == Need(0, None, OF_VERSION)
    assert blocks_per_request(group("<b>"), load) == NO_FORMULA


@pytest.mark.parametrize(
    ("mode", "speculative", "checkpoints", "blocks"),
    [
        ("none", 0, None, Need(1, 1)),
        ("none", 2, None, Need(3, 3)),
        ("none", None, None, Need(1, 4, SPECULATIVE)),
        ("align", 0, 0, Need(2, 2)),
        ("align", 2, 1, Need(5, 5)),
        ("align", None, None, Need(2, 6, SPECULATIVE)),
        ("align", 2, None, Need(4, 5, CHECKPOINTS)),
        ("all", 0, 0, NO_FORMULA),
        (None, 0, 0, NO_FORMULA),
    ],
)
def test_a_mamba_state_has_a_fixed_number_of_blocks(
    mode: str | None, speculative: int | None, checkpoints: int | None, blocks: Need
) -> None:
    found = group(
        "MambaSpec",
        mamba_cache_mode=mode,
        num_speculative_blocks=speculative,
        num_prefill_checkpoint_blocks=checkpoints,
    )

    assert blocks_per_request(found, LOAD) == blocks


@pytest.mark.parametrize("mode", ["none", "align"])
def test_unreported_speculation_leaves_the_most_blocks_of_a_mamba_state_open(mode: str) -> None:
    found = blocks_per_request(group("mamba", mamba_cache_mode=mode), LOAD._replace(speculative_tokens=(0, None)))

    assert (found.most, found.missing) == (None, SPECULATIVE)


MAMBA = group("MambaSpec", mamba_cache_mode="none", num_speculative_blocks=0)
ON_DEVICE = FULL._replace(host_resident=False)
IN_HOST = FULL._replace(host_resident=True)
NEW = group("HiSparseHotSpec", host_resident=False)


@pytest.mark.parametrize(
    ("blocks", "found", "result"),
    [
        pytest.param(1290, [FULL, MAMBA], (10, ()), id="groups share the blocks"),
        pytest.param(4900, [group("sliding_window", sliding_window=512)], (100, (IN_FLIGHT,)), id="an upper bound"),
        pytest.param(1280, [ON_DEVICE, NEW], (10, (KIND,)), id="an unknown kind takes blocks of its own"),
        pytest.param(1280, [FULL, NEW], (None, (KIND,)), id="which group of an unknown layout is on the device"),
        pytest.param(1280, [NEW], (None, (KIND,)), id="an unknown kind alone"),
        pytest.param(1280, [ON_DEVICE, IN_HOST], (10, (HOST_POOL,)), id="a second pool in host memory"),
        pytest.param(1280, [IN_HOST], (None, (HOST_POOL,)), id="host memory alone"),
        pytest.param(100, [group("encoder_only_attention")], (None, (NO_BLOCKS_NEEDED,)), id="no blocks"),
        pytest.param(100, [], (None, (NO_BLOCKS_NEEDED,)), id="no groups"),
    ],
)
def test_concurrency_is_the_blocks_divided_by_those_of_one_request(
    blocks: int, found: list[KVCacheGroup], result: tuple[float | None, tuple[str, ...]]
) -> None:
    assert concurrency(blocks, found, LOAD) == result


def test_groups_beside_one_of_unknown_sharding_are_no_bound() -> None:
    load = LOAD._replace(decode_context_parallel_size=(1, None))

    assert concurrency(1280, [FULL, MAMBA], load) == (None, (SHARDS,))


@given(st.integers(0, 2**70), st.integers(1, 2**40))
def test_division_rounds_up_exactly(number: int, by: int) -> None:
    assert (ceil_div(number, by) - 1) * by < number <= ceil_div(number, by) * by


def fits(blocks: int, found: list[KVCacheGroup], load: Load) -> float:
    limit, _ = concurrency(blocks, found, load)
    return inf if limit is None else limit


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
    """Or there is no bound any more, because a fact on it is missing."""
    limit, missing = concurrency(blocks, [*found, more], load)

    assert missing if limit is None else limit <= fits(blocks, found, load)


@given(st.integers(0, 10**6), st.lists(groups(), min_size=1, max_size=4), loads(), st.integers(1, 9999))
def test_concurrency_never_falls_with_blocks_nor_grows_with_tokens_in_flight(
    blocks: int, found: list[KVCacheGroup], load: Load, more: int
) -> None:
    busier = load._replace(in_flight=(load.in_flight[0] + more, load.in_flight[1] + more))

    assert fits(blocks + more, found, load) >= fits(blocks, found, load)
    assert fits(blocks, found, busier) <= fits(blocks, found, load)


@given(groups(), loads())
def test_the_least_is_never_more_than_the_most(found: KVCacheGroup, load: Load) -> None:
    least, most, missing = blocks_per_request(found, load)

    assert least >= 0
    assert most is None or least <= most
    assert (least == most) is (missing is None)
