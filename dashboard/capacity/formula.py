"""vLLM's own group-aware capacity formula, on reported KV cache groups.

Source: vllm/v1/kv_cache_interface.py (max_memory_usage_bytes of each spec) and vllm/v1/core/kv_cache_utils.py
(get_max_concurrency_for_kv_cache_config) of vLLM 0.32.0 and 0.33.0. A request of `length` tokens needs, in blocks:

    full, MLA, sink   ceil(length / block_size); sharded: ceil(ceil(length / decode context parallel size) / block_size)
    sliding window    ceil(min(sliding_window - 1 + extra_retained_tokens + in_flight, length) / block_size) + 1
    chunked local     ceil(min(attention_chunk_size + in_flight, length) / block_size)
    Mamba             1 + speculative blocks, or in mode `align` 2 + speculative + checkpoint blocks
    cross attention   ceil(max_num_encoder_input_tokens / block_size)
    circular buffer   1
    encoder only      0

    in_flight   = max_num_batched_tokens x concurrent batches
    concurrency = num_gpu_blocks / sum of blocks over the groups on the device
    tokens      = floor(concurrency x max_model_len)

Groups in host memory (HiSparse) have a pool of their own, and the smaller limit applies: its blocks are not reported,
so the limit of the device is an upper bound.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dashboard.fleet import KVCacheGroup
from vllm_fleet_provider.shared import types

KEEPS_ALL = types.kinds_of(types.FullAttentionGroup, types.MLAAttentionGroup, types.SinkFullAttentionGroup)
ENCODER_ONLY = types.kinds_of(types.EncoderOnlyAttentionGroup)  # keeps nothing
MAMBA_MODES = frozenset({"none", "align"})

# Facts that a number can lack, as reasons name them.
LENGTH = "maximum request length"
IN_FLIGHT = "batches in flight"
SPECULATIVE = "speculative tokens"
CHECKPOINTS = "checkpoint blocks"
SHARDS = "decode context parallel size"
SHARDED = "whether each KV cache group is sharded"
ENCODER = "encoder tokens"
KIND = "formula of a kind of KV cache group"
OF_VERSION = "formula of this vLLM version"
HOST_POOL = "blocks in host memory"
NO_BLOCKS_NEEDED = "a KV cache group that takes blocks"


class Load(NamedTuple):
    """What the formula needs in addition to the groups. Ranges are (least, most); most is None where it is unknown.

    `is_checked`: the formula is that of the vLLM version. Groups that keep every token had no other one before.
    """

    max_model_len: int
    in_flight: tuple[int, int]
    speculative_tokens: tuple[int, int | None] = (0, 0)
    decode_context_parallel_size: tuple[int, int | None] = (1, 1)
    max_encoder_tokens: int | None = None
    is_checked: bool = True


class Need(NamedTuple):
    """The least and the most blocks that a request takes in a group, and the fact that decides between them.

    `most` is None where it is unknown.
    """

    least: int
    most: int | None
    missing: str | None = None


def concurrency(
    num_gpu_blocks: int, groups: Sequence[KVCacheGroup], load: Load
) -> tuple[float | None, tuple[str, ...]]:
    """Return how many requests of `load.max_model_len` tokens fit, and the facts that are missing.

    With any of these the number is an upper bound; it is None where there is no bound.
    """
    needs = [blocks_per_request(group, load) for group in groups if not group.host_resident]
    missing = [each.missing for each in needs if each.missing is not None]
    if len(needs) < len(groups):
        missing.append(HOST_POOL)
    facts = tuple(dict.fromkeys(missing))
    # Beside a kind without a formula, each group may be one of those in host memory.
    is_open = KIND in facts and any(group.host_resident is None for group in groups)
    # Without the group that takes most blocks the others are no bound worth naming.
    is_open |= any(each.missing is SHARDS and not each.least for each in needs)
    least = sum(each.least for each in needs)
    if is_open or not least:
        return None, facts or (NO_BLOCKS_NEEDED,)
    return num_gpu_blocks / least, facts


def blocks_per_request(group: KVCacheGroup, load: Load) -> Need:
    if group.spec_type in KEEPS_ALL:
        return _all_tokens(group, load)
    if group.spec_type in ENCODER_ONLY:
        return Need(0, 0)
    formula = _FORMULAS.get(group.spec_type)
    if formula is None:
        return Need(0, None, KIND)
    return formula(group, load) if load.is_checked else Need(0, None, OF_VERSION)


def ceil_div(number: int, by: int) -> int:
    """Divide and round up, exactly."""
    return -(-number // by)


def _all_tokens(group: KVCacheGroup, load: Load) -> Need:
    fewest, most = load.decode_context_parallel_size
    missing = SHARDED if fewest == most else SHARDS
    if group.dcp_sharded is False:
        fewest = most = 1
    elif group.dcp_sharded is None:
        fewest = 1
    blocks = ceil_div(ceil_div(load.max_model_len, fewest), group.block_size)
    least = 0 if most is None else ceil_div(ceil_div(load.max_model_len, most), group.block_size)
    return Need(least, blocks, None if least == blocks else missing)


def _sliding(group: KVCacheGroup, load: Load) -> Need:
    if group.sliding_window is None:
        return Need(0, None, KIND)
    # Only multi-module speculative decoding retains more, up to the speculative tokens (num_prefill_lookahead_tokens).
    most = load.speculative_tokens[1]
    most_retained = load.max_model_len if most is None else max(group.extra_retained_tokens, most)
    least, more = (
        ceil_div(min(group.sliding_window - 1 + extra + flying, load.max_model_len), group.block_size) + 1
        for extra, flying in zip((group.extra_retained_tokens, most_retained), load.in_flight, strict=True)
    )
    return _between(least, more, IN_FLIGHT if load.in_flight[0] < load.in_flight[1] else SPECULATIVE)


def _chunked(group: KVCacheGroup, load: Load) -> Need:
    if group.attention_chunk_size is None:
        return Need(0, None, KIND)
    chunk, length = group.attention_chunk_size, load.max_model_len
    least, most = (ceil_div(min(chunk + flying, length), group.block_size) for flying in load.in_flight)
    return _between(least, most, IN_FLIGHT)


def _mamba(group: KVCacheGroup, load: Load) -> Need:
    if group.mamba_cache_mode not in MAMBA_MODES:
        return Need(0, None, KIND)
    blocks = group.num_speculative_blocks
    least, most = load.speculative_tokens if blocks is None else (blocks, blocks)
    if group.mamba_cache_mode == "none":
        return _between(1 + least, None if most is None else 1 + most, SPECULATIVE)
    checkpoints = group.num_prefill_checkpoint_blocks
    # vLLM 0.32.0 keeps at most one checkpoint block.
    extra = (0, 1) if checkpoints is None else (checkpoints, checkpoints)
    missing = SPECULATIVE if least != most else CHECKPOINTS
    return _between(2 + least + extra[0], None if most is None else 2 + most + extra[1], missing)


def _cross(group: KVCacheGroup, load: Load) -> Need:
    if load.max_encoder_tokens is None:
        return Need(0, None, ENCODER)
    blocks = ceil_div(load.max_encoder_tokens, group.block_size)
    return Need(blocks, blocks)


def _between(least: int, most: int | None, missing: str) -> Need:
    return Need(least, most, None if least == most else missing)


_FORMULAS: Mapping[str, Callable[[KVCacheGroup, Load], Need]] = {
    **dict.fromkeys(types.kinds_of(types.SlidingWindowGroup), _sliding),
    **dict.fromkeys(types.kinds_of(types.ChunkedLocalAttentionGroup), _chunked),
    **dict.fromkeys(types.kinds_of(types.MambaGroup), _mamba),
    **dict.fromkeys(types.kinds_of(types.CrossAttentionGroup), _cross),
    **dict.fromkeys(types.kinds_of(types.CircularBufferGroup), lambda _group, _load: Need(1, 1)),
}
