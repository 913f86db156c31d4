"""CO-08: replicas of one pool enforce output schemas in other ways."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

BACKEND = "structured_outputs_config.backend"


@rule(
    id="CO-08",
    name="structured-outputs-backend-differs",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.INFO},
    needs=(BACKEND,),
)
def structured_outputs_backend_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool enforce JSON schemas, patterns and grammars with different backends.

    Why it matters:
        - any pool: Each backend knows some features of JSON schema that another does not, so a request with a schema
          can be accepted by one replica and refused by another.

    How to fix:
        Give every replica of the pool the same `--structured-outputs-config.backend`; `auto` is the default.

    Exceptions:
        Pools whose clients never ask for structured outputs: disable the rule.

    Evidence:
        - vllm/config/structured_outputs.py (the backends; what `auto` chooses may change with each release)

    Example:
        One replica was pinned to `outlines` to get around a bug and never set back; a schema that `xgrammar` takes is
        refused there.
    """
    return drift(pool, {BACKEND: "backend of structured outputs"})
