"""How many rules were evaluated, skipped, failed with an error, or are not applicable: each counted once."""

from collections import defaultdict
from typing import NamedTuple

from dashboard.fleet.formatting import count
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import Inspection, Outcome, OutcomeKind
from dashboard.rules.registry import Scope

NO_PAIR = "No prefill pool with a decode pool of its model is there."
NOTHING_READ = "No replica was read."


class RuleCoverage(NamedTuple):
    """Rules by outcome, each counted once. Of the `evaluated` ones, `partially` were not evaluated everywhere.

    `errors` raised an error, `skipped` lack reported settings, `not_applicable` found nothing of their kind.
    """

    evaluated: int
    partially: int
    skipped: int
    errors: int
    not_applicable: int

    @property
    def incomplete(self) -> int:
        """Return how many were not evaluated somewhere."""
        return self.partially + self.skipped + self.errors


def rule_coverage(inspection: Inspection) -> RuleCoverage:
    """Count all rules. One without an outcome, such as a rule on pairs where there is no pair, is not applicable."""
    kinds: dict[str, set[OutcomeKind]] = defaultdict(set)
    for outcome in inspection.outcomes:
        kinds[outcome.rule].add(outcome.kind)
    evaluated = {rule for rule, own in kinds.items() if own & {OutcomeKind.PASSED, OutcomeKind.FAILED}}
    errors = {rule for rule, own in kinds.items() if OutcomeKind.ERROR in own}
    skipped = {rule for rule, own in kinds.items() if OutcomeKind.SKIPPED in own}
    return RuleCoverage(
        evaluated=len(evaluated),
        partially=len(evaluated & (errors | skipped)),
        skipped=len(skipped - evaluated - errors),
        errors=len(errors - evaluated),
        not_applicable=len(ALL_RULES) - len(evaluated | errors | skipped),
    )


def without_subject(inspection: Inspection) -> list[Outcome]:
    """Return an outcome, not applicable, for each rule that has none, so that a list has every rule that is counted."""
    known = {each.rule for each in inspection.outcomes}
    return [
        Outcome(
            rule.id,
            "fleet",
            (),
            OutcomeKind.NOT_APPLICABLE,
            reason=NO_PAIR if rule.scope is Scope.PAIR else NOTHING_READ,
        )
        for rule in ALL_RULES
        if rule.id not in known
    ]


def rules_words(inspection: Inspection) -> str:
    """Return `68 rules: 61 evaluated (10 partially), 1 skipped, 6 n/a`."""
    counts = rule_coverage(inspection)
    partially = f" ({counts.partially:,} partially)" if counts.partially else ""
    parts = [f"{counts.evaluated:,} evaluated{partially}"]
    parts += [f"{counts.skipped:,} skipped"] if counts.skipped else []
    parts += [count(counts.errors, "error")] if counts.errors else []
    parts += [f"{counts.not_applicable:,} n/a"] if counts.not_applicable else []
    return f"{count(len(ALL_RULES), 'rule')}: {', '.join(parts)}"
