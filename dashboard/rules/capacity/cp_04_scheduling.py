"""CP-04: replicas of one pool schedule their requests in different ways."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

NOUNS = {
    "scheduler_config.enable_chunked_prefill": "chunked prefill",
    "scheduler_config.policy": "scheduling policy",
    "scheduler_config.async_scheduling": "asynchronous scheduling",
    "scheduler_config.long_prefill_token_threshold": "length from which a prompt counts as long",
    "scheduler_config.scheduler_cls": "scheduler class",
}


@rule(
    id="CP-04",
    name="scheduling-differs",
    family=Family.CAPACITY,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=tuple(NOUNS),
)
def scheduling_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool schedule their requests in different ways.

    Why it matters:
        - any pool: Long prompts hold up short ones on one replica and not on the next, and a priority that a client
          sends counts only where the policy is `priority`.

    How to fix:
        Start every replica of the pool with the same scheduler options, or with none of them.

    Exceptions:
        Prefill and decode replicas may schedule differently: they are two pools, and not compared.

    Evidence:
        - vllm/config/scheduler.py (what each option does)
        - vllm/v1/core/sched/scheduler.py (priorities are looked at under the policy `priority` only)

    Example:
        One replica still has `--scheduling-policy priority` from a test. Batch jobs wait behind chats on it, and
        nowhere else.
    """
    return drift(pool, NOUNS)
