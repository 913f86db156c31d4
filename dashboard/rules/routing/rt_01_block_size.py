"""RT-01: replicas of one pool cut blocks of different sizes."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

BLOCK_SIZE = "cache_config.block_size"


@rule(
    id="RT-01",
    name="block-size-differs",
    family=Family.ROUTING,
    severity={
        ImpactContext.MODEL: Severity.WARNING,
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.CRITICAL,
        ImpactContext.KV_STORE: Severity.CRITICAL,
    },
    needs=(BLOCK_SIZE,),
)
def block_size_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool cut the KV cache into blocks of different sizes.

    The size compared is the one in force: vLLM raises it for hybrid models after start.

    Why it matters:
        - any pool: A hit reaches to the last whole block, so replicas reuse prefixes of different lengths.
        - prefix-hash: The router cuts prompts into blocks of one size; its keys never match the blocks of a replica
          that cuts otherwise, so what that replica holds is never found.
        - kv-events: An index that knows one size per model drops or misplaces the events of the odd replicas, and they
          look cold.
        - kv-store: Keys of the store are made block by block: replicas with other blocks find nothing of each other.

    How to fix:
        Pin `--block-size` on every replica of the pool. Where the accelerator decides the size, make a pool for each
        kind of accelerator.

    Exceptions:
        A router that keeps an index of its own per block size can serve mixed pools: disable the rule for it.

    Evidence:
        - vllm/v1/engine/core.py (the resolved block size is the smallest of the prefix-cacheable groups)
        - ai-dynamo/dynamo#1233
        - ai-dynamo/dynamo#13904
        - ray-project/ray#64097

    Example:
        Fifteen replicas run with `--block-size 16`; one was started by hand with `--block-size 32`. Its cache fills
        and is never hit by requests that the other fifteen could serve.
    """
    return drift(pool, {BLOCK_SIZE: "block size"})
