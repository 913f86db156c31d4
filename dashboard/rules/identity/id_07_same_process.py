"""ID-07: one process is listed under two addresses."""

import json
from collections.abc import Iterator

from dashboard.fleet import State
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Evidence, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import Scope, rule
from dashboard.rules.subject import FleetSubject

INSTANCE = "instance_id"


@rule(
    id="ID-07",
    name="process-listed-twice",
    family=Family.IDENTITY,
    scope=Scope.FLEET,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=(INSTANCE,),
)
def process_listed_twice(fleet: FleetSubject) -> Iterator[Draft]:
    """One vLLM process answers under two addresses of the list.

    Processes are told apart by the id that each makes for itself at start. Capacity is counted once.

    Why it matters:
        - any pool: The process counts twice when the majority of a pool is found, and what looks like a second
          replica is none; if an address is that of a load balancer, other replicas stay unseen behind it.

    How to fix:
        List every process once, by the address of its own pod or host.

    Exceptions:
        Two networks that both must be watched: suppress the finding for the second address.

    Evidence:
        - vllm/config/vllm.py (instance_id: a new one for each start)

    Example:
        A host stands on the list by its name and by its IP address.
    """
    fresh = {each.id: each for each in fleet.all_replicas if each.fresh}
    told = fleet.identity(INSTANCE)
    for replica in fresh.values():
        others = [each for each in replica.same_process if each in fresh]
        if not others or min(others) < replica.id or replica.id not in told:
            continue
        addresses = (replica.id, *sorted(others))
        keep = json.dumps(replica.id, ensure_ascii=False)
        yield Draft(
            addresses[1:],
            f"{len(addresses):,} addresses of the list lead to one vLLM process.",
            (Evidence(INSTANCE, json.dumps(told[replica.id]), State.REPORTED, addresses),),
            Remedy(
                "List the process once, by the address of its own pod or host, and take its other addresses away.",
                (Snippet("yaml", f"targets:\n  - {keep}"),),
            ),
        )
