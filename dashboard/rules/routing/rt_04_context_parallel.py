"""RT-04: replicas of one pool spread blocks over different numbers of ranks."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.rt_02_router_block_size import DCP
from dashboard.rules.subject import PoolSubject


@rule(
    id="RT-04",
    name="context-parallel-size-differs",
    family=Family.ROUTING,
    severity={
        ImpactContext.MODEL: Severity.WARNING,
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.CRITICAL,
    },
    needs=(DCP,),
)
def context_parallel_size_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool run with different decode context parallel sizes.

    A block then covers the block size times this number: with the same `--block-size`, blocks are of different length.

    Why it matters:
        - any pool: Hits reach to the last whole block, so replicas reuse prefixes of different lengths, and decode
          at different speeds.
        - prefix-hash: Blocks of different length have different hashes, so the router finds nothing on the odd
          replicas.
        - kv-events: Events cover more tokens than the block size that the router knows; it rejects all of them.

    How to fix:
        Use the same `--decode-context-parallel-size` on every replica of the pool, and tell the router the size that
        results: the block size times this number.

    Exceptions:
        Prefill and decode pools may differ: they are never compared here.

    Evidence:
        - vllm/v1/core/kv_cache_utils.py (resolve_dcp_kv_block_size)
        - ai-dynamo/dynamo#13653
        - ai-dynamo/dynamo#14673

    Example:
        One replica of a long-context model runs with `--decode-context-parallel-size 2`: its blocks of 16 cover 32
        tokens, and the router drops its events.
    """
    return drift(pool, {DCP: "decode context parallel size"})
