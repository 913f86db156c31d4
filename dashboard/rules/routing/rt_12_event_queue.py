"""RT-12: replicas of one pool keep KV events for different lengths."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import publishing
from dashboard.rules.subject import PoolSubject

NOUNS = {
    "kv_events_config.hwm": "high-water mark of KV events",
    "kv_events_config.max_queue_size": "queue size of KV events",
    "kv_events_config.buffer_steps": "replay length of KV events",
}


@rule(
    id="RT-12",
    name="event-queue-differs",
    family=Family.ROUTING,
    severity={ImpactContext.KV_EVENTS: Severity.INFO},
    needs=tuple(NOUNS),
)
def event_queue_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool queue or keep different numbers of KV events.

    Why it matters:
        - kv-events: When the router is slow, the replica with the shorter queue drops events first, and one with a
          shorter replay cannot fill as long a gap: what the router knows of it is less complete.

    How to fix:
        Use the same `hwm`, `max_queue_size` and `buffer_steps` in `--kv-events-config` on every replica of the pool.

    Exceptions:
        Replicas with many more requests than others may need longer queues.

    Evidence:
        - vllm/config/kv_events.py (what each number limits)

    Example:
        One replica has `hwm` 1,000 instead of 100,000. Under load the router misses a part of its events, and of its
        blocks.
    """
    return drift(publishing(pool), NOUNS)
