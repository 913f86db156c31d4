"""Requests of one common length: what each engine could serve if every request were that long."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dashboard.capacity.engines import load_of
from dashboard.capacity.formula import concurrency
from dashboard.fleet import Engine, KVCacheGroup, Setting


class AtLength(NamedTuple):
    """Requests at one length. `requests` is None when unknown; `served` is False above the replica's own length.

    `at_most` marks an upper bound.
    """

    requests: float | None
    served: bool
    at_most: bool


def requests_at(
    engine: Engine, groups: Sequence[KVCacheGroup], settings: Mapping[str, Setting], length: int
) -> AtLength:
    """Return how many requests of `length` tokens fit into an engine.

    The formula where KV cache groups are known; else tokens / length where reported equals naive, for there every
    token takes the same room; else unknown.
    """
    if engine.max_model_len is not None and length > engine.max_model_len:
        return AtLength(None, served=False, at_most=False)
    own = [group for group in groups if group.dp_rank == engine.dp_rank]
    load = load_of(settings, length)
    if own and load is not None and engine.num_gpu_blocks is not None:
        result = concurrency(engine.num_gpu_blocks, own, load)
        if result is not None:
            return AtLength(result.concurrency, served=True, at_most=not result.exact)
    tokens = engine.kv_cache_size_tokens
    if tokens is not None and tokens == engine.naive_tokens:
        return AtLength(tokens / length, served=True, at_most=engine.basis == "assumed")
    return AtLength(None, served=True, at_most=False)
