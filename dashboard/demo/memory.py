"""The KV cache of a simulated engine, sized as in vLLM: groups from the model, blocks from memory, tokens from both.

Sources: vllm/v1/core/kv_cache_utils.py (grouping, concurrency), vllm/v1/kv_cache_interface.py (page sizes, blocks of a
request), vllm/v1/worker/gpu_worker.py (memory left after profiling).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from dashboard.demo.describe import Configuration, DemoReplica

BYTES_PER_VALUE = 2  # bfloat16
# Memory without weights: of NCCL and the like, CUDA graphs, and activations that grow with the batch. Assumed.
CONTEXT_BYTES = 512 * 1024**2  # of the driver, before the model is loaded
OTHER_BYTES = 1280 * 1024**2
GRAPH_BYTES = 768 * 1024**2
ACTIVATION_BYTES_PER_TOKEN = 256 * 1024
JITTER_BYTES = 48 * 1024**2  # no two devices have the same memory left


class Capacity(NamedTuple):
    """The KV cache of one engine; concurrency in requests of `max_model_len` tokens.

    `memory` is what the worker of each device measured, in bytes, as the configuration API names it.
    """

    num_gpu_blocks: int
    kv_cache_size_tokens: int
    max_concurrency: float
    kv_cache_bytes_per_device: int
    memory: Mapping[str, Any]


def kv_cache_groups(configuration: Configuration, block_size: int) -> list[dict[str, Any]]:
    """Return the KV cache groups in the configuration API's shape.

    Layers of one kind are split into groups as large as the rarest kind, so that all groups have equally many layers.
    """
    model = configuration.model
    full = [layer for layer in range(model.layers) if (layer + 1) % model.full_every == 0]
    windowed = [layer for layer in range(model.layers) if (layer + 1) % model.full_every]
    number = -(-len(windowed) // len(full))
    dealt = [(layers, True) for layers in (windowed[i::number] for i in range(number))] + [(full, False)]
    return [
        _group(configuration, block_size, group_id, layers, windowed=windowed)
        for group_id, (layers, windowed) in enumerate(dealt)
    ]


def capacities(replica: DemoReplica, config: Mapping[str, Any]) -> tuple[Capacity, ...]:
    """Return the capacity of each engine of a replica with this `VllmConfig`."""
    groups = kv_cache_groups(replica.configuration, config["cache_config"]["block_size"])
    measured = [_memory(replica, config, engine) for engine in range(replica.configuration.ranks_per_server)]
    return tuple(
        capacity_of(each["available_bytes"] // _bytes_per_block(groups), groups, config, each) for each in measured
    )


def capacity_of(
    num_gpu_blocks: int,
    groups: Sequence[Mapping[str, Any]],
    config: Mapping[str, Any],
    memory: Mapping[str, Any] = MappingProxyType({}),
) -> Capacity:
    """Return the capacity of a number of blocks: each request takes blocks from every group."""
    concurrency = num_gpu_blocks / sum(_blocks_of_request(group, config) for group in groups)
    tokens = int(concurrency * config["model_config"]["max_model_len"])
    return Capacity(num_gpu_blocks, tokens, concurrency, num_gpu_blocks * _bytes_per_block(groups), memory)


def _group(
    configuration: Configuration, block_size: int, group_id: int, layers: list[int], *, windowed: bool
) -> dict[str, Any]:
    model = configuration.model
    heads = 1 if model.mla else max(model.kv_heads // configuration.tensor_parallel_size, 1)
    kept = 1 if model.mla else 2  # one latent vector, or a key and a value
    group = {
        "group_id": group_id,
        "layer_names": [f"model.layers.{layer}.self_attn.attn" for layer in layers],
        "spec_type": "MLAAttentionSpec" if model.mla else "SlidingWindowSpec" if windowed else "FullAttentionSpec",
        "block_size": block_size,
        "page_size_bytes": kept * block_size * heads * model.head_size * BYTES_PER_VALUE,
        "num_kv_heads": heads,
        "head_size": model.head_size,
        "head_size_v": 0 if model.mla else model.head_size,
        "sliding_window": model.sliding_window if windowed else None,
    }
    if not windowed:
        group["attention_chunk_size"] = None
    if model.mla:
        group["cache_dtype_str"] = "auto"
    return group | {"dtype": "bfloat16"}


def _bytes_per_block(groups: Sequence[Mapping[str, Any]]) -> int:
    """Return the bytes of one block on one device: groups share pages, so the largest counts."""
    pages: int = groups[0]["page_size_bytes"]
    return pages * max(len(group["layer_names"]) for group in groups)


def _memory(replica: DemoReplica, config: Mapping[str, Any], engine: int) -> dict[str, Any]:
    """Return what a worker measures: what another process takes while it starts counts as NCCL and other processes."""
    configuration = replica.configuration
    devices = configuration.tensor_parallel_size
    weights = configuration.model.dense_bytes // devices
    weights += configuration.model.expert_bytes // (devices * configuration.data_parallel_size)
    activations: int = ACTIVATION_BYTES_PER_TOKEN * config["scheduler_config"]["max_num_batched_tokens"]
    allowed = int(configuration.gpu.total_memory_bytes * config["cache_config"]["gpu_memory_utilization"])
    taken = replica.memory_taken_bytes + replica.draw(f"memory {engine}" if engine else "memory", JITTER_BYTES)
    return {
        "total_bytes": configuration.gpu.total_memory_bytes,
        "free_bytes": configuration.gpu.total_memory_bytes - CONTEXT_BYTES,
        "requested_bytes": allowed,
        "weights_bytes": weights,
        "non_torch_bytes": OTHER_BYTES + taken,
        "activation_bytes": activations,
        "cuda_graph_bytes": GRAPH_BYTES,
        "available_bytes": allowed - weights - activations - OTHER_BYTES - GRAPH_BYTES - taken,
        "reason": None,
    }


def _blocks_of_request(group: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """Return the maximum of blocks of this group that one request of `max_model_len` tokens takes."""
    block_size: int = group["block_size"]
    length: int = config["model_config"]["max_model_len"]
    window: int | None = group["sliding_window"]
    if window is None:
        return -(-length // block_size)
    scheduler = config["scheduler_config"]
    in_flight: int = scheduler["max_num_batched_tokens"] * (2 if scheduler["async_scheduling"] else 1)
    return -(-min(window - 1 + in_flight, length) // block_size) + 1
