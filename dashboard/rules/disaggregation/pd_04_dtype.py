"""PD-04: prefill and decode compute in different number formats."""

from collections.abc import Iterator

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import across
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import PairSubject

DTYPE = "model_config.dtype"


@rule(
    id="PD-04",
    name="prefill-decode-dtype-differs",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(DTYPE,),
)
def dtype_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode compute in different number formats.

    Why it matters:
        - disaggregated: The format is part of what NIXL compares before it moves KV cache: the handshake is refused.
          With a connector that does not compare it, decode reads the numbers as something else.

    How to fix:
        Give both pools the same `--dtype`.

    Exceptions:
        None is known.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py (dtype is a factor of the compatibility hash)

    Example:
        Prefill runs on older GPUs with `--dtype float16`, decode with bfloat16, the default of the model.
    """
    return across(pair, {DTYPE: "model dtype"})
