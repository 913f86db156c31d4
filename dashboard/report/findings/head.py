"""The text above a list of findings: how many there are, and what was evaluated."""

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count
from dashboard.report.findings.rule_coverage import RuleCoverage, rule_coverage, rules_words
from dashboard.report.findings.words import answered
from dashboard.rules.findings import Inspection, Severity, Tally, tally_fleet

NOUNS = {
    Severity.CRITICAL: ("critical finding", "critical findings"),
    Severity.WARNING: ("warning", "warnings"),
    Severity.INFO: ("finding for information", "findings for information"),
}


def title(inspection: Inspection) -> str:
    """Return the counts, worst first: `2 critical, 3 warnings`; without findings, whether any rule was evaluated."""
    if inspection.findings:
        return tally_words(tally_fleet(inspection))
    return "No findings" if rule_coverage(inspection).evaluated else "Nothing could be judged"


def tally_words(tally: Tally) -> str:
    """Write counts by severity, the worst first."""
    words = [f"{tally.critical:,} critical"] if tally.critical else []
    words += [count(tally.warning, "warning")] if tally.warning else []
    words += [f"{tally.info:,} info"] if tally.info else []
    return ", ".join(words)


def lead(fleet: Fleet) -> str:
    """Return the counts of rules, replicas and suppressions."""
    parts = [rules_words(fleet.inspection), answered(fleet)]
    parts += [f"{len(fleet.inspection.suppressed):,} suppressed"] if fleet.inspection.suppressed else []
    parts += [_without_effect(fleet)] if fleet.inspection.notes else []
    return " · ".join(parts)


def _without_effect(fleet: Fleet) -> str:
    """Count the entries of fleet.yaml and of baselines that match nothing."""
    written = f"{fleet.policy.file} or a baseline" if fleet.policy.baselines else fleet.policy.file
    return f"{count(len(fleet.inspection.notes), 'entry', 'entries')} of {written} without effect"


def is_clean(fleet: Fleet, coverage: RuleCoverage) -> bool:
    """Return whether a fleet without findings is good news: rules were evaluated on settings of some pool."""
    return bool(coverage.evaluated) and any(pool.cohorts for pool in fleet.pools)


def no_findings_text(fleet: Fleet, coverage: RuleCoverage) -> str:
    """Return what a fleet without findings rests on."""
    down = fleet.coverage.down
    sentences = [f"{count(coverage.evaluated, 'rule')} evaluated."]
    if coverage.incomplete:
        sentences.append(f"{count(coverage.incomplete, 'rule')} not evaluated on all replicas.")
    sentences += [f"{count(down, 'replica')} did not answer."] if down else []
    return " ".join(sentences)
