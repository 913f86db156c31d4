"""PD-15: the check between prefill and decode is switched off."""

from collections.abc import Iterator

from dashboard.fleet import State
from dashboard.rules.connectors import CONNECTOR, EXTRA, option
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

NAME = "enforce_handshake_compat"
CHECK = f"{EXTRA}.{NAME}"


@rule(
    id="PD-15",
    name="handshake-check-is-off",
    family=Family.DISAGGREGATION,
    severity={ImpactContext.DISAGGREGATED: Severity.WARNING},
    needs=(CONNECTOR,),
    least=1,
)
def handshake_check_is_off(pool: PoolSubject) -> Iterator[Draft]:
    """NIXL was told not to check whether prefill and decode fit.

    Why it matters:
        - disaggregated: What the check would refuse with a clear error now crashes a worker or is decoded as garbage,
          long after the change that caused it.

    How to fix:
        Leave `enforce_handshake_compat` out of the connector's extra config, in both pools.

    Exceptions:
        Two versions or paths that are known to fit, for the time of a migration: suppress the finding until its end.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py (without it another hash is accepted)
        - vllm-project/vllm#46694

    Example:
        The check was switched off to get through one upgrade, and the flag stayed in the manifest.
    """
    told = pool.of_documents(lambda settings: option(settings, NAME))
    off = tuple(replica for replica, value in told.items() if value is False)
    if off and not pool.is_ignored(CHECK):
        yield Draft(
            off,
            f"NIXL's check at the handshake is off: {NAME} is false.",
            (Evidence(CHECK, "false", State.REPORTED, off),),
            Remedy(
                "Switch the check on, and restart these replicas.",
                (Snippet("flag", f"--kv-transfer-config.kv_connector_extra_config.{NAME} true"),),
            ),
        )
