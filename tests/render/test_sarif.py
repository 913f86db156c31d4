"""SARIF 2.1.0: rules with their pages, results with fingerprints and suppressions, the invocation."""

import json
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.render.sarif import to_sarif
from dashboard.render.verdict import verdict_of
from dashboard.rules.findings import OutcomeKind, Severity
from tests.inspected_fleets import evil, finding, fleet, outcome, suppression


def run(checked: Fleet, file: str = "fleet.yaml") -> dict[str, Any]:
    document = json.loads(to_sarif(checked, verdict_of(checked, Severity.CRITICAL, 100), file))
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("/sarif-schema-2.1.0.json")
    (only,) = document["runs"]
    return dict(only)


def test_a_finding_names_its_rule_and_the_quoted_file() -> None:
    found = run(fleet(finding()), "ci/my fleet.yaml")
    (result,) = found["results"]
    (place,) = result["locations"]

    assert found["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "RT-01"
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "ci/my%20fleet.yaml"},
        "region": {"startLine": 1},
    }


def test_the_fingerprint_depends_on_the_id_only_and_suppressions_are_kept() -> None:
    first, second = (run(fleet(finding(id="abc", sentence=text)))["results"][0] for text in ("a.", "b."))
    (hidden,) = run(fleet(suppressed=[finding(suppression=suppression())]))["results"]

    assert first["partialFingerprints"] == second["partialFingerprints"] == {"primaryLocationLineHash": "abc:1"}
    assert hidden["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": "canary (ann, until 2026-04-30)"}
    ]


def test_the_invocation_has_the_exit_code_its_reason_and_rules_that_were_skipped_or_raised() -> None:
    found, unread = (run(each)["invocations"][0] for each in (fleet(finding()), fleet(down=1)))
    outcomes = [outcome("CO-01", OutcomeKind.ERROR, "KeyError: 1"), outcome("RT-01", OutcomeKind.SKIPPED, "No value.")]
    notifications = run(fleet(outcomes=[*outcomes, outcome("CO-02")]))["invocations"][0]["toolExecutionNotifications"]

    assert (found["exitCode"], found["executionSuccessful"]) == (1, True)
    assert found["exitCodeDescription"].startswith("exit 1: 1 critical finding (RT-01 in chat)")
    assert found["endTimeUtc"] == "2026-03-02T11:42:05Z"
    assert (unread["exitCode"], unread["executionSuccessful"]) == (3, False)
    assert unread["toolExecutionNotifications"][0]["message"]["text"].startswith("only 4 of 5 answered")
    assert [(each["level"], each["message"]["text"]) for each in notifications] == [
        ("error", "CO-01 in chat: rule error: KeyError: 1"),
        ("note", "RT-01 in chat: skipped: No value."),
    ]
    assert [each["associatedRule"]["id"] for each in notifications] == ["CO-01", "RT-01"]


def test_foreign_text_loses_its_control_characters() -> None:
    text = to_sarif(evil(), verdict_of(evil(), Severity.CRITICAL, 100), "fleet.yaml")

    assert "\\u001b" not in text
    assert "\\u202e" not in text
    assert run(evil())["properties"]["notes"][0].startswith("<b>![x]")
