"""PD-07: hybrid KV cache management is on in one of prefill and decode only."""

from collections.abc import Iterator

from dashboard.rules.disaggregation.handshake import as_checked
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import across
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.meanings import unset_is_false
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import PairSubject

DISABLED = "scheduler_config.disable_hybrid_kv_cache_manager"


@rule(
    id="PD-07",
    name="prefill-decode-hybrid-manager-differs",
    family=Family.DISAGGREGATION,
    scope=Scope.PAIR,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(DISABLED,),
)
def hybrid_manager_differs(pair: PairSubject) -> Iterator[Draft]:
    """Hybrid KV cache management is on in one of prefill and decode only.

    Why it matters:
        - disaggregated: Whether it is on is part of what NIXL compares before it moves KV cache: the handshake is
          refused, also for models that would not need it.

    How to fix:
        Give both pools the same connectors and the same `--disable-hybrid-kv-cache-manager`.

    Exceptions:
        Connectors other than NIXL do not compare it: there it is a warning.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py (it is a factor of the compatibility hash)
        - vllm/distributed/kv_transfer/kv_connector/factory.py (connectors without support need it off)
        - vllm-project/production-stack#1062

    Example:
        Prefill adds LMCacheConnectorV1, which needs hybrid management off; decode keeps plain NIXL, with it on.
    """
    nouns = {DISABLED: "setting disable_hybrid_kv_cache_manager"}
    return as_checked(pair, across(pair, nouns, unset_is_false))
