"""RT-05: replicas hash blocks with different algorithms, or with another one than the router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.rules.domain import Facet
from dashboard.rules.drift import drift
from dashboard.rules.findings import Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import caching
from dashboard.rules.routing.router import unlike_router

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dashboard.rules.findings import Draft
    from dashboard.rules.subject import PoolSubject

HASH_ALGORITHM = "cache_config.prefix_caching_hash_algo"


@rule(
    id="RT-05",
    name="hash-algorithm-differs",
    family=Family.ROUTING,
    severity={
        Facet.MODEL: Severity.INFO,
        Facet.PREFIX_HASH: Severity.CRITICAL,
        Facet.KV_STORE: Severity.CRITICAL,
    },
    needs=(HASH_ALGORITHM,),
    least=1,
)
def hash_algorithm_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas hash the same tokens with different algorithms, or with another one than the router.

    The router's algorithm is `expects.hash_algorithm` in fleet.yaml. Replicas that cache no prefixes hash nothing and
    are left out.

    Why it matters:
        - any pool: Hashes of the same tokens differ between replicas. Nothing here is known to compare them, but
          whatever will be, such as a shared store, finds nothing.
        - prefix-hash: The router computes hashes with one algorithm; on replicas that use another one it never finds a
          prefix.
        - kv-store: The hash is the key of a stored block, so replicas with another algorithm find nothing of the
          others, and store everything twice.

    How to fix:
        Use one `--prefix-caching-hash-algo` on every replica: `sha256_cbor` where something outside vLLM computes
        hashes too, for `sha256` hashes what Python's pickle makes of the tokens.

    Exceptions:
        A router that learns both the tokens and the hashes from events, such as llm-d's index, works with any mixture.

    Evidence:
        - vllm/config/cache.py (what each algorithm serializes, and how)
        - vllm-project/vllm#20511

    Example:
        One replica was started with `xxhash` to save time; the router hashes with `sha256_cbor` and sends it no prompt
        because of what it holds.
    """
    expected = pool.domain.expects.hash_algorithm
    if expected is not None:
        return unlike_router(caching(pool), HASH_ALGORITHM, "hash algorithm", expected)
    return drift(caching(pool), {HASH_ALGORITHM: "hash algorithm"})
