"""What is said above a list of findings: how many, what that rests on, how far calm goes."""

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import ReplicaState
from dashboard.fleet.formatting import count
from dashboard.report.findings.judged_rules import JudgedRules, judged_rules, rules_words
from dashboard.report.findings.words import answered
from dashboard.rules.findings import Inspection, Severity, Tally
from dashboard.rules.rollup import of_fleet

NOUNS = {
    Severity.CRITICAL: ("critical finding", "critical findings"),
    Severity.WARNING: ("warning", "warnings"),
    Severity.INFO: ("finding for information", "findings for information"),
}


def title(inspection: Inspection) -> str:
    """Say the worst first: `2 critical, 3 warnings`; without a finding, whether anything was judged at all."""
    if inspection.findings:
        return tally_words(of_fleet(inspection))
    return "No finding" if judged_rules(inspection).judged else "Nothing could be judged"


def tally_words(tally: Tally) -> str:
    """Write counts by severity, the worst first."""
    words = [f"{tally.critical:,} critical"] if tally.critical else []
    words += [count(tally.warning, "warning")] if tally.warning else []
    words += [f"{tally.info:,} info"] if tally.info else []
    return ", ".join(words)


def lead(fleet: Fleet) -> str:
    """Say what the title rests on: rules, answers, what is suppressed."""
    parts = [rules_words(fleet.inspection), answered(fleet)]
    parts += [f"{len(fleet.inspection.suppressed):,} suppressed"] if fleet.inspection.suppressed else []
    parts += [_without_effect(fleet)] if fleet.inspection.notes else []
    return " · ".join(parts)


def _without_effect(fleet: Fleet) -> str:
    """Count what operators wrote that nothing matches; where there are baselines, some of it may stand in these."""
    written = f"{fleet.policy.file} or a baseline" if fleet.policy.baselines else fleet.policy.file
    return f"{count(len(fleet.inspection.notes), 'entry', 'entries')} of {written} without effect"


def is_calm(fleet: Fleet, told: JudgedRules) -> bool:
    """Tell whether it is good news that no rule found anything: settings of some pool were read and judged."""
    return bool(told.judged) and any(pool.cohorts for pool in fleet.pools)


def calm_words(fleet: Fleet, told: JudgedRules) -> str:
    """Say of a fleet without findings how far that goes."""
    silent = sum(replica.state is ReplicaState.DOWN for replica in fleet.replicas)
    words = [f"That holds for {count(told.judged, 'rule')} on what the replicas told."]
    words += [f"{count(told.open, 'rule')} could not be judged everywhere."] if told.open else []
    words += [f"{count(silent, 'replica')} did not answer and may hide something."] if silent else []
    return " ".join(words)
