"""CP-02: replicas of one pool give the KV cache another share of memory."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

NOUNS = {
    "cache_config.gpu_memory_utilization": "share of GPU memory for vLLM",
    "cache_config.kv_cache_memory_bytes": "KV cache memory in bytes",
    "cache_config.num_gpu_blocks_override": "fixed number of blocks",
}


@rule(
    id="CP-02",
    name="memory-settings-differ",
    family=Family.CAPACITY,
    severity={ImpactContext.MODEL: Severity.INFO},
    needs=tuple(NOUNS),
)
def memory_settings_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool are told to use different amounts of GPU memory.

    What comes of it, in tokens, is judged by CP-01.

    Why it matters:
        - any pool: With less memory an engine keeps fewer prefixes and runs fewer requests at once; with more it is
          the first to run out of memory when a request needs much.

    How to fix:
        Give every replica of the pool the same `--gpu-memory-utilization`, or the same `--kv-cache-memory-bytes`,
        which counts in its place.

    Exceptions:
        Different GPUs need different shares to hold as much: make a pool for each kind of GPU.

    Evidence:
        - vllm/config/cache.py (kv_cache_memory_bytes counts in place of gpu_memory_utilization)
        - vllm-project/vllm#42206

    Example:
        Fifteen replicas run with `--gpu-memory-utilization 0.92`, one that once ran out of memory with 0.88. Nobody
        set it back.
    """
    return drift(pool, NOUNS)
