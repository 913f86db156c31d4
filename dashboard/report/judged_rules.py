"""What became of all rules, each counted once, so that the numbers add up."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import OutcomeKind
from dashboard.wording import count

if TYPE_CHECKING:
    from dashboard.rules.findings import Inspection


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


def rules_words(inspection: Inspection) -> str:
    """Write `68 rules: 61 judged (10 of them not everywhere), 1 skipped, 6 not applicable`."""
    told = judged_rules(inspection)
    partly = f" ({told.partly:,} of them not everywhere)" if told.partly else ""
    rest = ((told.skipped, "skipped"), (told.raised, "failed to run"), (told.idle, "not applicable"))
    parts = [f"{told.judged:,} judged{partly}", *(f"{number:,} {what}" for number, what in rest if number)]
    return f"{count(len(ALL_RULES), 'rule')}: {', '.join(parts)}"
