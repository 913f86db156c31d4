"""SARIF 2.1.0: rules, results with fingerprints, suppressions kept in the file, and why the check ended as it did."""

import json
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.render.rule_markdown import rule_page
from dashboard.render.sarif import to_sarif
from dashboard.render.verdict import verdict_of
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.findings import OutcomeKind, Severity
from tests.inspected_fleets import evil, finding, fleet, outcome, suppression

CRITICAL, WARNING, INFO = Severity


def run(judged: Fleet, file: str = "fleet.yaml") -> dict[str, Any]:
    document = json.loads(to_sarif(judged, verdict_of(judged, CRITICAL, 100), file))
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("/sarif-schema-2.1.0.json")
    assert len(document["runs"]) == 1
    return dict(document["runs"][0])


def test_every_rule_stands_there_with_its_page() -> None:
    rules = run(fleet())["tool"]["driver"]["rules"]

    assert [each["id"] for each in rules] == [rule.id for rule in ALL_RULES]
    first = next(each for each in rules if each["id"] == "RT-01")
    assert first["shortDescription"]["text"] == "Replicas of one pool use different block sizes."
    assert first["help"]["markdown"] == rule_page(BY_ID["RT-01"])
    assert first["help"]["text"].startswith("Set `--block-size` to one value on every replica")
    assert first["defaultConfiguration"] == {"level": "error"}
    assert first["properties"]["page"] == "docs/rules/RT-01.md"


def test_a_finding_is_a_result_of_its_rule_at_its_replicas() -> None:
    told = run(fleet(finding()), "ci/my fleet.yaml")
    result = told["results"][0]

    assert told["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "RT-01"
    assert (result["level"], result["kind"], result["suppressions"]) == ("error", "fail", [])
    assert result["message"]["text"].splitlines() == [
        "chat, B x2 (chat-3 and chat-4): Block size is 32 instead of 16, which 2 of 4 replicas have.",
        "The router never finds what these replicas hold.",
        "Give these replicas the same block size.",
        "--block-size 16",
    ]
    place = result["locations"][0]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "ci/my%20fleet.yaml"},
        "region": {"startLine": 1},
    }
    assert place["logicalLocations"] == [
        {"name": "chat", "kind": "pool"},
        {"name": "chat-3", "fullyQualifiedName": "http://chat-3:8000", "kind": "replica"},
        {"name": "chat-4", "fullyQualifiedName": "http://chat-4:8000", "kind": "replica"},
    ]


def test_the_fingerprint_is_the_findings_own_so_that_it_is_known_again() -> None:
    first, second = (run(fleet(finding(id="abc", sentence=text)))["results"][0] for text in ("a.", "b."))

    assert first["partialFingerprints"] == second["partialFingerprints"] == {"primaryLocationLineHash": "abc:1"}


def test_what_is_suppressed_stays_in_the_file_with_who_answers_for_it() -> None:
    result = run(fleet(suppressed=[finding(suppression=suppression())]))["results"][0]

    assert result["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": "canary (ann, until 2026-04-30)"}
    ]


def test_the_invocation_says_why_the_check_ended_as_it_did() -> None:
    found = run(fleet(finding()))["invocations"][0]
    unread = run(fleet(down=1))["invocations"][0]

    assert (found["exitCode"], found["executionSuccessful"]) == (1, True)
    assert found["exitCodeDescription"].startswith("exit 1: 1 critical finding (RT-01 in chat)")
    assert found["endTimeUtc"] == "2026-03-02T11:42:05Z"
    assert (unread["exitCode"], unread["executionSuccessful"]) == (3, False)
    assert unread["toolExecutionNotifications"][0]["message"]["text"].startswith("only 4 of 5 answered")


def test_what_was_skipped_or_raised_is_a_notification_of_its_rule() -> None:
    judged = fleet(
        outcomes=[
            outcome("CO-01", OutcomeKind.ERROR, "KeyError: 1"),
            outcome("RT-01", OutcomeKind.SKIPPED, "told by none."),
            outcome("CO-02", OutcomeKind.PASSED),
        ]
    )
    told = run(judged)["invocations"][0]["toolExecutionNotifications"]

    assert [(each["level"], each["associatedRule"]["id"], each["message"]["text"]) for each in told] == [
        ("error", "CO-01", "CO-01 in chat: rule error: KeyError: 1"),
        ("note", "RT-01", "RT-01 in chat: skipped: told by none."),
    ]


def test_foreign_text_loses_its_control_characters() -> None:
    judged = evil()
    text = to_sarif(judged, verdict_of(judged, CRITICAL, 100), "fleet.yaml")

    assert "\\u001b" not in text
    assert "\\u202e" not in text
    assert run(judged)["properties"]["notes"][0].startswith("<b>![x]")
