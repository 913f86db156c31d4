"""Parts of a fleet as fleets: one pool, or the pools that a change concerns. Clusters are in `clusters.py`."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.capacity.sums import capacity_of
from dashboard.fleet import Replica
from dashboard.rules.catalogue import LOCAL_RULES
from dashboard.rules.findings import Finding, Inspection


def only_pool(fleet: Fleet, name: str) -> Fleet:
    """Return one pool as a fleet, without findings that span pools.

    Its notes are those of the whole fleet: they are on options that match nothing in it.
    """
    return part_of(fleet, [each for each in fleet.replicas if each.pool == name])


def with_local_rules(fleet: Fleet, pools: Collection[str]) -> Fleet:
    """Return some pools as a fleet with what `LOCAL_RULES` found on them, without the outcomes."""
    part, whole = _without_findings(fleet, [each for each in fleet.replicas if each.pool in pools]), fleet.inspection
    names, local = {each.name for each in part.pools}, {rule.id for rule in LOCAL_RULES}

    def own(findings: Iterable[Finding]) -> tuple[Finding, ...]:
        return tuple(each for each in findings if each.rule in local and not names.isdisjoint(each.pools))

    inspection = Inspection(
        findings=own(whole.findings),
        suppressed=own(whole.suppressed),
        domains={name: whole.domains[name] for name in names if name in whole.domains},
        rollouts={name: whole.rollouts[name] for name in names if name in whole.rollouts},
        evaluated=whole.evaluated,
    )
    return replace(part, inspection=inspection)


def part_of(fleet: Fleet, members: Iterable[Replica]) -> Fleet:
    """Return the replicas of some pools as a fleet, without findings that span other pools, too."""
    part = _without_findings(fleet, members)
    if fleet.polled_at is None:
        return part
    names = {each.name for each in part.pools}
    unconfirmed = tuple(each for each in fleet.inspection.unconfirmed if each.pools and names.issuperset(each.pools))
    part = inspected(replace(part, inspection=Inspection(unconfirmed)), fleet.polled_at, before=fleet)
    return replace(part, inspection=replace(part.inspection, notes=fleet.inspection.notes))


def _without_findings(fleet: Fleet, members: Iterable[Replica]) -> Fleet:
    replicas = tuple(members)
    used = {replica.document for replica in replicas}
    documents = {key: document for key, document in fleet.documents.items() if key in used}
    names = {each.pool for each in replicas}
    pools = tuple(pool for pool in fleet.pools if pool.name in names)
    return replace(
        fleet,
        replicas=replicas,
        documents=documents,
        pools=pools,
        sharing={pool.name: fleet.sharing[pool.name] for pool in pools},
        capacity={pool.name: fleet.capacity[pool.name] for pool in pools},
        total=capacity_of(replicas),
        plan=None,
    )
