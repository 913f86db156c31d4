"""vLLM's own group-aware capacity formula, on reported KV cache groups.

Source: vllm/v1/kv_cache_interface.py (max_memory_usage_bytes of each spec) and vllm/v1/core/kv_cache_utils.py
(get_max_concurrency_for_kv_cache_config) of vLLM 0.32.0. A request of `length` tokens needs, in blocks:

    full, MLA, sink   ceil(length / block_size)
    sliding window    ceil(min(sliding_window - 1 + extra_retained_tokens + in_flight, length) / block_size) + 1
    chunked local     ceil(min(attention_chunk_size + in_flight, length) / block_size)
    Mamba             1 + speculative blocks, or in mode `align` 2 + speculative + checkpoint blocks
    cross attention   ceil(max_num_encoder_input_tokens / block_size)

    in_flight   = max_num_batched_tokens x concurrent batches
    concurrency = num_gpu_blocks / sum of blocks over the groups
    tokens      = floor(concurrency x max_model_len)
"""

from collections.abc import Sequence
from typing import NamedTuple

from dashboard.fleet import KVCacheGroup
from dashboard.vllm.schemas.types import (
    ChunkedLocalAttentionGroup,
    CrossAttentionGroup,
    FullAttentionGroup,
    MambaGroup,
    MLAAttentionGroup,
    SinkFullAttentionGroup,
    SlidingWindowGroup,
    kinds_of,
)

KEEPS_ALL = kinds_of(FullAttentionGroup, MLAAttentionGroup, SinkFullAttentionGroup)
SLIDING = kinds_of(SlidingWindowGroup)
CHUNKED = kinds_of(ChunkedLocalAttentionGroup)
MAMBA = kinds_of(MambaGroup)
CROSS = kinds_of(CrossAttentionGroup)
ENCODER_ONLY = frozenset({"encoder_only_attention"})  # keeps nothing
MAMBA_MODES = frozenset({"none", "align"})


class Load(NamedTuple):
    """What the formula needs in addition to the groups. `in_flight` and `speculative_tokens` as (least, most)."""

    max_model_len: int
    in_flight: tuple[int, int]
    speculative_tokens: tuple[int, int] = (0, 0)
    decode_context_parallel_size: int = 1
    max_encoder_tokens: int | None = None


class Result(NamedTuple):
    """Requests of one length that fit, and whether unreported settings could change that.

    When it is not exact, `concurrency` is the upper bound.
    """

    concurrency: float
    exact: bool


def concurrency(num_gpu_blocks: int, groups: Sequence[KVCacheGroup], load: Load) -> Result | None:
    """Return how many requests of `load.max_model_len` tokens fit; None when a group's kind has no known formula."""
    least, most = 0, 0
    for group in groups:
        blocks = blocks_per_request(group, load)
        if blocks is None:
            return None
        least, most = least + blocks[0], most + blocks[1]
    if not least:
        return None
    return Result(num_gpu_blocks / least, exact=least == most)


def blocks_per_request(group: KVCacheGroup, load: Load) -> tuple[int, int] | None:
    """Return the least and the most blocks that one request takes in a group; None for an unknown kind."""
    length, size, kind = load.max_model_len, group.block_size, group.spec_type
    if kind in KEEPS_ALL:
        blocks = ceil_div(ceil_div(length, load.decode_context_parallel_size), size)
        return blocks, blocks
    if kind in SLIDING:
        return _sliding(group, load)
    if kind in CHUNKED and group.attention_chunk_size is not None:
        least, most = (ceil_div(min(group.attention_chunk_size + flying, length), size) for flying in load.in_flight)
        return least, most
    if kind in MAMBA and group.mamba_cache_mode in MAMBA_MODES:
        return _mamba(group, load)
    if kind in CROSS and load.max_encoder_tokens is not None:
        blocks = ceil_div(load.max_encoder_tokens, size)
        return blocks, blocks
    return (0, 0) if kind in ENCODER_ONLY else None


def ceil_div(number: int, by: int) -> int:
    """Divide and round up, exactly."""
    return -(-number // by)


def _sliding(group: KVCacheGroup, load: Load) -> tuple[int, int] | None:
    if group.sliding_window is None:
        return None
    # Only multi-module speculative decoding retains more, up to the speculative tokens (num_prefill_lookahead_tokens).
    most_retained = max(group.extra_retained_tokens, load.speculative_tokens[1])
    retained = (group.extra_retained_tokens, most_retained)
    least, most = (
        ceil_div(min(group.sliding_window - 1 + extra + flying, load.max_model_len), group.block_size) + 1
        for extra, flying in zip(retained, load.in_flight, strict=True)
    )
    return least, most


def _mamba(group: KVCacheGroup, load: Load) -> tuple[int, int]:
    blocks = group.num_speculative_blocks
    speculative = load.speculative_tokens if blocks is None else (blocks, blocks)
    if group.mamba_cache_mode == "none":
        return 1 + speculative[0], 1 + speculative[1]
    checkpoints = group.num_prefill_checkpoint_blocks
    # vLLM 0.32.0 keeps at most one checkpoint block.
    extra = (0, 1) if checkpoints is None else (checkpoints, checkpoints)
    return 2 + speculative[0] + extra[0], 2 + speculative[1] + extra[1]
