"""What became of all rules: each is counted once, so that the numbers add up."""

from __future__ import annotations

from dashboard.report.judged_rules import judged_rules, rules_words
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import OutcomeKind
from tests.report.judged import fleet, outcome

PASSED, FAILED = OutcomeKind.PASSED, OutcomeKind.FAILED
SKIPPED, ERROR, NOT_APPLICABLE = OutcomeKind.SKIPPED, OutcomeKind.ERROR, OutcomeKind.NOT_APPLICABLE


def test_each_rule_is_counted_once_by_the_most_that_became_of_it() -> None:
    kinds = {
        "RT-01": (PASSED, FAILED),
        "RT-02": (FAILED, SKIPPED),
        "RT-03": (PASSED, ERROR, SKIPPED),
        "RT-04": (SKIPPED, NOT_APPLICABLE),
        "RT-05": (ERROR, SKIPPED),
        "RT-06": (NOT_APPLICABLE,),
    }
    outcomes = [outcome(rule, kind, subject=str(kind)) for rule, held in kinds.items() for kind in held]
    inspection = fleet(outcomes=outcomes).inspection

    told = judged_rules(inspection)
    assert told == (3, 2, 1, 1, len(ALL_RULES) - 5)
    assert told.judged + told.skipped + told.raised + told.idle == len(ALL_RULES)
    assert rules_words(inspection) == (
        f"{len(ALL_RULES)} rules: 3 judged (2 of them not everywhere), 1 skipped, 1 failed to run, "
        f"{len(ALL_RULES) - 5} not applicable"
    )


def test_what_there_is_none_of_is_not_spoken_of() -> None:
    everything = fleet(outcomes=[outcome(rule.id) for rule in ALL_RULES]).inspection

    assert rules_words(everything) == f"{len(ALL_RULES)} rules: {len(ALL_RULES)} judged"
    assert rules_words(fleet(outcomes=[]).inspection) == (
        f"{len(ALL_RULES)} rules: 0 judged, {len(ALL_RULES)} not applicable"
    )
