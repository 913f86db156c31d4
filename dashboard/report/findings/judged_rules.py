"""What became of all rules, each counted once, so that the numbers add up."""

from collections import defaultdict
from typing import NamedTuple

from dashboard.fleet.formatting import count
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import Inspection, Outcome, OutcomeKind
from dashboard.rules.registry import Scope

NO_PAIR = "No prefill pool with a decode pool of its model is there."
NOTHING_READ = "No replica was read."


class JudgedRules(NamedTuple):
    """Rules by what became of them. Of those that were judged somewhere, `partly` were not judged everywhere.

    Of the others, `raised` raised an error, `skipped` were told too little, `idle` apply nowhere.
    """

    judged: int
    partly: int
    skipped: int
    raised: int
    idle: int

    @property
    def open(self) -> int:
        """Return how many could not be judged somewhere."""
        return self.partly + self.skipped + self.raised


def judged_rules(inspection: Inspection) -> JudgedRules:
    """Count all rules there are: one that looked at nothing, such as one on pairs where there is none, is idle."""
    kinds: dict[str, set[OutcomeKind]] = defaultdict(set)
    for outcome in inspection.outcomes:
        kinds[outcome.rule].add(outcome.kind)
    done = {rule for rule, held in kinds.items() if held & {OutcomeKind.PASSED, OutcomeKind.FAILED}}
    raised = {rule for rule, held in kinds.items() if OutcomeKind.ERROR in held}
    skipped = {rule for rule, held in kinds.items() if OutcomeKind.SKIPPED in held}
    idle = len(ALL_RULES) - len(done | raised | skipped)
    partly = len(done & (raised | skipped))
    return JudgedRules(len(done), partly, len(skipped - done - raised), len(raised - done), idle)


def without_subject(inspection: Inspection) -> list[Outcome]:
    """Return an outcome, not applicable, for each rule that has none: there was nothing of the kind that it looks at.

    With these all rules there are have an outcome, so that a list of them holds every rule that is counted.
    """
    told = {each.rule for each in inspection.outcomes}
    return [
        Outcome(
            rule.id,
            "fleet",
            (),
            OutcomeKind.NOT_APPLICABLE,
            reason=NO_PAIR if rule.scope is Scope.PAIR else NOTHING_READ,
        )
        for rule in ALL_RULES
        if rule.id not in told
    ]


def rules_words(inspection: Inspection) -> str:
    """Write `68 rules: 61 judged (10 of them not everywhere), 1 skipped, 6 not applicable anywhere`."""
    told = judged_rules(inspection)
    partly = f" ({told.partly:,} of them not everywhere)" if told.partly else ""
    rest = ((told.skipped, "skipped"), (told.raised, "failed to run"), (told.idle, "not applicable anywhere"))
    parts = [f"{told.judged:,} judged{partly}", *(f"{number:,} {what}" for number, what in rest if number)]
    return f"{count(len(ALL_RULES), 'rule')}: {', '.join(parts)}"
