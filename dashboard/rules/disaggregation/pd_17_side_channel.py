"""PD-17: NIXL's side channel cannot be reached from other hosts."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from dashboard.fleet.formatting import count, joined
from dashboard.rules.connectors import connectors
from dashboard.rules.disaggregation.handshake import NIXL
from dashboard.rules.disaggregation.partners import partners
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import say
from dashboard.rules.findings import Confidence, Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.holders import held, told_of
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import FleetSubject, PoolSubject

HOST = "env.VLLM_NIXL_SIDE_CHANNEL_HOST"
MOST_HOSTS = 4  # values that a sentence names
# Kubernetes' downward API gives a pod its own address.
POD_ADDRESS = """- name: VLLM_NIXL_SIDE_CHANNEL_HOST
  valueFrom: {fieldRef: {fieldPath: status.podIP}}"""
OWN_ADDRESS = "export VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname -i)"


@rule(
    id="PD-17",
    name="side-channel-on-loopback",
    family=Family.DISAGGREGATION,
    scope=Scope.FLEET,
    severity={ImpactContext.DISAGGREGATED: Severity.CRITICAL},
    needs=(HOST,),
    least=1,
)
def side_channel_on_loopback(fleet: FleetSubject) -> Iterator[Draft]:
    """NIXL's side channel cannot be reached from other hosts.

    Each replica gives the others this address, so that they find it for the handshake. vLLM's default is `localhost`.

    Why it matters:
        - disaggregated: A replica on another host that dials this address reaches itself or nobody: the handshake
          fails, or ends with an engine id that it did not expect, and decode computes every prompt a second time.

    How to fix:
        Set `VLLM_NIXL_SIDE_CHANNEL_HOST` to the address of the pod or host, as others reach it.

    Exceptions:
        All replicas of the model on one host: not judged. Hosts are told apart by the addresses that are polled.

    Evidence:
        - vllm/envs.py (the default)
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_scheduler.py (the address that others are given)
        - vllm-project/vllm#27083
        - vllm-project/vllm#53018
        - ai-dynamo/dynamo#1327

    Example:
        What worked with prefill and decode on one host was moved to two hosts, without the variable.
    """
    for pools in partners(fleet):
        hosts = _hosts(pools)
        told = {replica: host for pool in pools for replica, host in _side_channels(pool).items()}
        if hosts > 1 and told:
            yield _draft(told, hosts)


def _hosts(pools: Sequence[PoolSubject]) -> int:
    """Count the hosts of some pools; all addresses that mean the machine itself are one."""
    names = {urlsplit(each.id).hostname or "" for pool in pools for each in pool.all_replicas}
    return len({"localhost" if is_own(name) else name for name in names})


def _side_channels(pool: PoolSubject) -> Mapping[str, str]:
    """Return by replica the side channels that only the replica's own host can reach."""
    known = pool.of_documents(connectors)
    nixl = {replica for replica, told in known.items() if any(each.name in NIXL for each in told)}
    told = pool.identity(HOST)
    return {
        replica: host for replica, host in told.items() if replica in nixl and isinstance(host, str) and is_own(host)
    }


def is_own(host: str) -> bool:
    """Tell whether an address means the machine that dials it: `localhost`, 127.0.0.1, 0.0.0.0, ::1."""
    name = host.strip().strip("[]").lower()
    if name == "localhost":
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _draft(told: Mapping[str, str], hosts: int) -> Draft:
    holders = held({replica: told_of(host) for replica, host in told.items()})
    named = joined([say(each) for each in list(holders)[:MOST_HOSTS]])
    evidence = tuple(Evidence(HOST, *each, replicas) for each, replicas in holders.items())
    return Draft(
        tuple(sorted(told)),
        f"NIXL's side channel is at {named}, and the replicas of this model are on {count(hosts, 'host')}.",
        evidence,
        Remedy(
            "Set `VLLM_NIXL_SIDE_CHANNEL_HOST` to the address by which other hosts reach the replica, and restart "
            "these replicas.",
            (Snippet("env", OWN_ADDRESS), Snippet("yaml", POD_ADDRESS)),
            any_of=True,
        ),
        Confidence.DERIVED,
    )
