"""RULE_SET, which reports and snapshots print, is raised with every change of a verdict."""

from dataclasses import replace

from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Severity
from tests.rules.case import cases_of
from tests.tools.rule_set import COMMITTED, text, verdict_of


def test_the_committed_verdicts_are_those_of_the_rules() -> None:
    assert text().splitlines() == COMMITTED.read_text().splitlines(), (
        "verdicts changed: where this is wanted, raise RULE_SET in dashboard/rules/catalogue.py, "
        "then run python -m tests.tools.rule_set"
    )


def test_wording_leaves_a_verdict_as_it_is_and_a_severity_changes_it() -> None:
    case = next(each for each in cases_of("RT-01") if each.findings)
    finding = case.inspected(BY_ID["RT-01"]).findings[0]

    assert verdict_of(replace(finding, text=(), why="Other words.")) == verdict_of(finding)
    assert verdict_of(replace(finding, severity=Severity.INFO)) != verdict_of(finding)
