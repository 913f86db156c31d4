"""No rule without its page, its cases, its remedy, its evidence."""

import re

import pytest

from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import Family, OutcomeKind
from dashboard.rules.registry import Rule
from tests.rules.case import FOLDER, cases_of, rule_of

PREFIXES = {
    Family.ROUTING: "RT",
    Family.DISAGGREGATION: "PD",
    Family.STORES: "SH",
    Family.BEHAVIOUR: "CO",
    Family.CAPACITY: "CP",
    Family.IDENTITY: "ID",
    Family.BASELINE: "BL",
}
SOURCE = re.compile(r"vllm/[\w/]+\.py|[\w.-]+/[\w.-]+#\d+|https?://|captures?/|measured")

each_rule = pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)


def test_rules_stand_in_the_order_of_their_ids_inside_a_family_and_none_twice() -> None:
    ids = [rule.id for rule in ALL_RULES]
    names = [rule.name for rule in ALL_RULES]

    assert len(set(ids)) == len(ids)
    assert len(set(names)) == len(names)
    for prefix in PREFIXES.values():
        own = [each for each in ids if each.startswith(prefix)]
        assert own == sorted(own)


def test_there_are_no_cases_of_a_rule_that_is_not_there() -> None:
    assert {rule_of(file) for file in FOLDER.glob("*.yaml")} <= {rule.id for rule in ALL_RULES}


@each_rule
def test_a_rule_has_an_id_of_its_family_and_a_name(rule: Rule) -> None:
    assert re.fullmatch(rf"{PREFIXES[rule.family]}-\d\d", rule.id)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)


@each_rule
def test_a_rule_has_a_whole_page(rule: Rule) -> None:
    page = rule.page

    assert page.problem.endswith(".")
    assert "\n" not in page.problem.split("\n\n")[0]
    assert page.why.keys() == rule.severity.keys(), "a sentence for every context that has a severity"
    assert all(re.match(r"[A-Z`0-9]", sentence) and sentence.endswith(".") for sentence in page.why.values())
    assert page.fix.endswith(".")
    assert page.exceptions.endswith(".")
    assert page.evidence
    assert all(SOURCE.search(line) for line in page.evidence), "a file of vLLM, an issue, or an address"
    assert page.example


@each_rule
def test_a_rule_has_cases_that_pass_fail_and_are_not_judged(rule: Rule) -> None:
    kinds = {case.expect for case in cases_of(rule.id)}

    assert {OutcomeKind.PASSED, OutcomeKind.FAILED} <= kinds
    assert kinds & {OutcomeKind.SKIPPED, OutcomeKind.NOT_APPLICABLE}


@pytest.mark.no_cover
@each_rule
def test_a_failing_case_has_a_remedy_and_evidence(rule: Rule) -> None:
    failing = [case for case in cases_of(rule.id) if case.expect is OutcomeKind.FAILED]
    found = [finding for case in failing for finding in case.inspected(rule).findings]

    assert found
    assert all(finding.evidence for finding in found)
    assert all(finding.remedy.sentence for finding in found)
    assert any(finding.remedy.snippets for finding in found) or rule.id == "CP-01", "something to paste"


@each_rule
def test_parameters_have_defaults_and_plain_types(rule: Rule) -> None:
    assert all(isinstance(value, int | float | str | bool) for value in rule.parameters.values())
