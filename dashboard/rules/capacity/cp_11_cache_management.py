"""CP-11: replicas of one pool manage the KV cache of sliding windows differently."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.meanings import unset_is_false
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

NOUNS = {
    "scheduler_config.disable_hybrid_kv_cache_manager": "setting disable_hybrid_kv_cache_manager",
    "model_config.disable_sliding_window": "setting disable_sliding_window",
}


@rule(
    id="CP-11",
    name="kv-cache-management-differs",
    family=Family.CAPACITY,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=tuple(NOUNS),
)
def cache_management_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool manage the KV cache of sliding windows differently.

    Compared are `disable_hybrid_kv_cache_manager` and `disable_sliding_window`.

    Why it matters:
        - any pool: Without hybrid management every layer keeps KV cache as full attention does, so the replica fits
          fewer tokens. Without sliding windows the longest request is shorter too.

    How to fix:
        Give every replica of the pool the same `--disable-hybrid-kv-cache-manager` and `--disable-sliding-window`.

    Exceptions:
        A KV connector without support for hybrid models switches it off. Then give every replica the same connector.

    Evidence:
        - vllm/config/scheduler.py (disable_hybrid_kv_cache_manager)
        - vllm/config/model.py (disable_sliding_window caps the context length)
        - vllm-project/production-stack#1062

    Example:
        One replica has a connector that switches hybrid management off. It holds a tenth of the tokens of its peers.
    """
    return drift(pool, NOUNS, unset_is_false)
