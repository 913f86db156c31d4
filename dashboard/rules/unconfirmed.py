"""Findings that last although a poll could not see them: their replicas were not read."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from dashboard.fleet import Pool, Replica, cohort_letters
from dashboard.rules.engine import FleetData, suppressed_by, unused_note, worst_first
from dashboard.rules.findings import Finding, Inspection
from dashboard.rules.policy import Policy
from dashboard.rules.registry import Rule


def add_unconfirmed(
    inspection: Inspection,
    earlier: Sequence[Finding],
    rules: Sequence[Rule],
    pools: Sequence[Pool],
    replicas: Sequence[Replica],
    policy: Policy,
    today: date,
) -> Inspection:
    """Add earlier findings that last although these replicas cannot show them; what was found again is left out.

    Each is on those of its replicas that the fleet still has.
    """
    if not earlier:
        return inspection
    fleet = FleetData({each.id: each for each in replicas}, cohort_letters(pools))
    found = {each.fingerprint for each in (*inspection.findings, *inspection.suppressed)}
    known = {each.id for each in rules}
    lasting = []
    for finding in earlier:
        if finding.rule in known and finding.fingerprint not in found:
            there = tuple(each for each in finding.replicas if each in fleet.replicas)
            evidence = tuple(
                each._replace(replicas=tuple(one for one in each.replicas if one in fleet.replicas))
                for each in finding.evidence
            )
            cohorts = fleet.cohorts_of(there)
            lasting.append(
                replace(finding, replicas=there, evidence=evidence, cohorts=cohorts, suppression=None, expired=None)
            )
    result = suppressed_by(lasting, rules, fleet, policy, today)
    used = {unused_note(each, policy) for each in policy.suppressions if each not in result.unused}
    return replace(
        inspection,
        findings=worst_first((*inspection.findings, *result.active), rules),
        suppressed=worst_first((*inspection.suppressed, *result.suppressed), rules),
        notes=tuple(each for each in inspection.notes if each not in used),
    )
