"""PD-16: replicas treat KV cache that does not arrive differently."""

from collections.abc import Iterator

from dashboard.fleet import Role
from dashboard.rules.connectors import SECTION
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

POLICY = f"{SECTION}.kv_load_failure_policy"


@rule(
    id="PD-16",
    name="load-failure-policy-differs",
    family=Family.DISAGGREGATION,
    severity={ImpactContext.DISAGGREGATED: Severity.WARNING},
    needs=(POLICY,),
)
def load_failure_policy_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool treat KV cache that does not arrive differently.

    Why it matters:
        - disaggregated: The same failed transfer ends a request with an error on some replicas (`fail`) and is hidden
          as a slow answer on others (`recompute`), so neither errors nor latency tell how often it happens.

    How to fix:
        Choose one `kv_load_failure_policy` for all replicas that decode.

    Exceptions:
        Prefill pools load nothing: they are not judged.

    Evidence:
        - vllm/config/kv_transfer.py (the two policies and the default)

    Example:
        One decode replica was set to `recompute` while an outage was being looked into.
    """
    if pool.pool.role is not Role.PREFILL:
        yield from drift(pool, {POLICY: "policy for failed loads of KV cache"})
