"""Every rule has the expected outcome and findings in each of its cases."""

from typing import Any

import pytest

from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Confidence, Finding, Severity
from tests.rules.case import Case, cases, main_outcome


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.rule}: {case.name}")
def test_a_case_has_the_expected_outcome_and_findings(case: Case) -> None:
    inspection = case.inspected(BY_ID[case.rule])
    outcome = main_outcome(inspection)

    assert outcome.kind == case.expect, (outcome.reason, [each.sentence for each in inspection.findings])
    assert case.reason in outcome.reason
    assert case.unknown in {None, outcome.unknown}
    assert len(inspection.findings) == len(case.findings), [each.sentence for each in inspection.findings]
    for finding, expected in zip(inspection.findings, case.findings, strict=True):
        _compare(finding, expected)


def _compare(finding: Finding, expected: dict[str, Any]) -> None:
    found = {
        "severity": str(finding.severity),
        "confidence": str(finding.confidence),
        "replicas": [each.removeprefix("http://").removesuffix(":8000") for each in finding.replicas],
        "rollout": finding.is_rollout,
        "unknown": finding.unknown,
        "assumptions": list(finding.assumptions),
        "paths": list(finding.paths),
        "snippets": len(finding.remedy.snippets),
        "any_of": finding.remedy.any_of,
    }
    pasted = " ".join(each.text for each in finding.remedy.snippets)
    texts = {"says": finding.sentence, "paste": pasted, "remedy": finding.remedy.sentence, "why": finding.why}
    for key, value in expected.items():
        if key in texts:
            assert value in texts[key]
        else:
            assert found[key] == value, (key, finding.sentence)
    assert (finding.confidence is Confidence.ASSUMED) == bool(finding.assumptions)
    assert finding.severity is not Severity.CRITICAL or not finding.assumptions
    assert finding.why
    assert finding.remedy.sentence.endswith(".")
    assert finding.sentence.endswith(".")
