"""What became of all rules: each is counted once, so that the numbers add up."""

from dashboard.report.findings.rule_coverage import NO_PAIR, NOTHING_READ, rule_coverage, rules_words, without_subject
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import OutcomeKind
from dashboard.rules.registry import Scope
from tests.report.judged import fleet, outcome

PASSED, FAILED = OutcomeKind.PASSED, OutcomeKind.FAILED
SKIPPED, ERROR, NOT_APPLICABLE = OutcomeKind.SKIPPED, OutcomeKind.ERROR, OutcomeKind.NOT_APPLICABLE
PAIRS = [rule.id for rule in ALL_RULES if rule.scope is Scope.PAIR]


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

    told = rule_coverage(inspection)
    assert told == (3, 2, 1, 1, len(ALL_RULES) - 5)
    assert told.evaluated + told.skipped + told.errors + told.not_applicable == len(ALL_RULES)
    assert rules_words(inspection) == (
        f"{len(ALL_RULES)} rules: 3 evaluated (2 partially), 1 skipped, 1 error, {len(ALL_RULES) - 5} n/a"
    )


def test_what_there_is_none_of_is_not_spoken_of() -> None:
    everything = fleet(outcomes=[outcome(rule.id) for rule in ALL_RULES]).inspection

    assert rules_words(everything) == f"{len(ALL_RULES)} rules: {len(ALL_RULES)} evaluated"
    assert rules_words(fleet(outcomes=[]).inspection) == (f"{len(ALL_RULES)} rules: 0 evaluated, {len(ALL_RULES)} n/a")


def test_a_list_with_the_rules_that_looked_at_nothing_holds_every_rule_that_is_counted() -> None:
    """A fleet without prefill and decode pools: the rules on pairs have no outcome of their own, and one is added."""
    told = [outcome(rule.id, NOT_APPLICABLE) for rule in ALL_RULES if rule.scope is not Scope.PAIR]
    inspection = fleet(outcomes=[outcome(PAIRS[0], FAILED), *told]).inspection
    added = without_subject(inspection)

    assert [each.rule for each in added] == PAIRS[1:]
    assert {(each.kind, each.reason, each.pools) for each in added} == {(NOT_APPLICABLE, NO_PAIR, ())}
    assert len(added) + len(told) == rule_coverage(inspection).not_applicable


def test_before_anything_was_read_no_rule_looked_at_anything() -> None:
    reasons = {each.rule: each.reason for each in without_subject(fleet(outcomes=[]).inspection)}

    assert reasons == {rule.id: NO_PAIR if rule.id in PAIRS else NOTHING_READ for rule in ALL_RULES}
