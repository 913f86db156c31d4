"""PD-01: prefill and decode run different versions of vLLM."""

from collections.abc import Iterator

from dashboard.rules.disaggregation.handshake import as_checked
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import across
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import PairSubject

VERSION = "version"


@rule(
    id="PD-01",
    name="prefill-decode-version-differs",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(VERSION,),
)
def version_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode run different versions of vLLM.

    Compared is the whole version, as NIXL does: 0.32.0 differs from 0.32.0rc2 and from 0.32.0+cu129.

    Why it matters:
        - disaggregated: The version is part of what NIXL compares before it moves KV cache: the handshake is refused,
          and each request that meets such a pair fails or is computed twice.

    How to fix:
        Roll both pools to one version as one revision, and let the router pair only replicas of one revision while the
        upgrade runs.

    Exceptions:
        Connectors other than NIXL do not compare versions: there it is a warning.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py (the version is a factor of the compatibility
          hash)
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py (another hash raises)
        - vllm-project/vllm#29503
        - llm-d/llm-d#499
        - kserve/kserve#6218

    Example:
        The decode pool is upgraded to 0.32.0 on Monday, the prefill pool is left for Tuesday. Overnight every prompt is
        prefilled twice.
    """
    return as_checked(pair, across(pair, {VERSION: "version of vLLM"}))
