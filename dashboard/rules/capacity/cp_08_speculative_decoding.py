"""CP-08: replicas of one pool guess tokens ahead in different ways."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

NOUNS = {
    "speculative_config.method": "method of speculative decoding",
    "speculative_config.model": "draft model",
    "speculative_config.num_speculative_tokens": "number of speculative tokens",
}


@rule(
    id="CP-08",
    name="speculative-decoding-differs",
    family=Family.CAPACITY,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=tuple(NOUNS),
)
def speculative_decoding_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool guess tokens ahead in different ways, or some of them not at all.

    Why it matters:
        - any pool: Replicas that guess ahead answer faster while the load is low, and a draft model takes memory
          from their KV cache: neither speed nor capacity is what the rest of the pool has.

    How to fix:
        Start every replica of the pool with the same `--speculative-config`, or with none.

    Exceptions:
        An experiment on some replicas: give them a pool of their own.

    Evidence:
        - vllm/config/speculative.py (methods, draft models, and numbers of tokens)

    Example:
        Speculative decoding was switched on for a pool, and one replica was not restarted since.
    """
    return drift(pool, NOUNS)
