"""Findings counted: per replica, per pool, of the fleet."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from dashboard.fleet import Replica
from dashboard.rules.findings import Finding, Inspection, OutcomeKind, Tally

NOT_JUDGED = frozenset({OutcomeKind.SKIPPED, OutcomeKind.ERROR})


def of_fleet(inspection: Inspection) -> Tally:
    """Count all findings that stand; unknown are the rules that could not be judged somewhere."""
    unknown = len({each.rule for each in inspection.outcomes if each.kind in NOT_JUDGED})
    return _tally(inspection.findings, unknown)


def by_pool(inspection: Inspection) -> Mapping[str, Tally]:
    """Count per pool; unknown are the rules that could not be judged on it."""
    found: dict[str, list[Finding]] = {pool: [] for pool in inspection.domains}
    for finding in inspection.findings:
        for pool in finding.pools:
            found[pool].append(finding)
    unknown = Counter(pool for each in inspection.outcomes if each.kind in NOT_JUDGED for pool in each.pools)
    return {pool: _tally(findings, unknown[pool]) for pool, findings in found.items()}


def by_replica(inspection: Inspection, replicas: Iterable[Replica]) -> Mapping[str, Tally]:
    """Count per replica; unknown is 1 where it is not currently read, so that nothing new would be seen."""
    found: dict[str, list[Finding]] = defaultdict(list)
    for finding in inspection.findings:
        for replica in finding.replicas:
            found[replica].append(finding)
    return {each.id: _tally(found[each.id], int(not each.fresh)) for each in replicas}


def _tally(findings: Iterable[Finding], unknown: int) -> Tally:
    counts = Counter(each.severity for each in findings)
    return Tally(**{str(severity): number for severity, number in counts.items()}, unknown=unknown)
