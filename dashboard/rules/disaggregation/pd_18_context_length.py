"""PD-18: prefill accepts longer requests than decode."""

from collections.abc import Iterator

from dashboard.rules.disaggregation.handshake import counts
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import unequal
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import PairSubject

LENGTH = "model_config.max_model_len"


@rule(
    id="PD-18",
    name="prefill-accepts-longer-requests",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.WARNING},
    needs=(LENGTH,),
)
def prefill_accepts_longer_requests(pair: PairSubject) -> Iterator[Draft]:
    """Prefill accepts longer requests than decode.

    Why it matters:
        - disaggregated: A prompt between the two lengths is computed by prefill and then refused by decode with 400:
          the work is lost, and the client was told another limit.

    How to fix:
        Give both pools the same `--max-model-len`.

    Exceptions:
        A prefill pool with a smaller length refuses early and wastes nothing: that is no finding.

    Evidence:
        - vllm/v1/engine/core_client.py (each replica has a length of its own, after fitting it to its memory)

    Example:
        Decode runs with `--max-model-len auto` and less memory: its length shrinks to 48,000, prefill keeps 65,536.
    """
    sides = [side.values(LENGTH) for side in pair.sides]
    prefill, decode = map(counts, sides)
    if prefill and decode and max(prefill) > min(decode) and not pair.is_ignored(LENGTH):
        yield unequal(pair, LENGTH, "context length", sides)
