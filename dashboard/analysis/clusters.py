"""One cluster of a fleet as a fleet. What spans clusters is evaluated, and planned, on the whole fleet only."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Cause, Fix, Plan
from dashboard.analysis.parts import part_of
from dashboard.analysis.plan import ordered, plan_of
from dashboard.fleet import CLUSTER
from dashboard.fleet.formatting import natural
from dashboard.rules.findings import Finding
from dashboard.rules.policy import only_on


def clusters_of(fleet: Fleet) -> tuple[str, ...]:
    """Return the clusters of a fleet in natural order: the labels of its replicas."""
    return tuple(sorted({each.labels[CLUSTER] for each in fleet.replicas if each.labels.get(CLUSTER)}, key=natural))


def only_cluster(fleet: Fleet, cluster: str) -> Fleet:
    """Return one cluster as a fleet, with all findings on it, and of the fix plan what concerns and changes it."""
    part = part_of(fleet, [each for each in fleet.replicas if each.labels.get(CLUSTER) == cluster])
    whole = fleet.inspection
    findings, suppressed = _own(whole.findings, part), _own(whole.suppressed, part)
    part = replace(part, inspection=replace(part.inspection, findings=findings, suppressed=suppressed))
    names, recorded = [each.name for each in part.pools], fleet.recorded_traffic
    known = {*part.by_id, *names, *(each.fingerprint for each in (*findings, *suppressed))}
    return replace(
        part,
        cluster=cluster,
        routers=tuple(each for each in fleet.routers if any(map(each.serves, names))),
        recent=fleet.recent.only(known),
        recorded_traffic=recorded and {key: each for key, each in recorded.items() if key[0] in known},
        sightings=fleet.sightings.only(known),
        plan=ordered(_own_causes(plan_of(fleet), part)),
    )


def _own(findings: Iterable[Finding], part: Fleet) -> tuple[Finding, ...]:
    names = {each.name for each in part.pools}
    kept = (each for each in findings if names.intersection(each.pools) or any(map(part.by_id.get, each.replicas)))
    return tuple(only_on(each, part) for each in kept)


def _own_causes(plan: Plan, part: Fleet) -> Iterator[Cause]:
    """Yield the causes with findings on a part. One that only changes of other parts end is without a fix."""
    for cause in plan.causes:
        if findings := _own(cause.findings, part):
            fixes = (_own_fix(each, part) for each in cause.fixes)
            yield replace(cause, findings=findings, fixes=tuple(each for each in fixes if each.groups))


def _own_fix(fix: Fix, part: Fleet) -> Fix:
    there = (replace(each, replicas=tuple(filter(part.by_id.get, each.replicas))) for each in fix.groups)
    return Fix(
        groups=tuple(each for each in there if each.replicas),
        fixed=_own(fix.fixed, part),
        new=_own(fix.new, part),
        open=_own(fix.open, part),
        gains={pool.name: fix.gains[pool.name] for pool in part.pools if pool.name in fix.gains},
    )
