"""Every rule has a page, cases, a remedy and evidence; its verdicts are committed."""

import re
from dataclasses import replace

import pytest
from pydantic import ValidationError

from dashboard.rules.catalogue import ALL_RULES, BY_ID, _RuleGroup, likely_rule_id, rule_id, unknown_rule
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import FAMILIES, OutcomeKind, Severity
from dashboard.rules.registry import Rule, rows
from tests.rules.case import FOLDER, cases_of, rule_of
from tests.rules.made_up import text_of
from tests.tools.rule_set import COMMITTED, text, verdict_of

SOURCE = re.compile(r"vllm/[\w/]+\.py|[\w.-]+/[\w.-]+#\d+|https?://|captures?/|measured")
each_rule = pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
# Their causes are outside of vLLM, or one value per replica has to be chosen.
NOTHING_TO_PASTE = {
    "CP-01",
    "CP-13",
    "CP-14",
    "RT-20",
    "ID-12",
    "ID-13",
    "ID-14",
    "ID-15",
    "ID-17",
    "EF-01",
    "EF-02",
    "EF-03",
    "EF-04",
    "EF-05",
}


def test_ids_and_names_are_unique_and_ids_are_sorted_within_a_family() -> None:
    ids = [rule.id for rule in ALL_RULES]

    assert len(set(ids)) == len({rule.name for rule in ALL_RULES}) == len(ids)
    for prefix in FAMILIES:
        own = [each for each in ids if each.startswith(prefix)]
        assert own == sorted(own)
    assert {rule_of(file) for file in FOLDER.glob("*.yaml")} == set(ids), "every rule has cases"


@each_rule
def test_a_rule_has_an_id_a_name_and_a_complete_page(rule: Rule) -> None:
    page = rule.page

    assert re.fullmatch(r"[A-Z]{2}-\d\d", rule.id)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    assert page.problem.endswith(".")
    assert "\n" not in page.problem.split("\n\n")[0]
    assert rule.severity
    assert all(re.match(r"[A-Z`0-9]", sentence) and sentence.endswith(".") for sentence in page.why.values())
    assert page.fix.endswith(".")
    assert page.exceptions.endswith(".")
    assert page.evidence
    assert all(SOURCE.search(line) for line in page.evidence), "a file of vLLM, an issue, or an address"
    assert page.example
    assert all(isinstance(value, int | float | str | bool) for value in rule.parameters.values())


@pytest.mark.no_cover
@each_rule
def test_a_rule_has_cases_of_each_outcome_and_findings_with_evidence_and_remedy(rule: Rule) -> None:
    kinds = {case.expect for case in cases_of(rule.id)}
    failing = [case for case in cases_of(rule.id) if case.expect is OutcomeKind.FAILED]
    found = [finding for case in failing for finding in case.inspected(rule).findings]

    assert {OutcomeKind.PASSED, OutcomeKind.FAILED} <= kinds
    assert kinds & {OutcomeKind.SKIPPED, OutcomeKind.NOT_APPLICABLE}
    assert all(finding.evidence and finding.remedy.sentence for finding in found)
    assert any(finding.remedy.snippets for finding in found) or rule.id in NOTHING_TO_PASTE, "something to paste"


def test_the_page_of_a_rule_has_its_paragraphs_on_one_line_each() -> None:
    text = text_of(
        {"any pool": ("warning", "One thing."), "kv-events": ("critical", "Another: with a colon.")},
        fix="Do this\nand that.\n\nThen rest.\n",
        evidence=("vllm/config/cache.py", "owner/repo#1"),
        example="A\n  deeper",
    )
    page = text.page("Blocks differ.\n\nMore of the problem\non two lines.")

    assert page.problem == "Blocks differ.\n\nMore of the problem on two lines."
    assert page.why == {ImpactContext.MODEL: "One thing.", ImpactContext.KV_EVENTS: "Another: with a colon."}
    assert text.severity == {ImpactContext.MODEL: Severity.WARNING, ImpactContext.KV_EVENTS: Severity.CRITICAL}
    assert page.fix == "Do this and that.\n\nThen rest."
    assert page.evidence == ("vllm/config/cache.py", "owner/repo#1")
    assert page.example == "A\n  deeper"


@pytest.mark.parametrize(("context", "severity"), [("no such context", "info"), ("any pool", "bad")])
def test_unknown_impact_contexts_and_severities_are_rejected(context: str, severity: str) -> None:
    with pytest.raises(ValidationError, match="Input should be"):
        text_of({context: (severity, "A sentence.")})


def test_each_row_is_that_of_a_rule() -> None:
    assert sorted(rows()) == sorted(each.id for each in ALL_RULES)


def test_an_unknown_meaning_is_rejected() -> None:
    with pytest.raises(ValidationError, match="no such function in value_equivalence"):
        _RuleGroup(compare=("cache_config.block_size",), meaning="nope")


def test_the_committed_verdicts_are_those_of_the_rules() -> None:
    assert text().splitlines() == COMMITTED.read_text().splitlines(), (
        "verdicts changed: where this is wanted, raise RULE_SET in dashboard/rules/catalogue.py, "
        "then run python -m tests.tools.rule_set"
    )


def test_a_verdict_depends_on_the_severity_and_not_on_the_wording() -> None:
    case = next(each for each in cases_of("RT-01") if each.findings)
    finding = case.inspected(BY_ID["RT-01"]).findings[0]

    assert verdict_of(replace(finding, text=(), why="Other words.")) == verdict_of(finding)
    assert verdict_of(replace(finding, severity=Severity.INFO)) != verdict_of(finding)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("rt_1", "did you mean RT-01?"),
        ("BLOCK-SIZE-DIFFER", "did you mean RT-01?"),
        ("id99", "there are ID-01 to ID-03 and ID-05 to ID-17"),
        ("zz-1", "see `python -m dashboard rules`"),
    ],
)
def test_an_unknown_rule_is_told_with_what_was_probably_meant(written: str, told: str) -> None:
    assert unknown_rule(written) == f"unknown rule; {told}"


def test_an_id_is_known_in_any_spelling() -> None:
    assert [likely_rule_id(each) for each in ("rt-1", "RT_01", "rt01", "block")] == ["RT-01", "RT-01", "RT-01", "block"]
    assert [rule_id(each) for each in ("rt-01", "block")] == ["RT-01", "block"]
