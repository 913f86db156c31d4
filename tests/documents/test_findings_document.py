"""The JSON document of findings; that of the simulated fleet is a golden file (check.json)."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.effect import ASSUMPTION
from dashboard.documents.findings import findings_json
from dashboard.fleet import State
from dashboard.rules.findings import CohortShare, Evidence, Finding, Inspection, Outcome, OutcomeKind
from tests import builders, inspected_fleets
from tests.docs_pages import schema
from tests.used import PROMPT_TOKENS, traffic, with_traffic

AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ODD, REST = "http://chat-0:8000", tuple(f"http://chat-{number}:8000" for number in range(1, 4))
SIZES = (
    Evidence("cache_config.block_size", "32", State.REPORTED, (ODD,)),
    Evidence("cache_config.block_size", "16", State.REPORTED, REST, is_reference=True),
)
FINDING = inspected_fleets.finding(replicas=(ODD,), cohorts=(CohortShare("chat", "B", (ODD,)),), evidence=SIZES)


def fleet_of(inspection: Inspection) -> Fleet:
    """Four replicas of one pool with what rules found."""
    documents = [builders.document({"cache_config.block_size": size}) for size in (32, 16, 16, 16)]
    members = [builders.replica(f"chat-{number}", document=each) for number, each in enumerate(documents)]
    fleet = builders.fleet(members, documents)
    return replace(fleet, inspection=replace(inspection, domains=fleet.inspection.domains))


def document(inspection: Inspection) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(findings_json(fleet_of(inspection), AT))
    jsonschema.validate(found, schema("findings"))
    return found


def written(finding: Finding) -> dict[str, Any]:
    (found,) = document(Inspection(findings=(finding,)))["findings"]
    return dict(found)


def test_the_document_of_the_simulated_fleet_matches_its_schema_and_has_every_outcome_once(demo_fleet: Fleet) -> None:
    found = json.loads(findings_json(demo_fleet, AT))
    outcomes = [(each["rule"], subject, each["kind"]) for each in found["outcomes"] for subject in each["subjects"]]

    jsonschema.validate(found, schema("findings"))
    assert len(found["findings"]) == len(demo_fleet.inspection.findings) > 0
    assert sorted(outcomes) == sorted((each.rule, each.subject, each.kind) for each in demo_fleet.inspection.outcomes)


def test_a_finding_has_what_it_costs_or_why_that_is_unknown() -> None:
    known = fleet_of(Inspection(findings=(FINDING,)))
    found = []
    for usual in (0.6, traffic(0.6, requests=3)):
        used = with_traffic(known, {ODD: 0.1, "chat": usual})
        written = json.loads(findings_json(used, AT))
        jsonschema.validate(written, schema("findings"))
        found += written["findings"][0]["effect"]
    measured, unknown = found

    assert (measured["affected"]["prefix_hit_rate"], measured["rest"]["prefix_hit_rate"]) == (0.1, 0.6)
    assert measured["prompt_share"] == 0.25
    assert measured["avoidable_tokens_per_minute"] == PROMPT_TOKENS * 0.5 / 15
    assert (measured["assumption"], measured["missing"]) == (ASSUMPTION, None)
    assert (unknown["avoidable_tokens_per_minute"], unknown["assumption"]) == (None, None)
    assert unknown["missing"].startswith("Unaffected replicas: Not enough traffic: 9 requests (minimum 20)")


def test_without_traffic_a_finding_has_no_effect() -> None:
    assert written(FINDING)["effect"] == []


@pytest.mark.parametrize(
    ("text", "value"), [("null", None), ('"sha256"', "sha256"), ("[1,2]", [1, 2]), ("true", True), ("", None)]
)
def test_a_value_is_native_json(text: str, value: object) -> None:
    (row,) = written(replace(FINDING, evidence=(Evidence("a.b", text, State.NULL, (ODD,), "router"),)))["evidence"]

    assert (row["value"], row["holder"]) == (value, "router")


def test_missing_pools_and_cohorts_are_null_and_a_reference_names_no_replicas() -> None:
    unread = replace(FINDING, pools=(), cohorts=(CohortShare("", "", (ODD,)),))
    rows = written(FINDING)["evidence"]

    assert written(unread)["cohorts"] == [{"pool": None, "cohort": None, "count": 1}]
    assert [(row["count"], row["replicas"]) for row in rows] == [(1, [ODD]), (3, None)]


def test_outcomes_of_a_rule_are_grouped_by_kind_and_reason_with_the_worst_first() -> None:
    reason = "block_size: reported by 0 of 8 replicas."
    outcomes = tuple(
        Outcome(rule, pool, (pool,), kind, reason=reason, unknown=unknown, total=8)
        for rule, pool, kind, reason, unknown in (
            ("RT-01", "a", OutcomeKind.PASSED, "", 0),
            ("RT-01", "b", OutcomeKind.FAILED, "", 0),
            ("RT-01", "c", OutcomeKind.PASSED, "", 3),
            ("RT-01", "d", OutcomeKind.SKIPPED, reason, 8),
            ("CP-01", "a", OutcomeKind.ERROR, "KeyError: 'x'", 0),
        )
    )

    assert [tuple(each.values()) for each in document(Inspection(outcomes=outcomes))["outcomes"]] == [
        ("CP-01", "error", "KeyError: 'x'", ["a"], {}),
        ("RT-01", "failed", None, ["b"], {}),
        ("RT-01", "skipped", reason, ["d"], {"d": 8}),
        ("RT-01", "passed", None, ["a", "c"], {"c": 3}),
    ]


def test_the_size_of_the_document_depends_on_names_of_pools_and_not_of_replicas() -> None:
    names = [f"served-model-name-{number:03}" for number in range(120)]
    passed = tuple(
        Outcome(f"RT-{rule:02}", name, (name,), OutcomeKind.PASSED, total=8) for rule in range(60) for name in names
    )
    everyone = tuple(f"http://10.0.{number // 250}.{number % 250}:8000" for number in range(1_000))
    most = replace(FINDING, evidence=(SIZES[0], SIZES[1]._replace(replicas=everyone)))
    raw = findings_json(fleet_of(Inspection(findings=(most,), outcomes=passed)), AT)

    assert len(raw) < 60 * 120 * (len(names[0]) + 3) + 60 * 100 + 6_000
    assert b'"count":1000' in raw
    assert everyone[500].encode() not in raw
