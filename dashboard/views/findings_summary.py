"""Counts of findings by severity, and of rules by outcome, each rule counted once."""

from collections import defaultdict
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import Inspection, Outcome, OutcomeKind, Severity, Tally
from dashboard.rules.registry import Scope
from dashboard.views.finding_text import answered

NO_PAIR = "No prefill pool has a decode pool of the same model."
NO_REPLICA = "No replica reports its configuration."
NO_RULE = "No rule was evaluated"
SEVERITY_TERMS = {
    Severity.CRITICAL: ("critical finding", "critical findings"),
    Severity.WARNING: ("warning", "warnings"),
    Severity.INFO: ("info finding", "info findings"),
}


class RuleCoverage(NamedTuple):
    """Rules by outcome. Of the `evaluated` ones, `partially` were skipped or failed somewhere, or lack settings there.

    `errors` raised an error, `skipped` lack reported settings, `not_applicable` have no subject.
    """

    evaluated: int
    partially: int
    skipped: int
    errors: int
    not_applicable: int


def rule_coverage(inspection: Inspection) -> RuleCoverage:
    """Count all rules. A rule without an outcome, such as one on pairs where there is no pair, is not applicable."""
    kinds: dict[str, set[OutcomeKind]] = defaultdict(set)
    for outcome in inspection.outcomes:
        kinds[outcome.rule].add(outcome.kind)
    evaluated = {each.rule for each in inspection.outcomes if each.is_evaluated}
    lacking = {each.rule for each in inspection.outcomes if each.is_evaluated and each.silent}
    errors = {rule for rule, own in kinds.items() if OutcomeKind.ERROR in own}
    skipped = {rule for rule, own in kinds.items() if OutcomeKind.SKIPPED in own}
    return RuleCoverage(
        evaluated=len(evaluated),
        partially=len(lacking | evaluated & (errors | skipped)),
        skipped=len(skipped - evaluated - errors),
        errors=len(errors - evaluated),
        not_applicable=len(ALL_RULES) - len(evaluated | errors | skipped),
    )


def every_outcome(inspection: Inspection) -> tuple[Outcome, ...]:
    """Return all outcomes, with n/a for each rule that has none."""
    known = {each.rule for each in inspection.outcomes}
    missing = (
        Outcome(
            rule.id,
            "fleet",
            (),
            OutcomeKind.NOT_APPLICABLE,
            reason=NO_PAIR if rule.scope is Scope.PAIR else NO_REPLICA,
        )
        for rule in ALL_RULES
        if rule.id not in known
    )
    return (*inspection.outcomes, *missing)


def rules_text(inspection: Inspection) -> str:
    """Return `68 rules: 61 evaluated (10 partially), 1 skipped, 6 n/a`."""
    counts = rule_coverage(inspection)
    partially = f" ({counts.partially:,} partially)" if counts.partially else ""
    parts = [f"{counts.evaluated:,} evaluated{partially}"]
    parts += [f"{counts.skipped:,} skipped"] if counts.skipped else []
    parts += [count(counts.errors, "error")] if counts.errors else []
    parts += [f"{counts.not_applicable:,} n/a"] if counts.not_applicable else []
    return f"{count(len(ALL_RULES), 'rule')}: {', '.join(parts)}"


def incomplete_text(inspection: Inspection) -> str:
    """Return `10 rules partially evaluated, 1 skipped`; empty where every rule was evaluated on all of its subjects."""
    counts = rule_coverage(inspection)
    found = ((counts.partially, "partially evaluated"), (counts.skipped, "skipped"), (counts.errors, "raised an error"))
    parts = [(number, what) for number, what in found if number]
    texts = [
        f"{f'{number:,}' if place else count(number, 'rule')} {what}" for place, (number, what) in enumerate(parts)
    ]
    return ", ".join(texts)


def tally_text(tally: Tally) -> str:
    """Return the counts by severity, the worst first: `2 critical, 3 warnings`; empty without findings."""
    return ", ".join(tally_texts(tally).values())


def tally_texts(tally: Tally) -> dict[Severity, str]:
    """Return the counts of the severities with findings, the worst first: `2 critical`, `3 warnings`."""
    texts = {
        Severity.CRITICAL: f"{tally.critical:,} critical",
        Severity.WARNING: count(tally.warning, "warning"),
        Severity.INFO: f"{tally.info:,} info",
    }
    return {severity: text for severity, text in texts.items() if getattr(tally, severity)}


def findings_title(inspection: Inspection, *, are_new: bool = False) -> str:
    """Return the counts by severity; without findings, or new ones, whether any rule was evaluated."""
    if inspection.findings:
        return tally_text(inspection.tally)
    return f"No {'new ' if are_new else ''}findings" if rule_coverage(inspection).evaluated else NO_RULE


def findings_lead(fleet: Fleet) -> str:
    """Return the counts of rules, replicas, suppressions, and of configuration warnings."""
    inspection = fleet.inspection
    parts = [rules_text(inspection), answered(fleet)]
    parts += [f"{len(inspection.suppressed):,} suppressed"] if inspection.suppressed else []
    parts += [count(len(inspection.notes), "configuration warning")] if inspection.notes else []
    return " · ".join(parts)


def is_clean(fleet: Fleet) -> bool:
    """Return whether a fleet without findings is good news: rules were evaluated, and a pool reports settings."""
    return bool(rule_coverage(fleet.inspection).evaluated) and any(pool.cohorts for pool in fleet.pools)


def no_findings_text(fleet: Fleet) -> str:
    """Return how many rules and replicas "no findings" is based on."""
    incomplete, down = incomplete_text(fleet.inspection), fleet.coverage.down
    sentences = [f"{count(rule_coverage(fleet.inspection).evaluated, 'rule')} evaluated."]
    sentences += [f"{incomplete}."] if incomplete else []
    sentences += [f"{count(down, 'replica')} did not answer."] if down else []
    return " ".join(sentences)
