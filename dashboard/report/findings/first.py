"""The worst findings of a fleet: what is looked at first, the same of many pools once."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.report.findings.listed import Known, Listed, grouped, known_findings
from dashboard.rules.findings import Severity

MOST = 8  # entries; the list of findings holds all
UNREAD = "ID-05"  # replicas that could not be read have a list of their own beside this one


class FirstFindings(NamedTuple):
    """Groups of findings that say the same, the worst first; `left` counts the findings that are in none of them."""

    groups: tuple[Sequence[Listed], ...]
    left: int
    names: Mapping[str, str]


def first_findings(fleet: Fleet, known: Known | None = None) -> FirstFindings:
    """Choose the worst: what is only for information is left out as long as anything else was found."""
    told = known or known_findings(fleet)
    beside = [each for each in told.active if each.finding.rule != UNREAD]
    loud = [each for each in beside if each.finding.severity is not Severity.INFO]
    shown = grouped(loud or beside)[:MOST]
    return FirstFindings(tuple(shown), len(told.active) - sum(map(len, shown)), told.names)
