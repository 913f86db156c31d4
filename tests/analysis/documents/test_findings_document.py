"""The document of findings says what the rules found, for whom and on how much, and stays small in a large fleet."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import jsonschema
import pytest

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.analysis.documents.findings import findings_json, findings_schema
from dashboard.fleet import State
from dashboard.fleet.pieces import plain
from dashboard.rules.domain import Declared, Expectations, Router, SeedPolicy, Store
from dashboard.rules.findings import (
    CohortShare,
    Confidence,
    Evidence,
    Finding,
    Inspection,
    Outcome,
    OutcomeKind,
    Remedy,
    Rollout,
    Severity,
    Snippet,
    Suppression,
)
from dashboard.rules.policy import Policy
from tests import builders

AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ODD, REST = "http://chat-0:8000", tuple(f"http://chat-{number}:8000" for number in range(1, 4))
ANA = Suppression("RT-01", "ana", "a test of sizes", date(2026, 12, 1), pool="chat", number=3)
SIZES = (
    Evidence("cache_config.block_size", "32", State.REPORTED, (ODD,)),
    Evidence("cache_config.block_size", "16", State.REPORTED, REST, is_reference=True),
)
FINDING = Finding(
    id="5bf5975562",
    rule="RT-01",
    severity=Severity.CRITICAL,
    confidence=Confidence.REPORTED,
    subject="chat",
    pools=("chat",),
    replicas=(ODD,),
    cohorts=(CohortShare("chat", "B", (ODD,)),),
    text=plain("Block size is 32 instead of 16, which 3 of 4 replicas have."),
    why="Keys never match.",
    remedy=Remedy("Give it 16.", (Snippet("flag", "--block-size 16"),)),
    evidence=SIZES,
    unknown=1,
    total=5,
)


def fleet_of(inspection: Inspection | None = None, policy: Policy | None = None) -> Fleet:
    """Four replicas of one pool, judged; with another inspection if one is given."""
    sizes = [32, 16, 16, 16]
    documents = [builders.document({"cache_config.block_size": size}) for size in sizes]
    members = [builders.replica(f"chat-{number}", document=each) for number, each in enumerate(documents)]
    fleet = inspected(replace(builders.fleet(members, documents), policy=policy or Policy()), builders.NOW)
    told = replace(inspection, domains=fleet.inspection.domains) if inspection else fleet.inspection
    return replace(fleet, inspection=told)


def document(fleet: Fleet) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(findings_json(fleet, AT))
    jsonschema.validate(found, findings_schema())
    return found


def only(fleet: Fleet, key: str = "findings") -> dict[str, Any]:
    (found,) = document(fleet)[key]
    return dict(found)


def test_the_simulated_fleet_holds_to_the_schema(demo_fleet: Fleet) -> None:
    found = document(demo_fleet)

    assert len(found["findings"]) == len(demo_fleet.inspection.findings) > 0


def test_a_finding_says_what_on_whom_why_and_what_to_type() -> None:
    told = only(fleet_of(Inspection(findings=(FINDING,))))

    assert told == {
        "id": "5bf5975562",
        "rule": "RT-01",
        "name": "block-size-differs",
        "family": "routing",
        "severity": "critical",
        "confidence": "reported",
        "assumptions": [],
        "subject": "chat",
        "pools": ["chat"],
        "replicas": [{"replica": ODD, "name": "chat-0"}],
        "cohorts": [{"pool": "chat", "cohort": "B", "count": 1}],
        "sentence": "Block size is 32 instead of 16, which 3 of 4 replicas have.",
        "why": "Keys never match.",
        "remedy": {
            "sentence": "Give it 16.",
            "snippets": [{"kind": "flag", "text": "--block-size 16"}],
            "any_of": False,
        },
        "evidence": [
            {
                "path": "cache_config.block_size",
                "value": 32,
                "state": "reported",
                "count": 1,
                "replicas": [ODD],
                "holder": None,
                "is_reference": False,
                "comment": None,
            },
            {
                "path": "cache_config.block_size",
                "value": 16,
                "state": "reported",
                "count": 3,
                "replicas": None,
                "holder": None,
                "is_reference": True,
                "comment": None,
            },
        ],
        "unknown": 1,
        "total": 5,
        "is_rollout": False,
        "suppression": None,
        "expired": None,
        "severity_behind": {},
    }


@pytest.mark.parametrize(
    ("text", "value"), [("null", None), ('"sha256"', "sha256"), ("[1,2]", [1, 2]), ("true", True), ("", None)]
)
def test_a_value_is_native_json(text: str, value: object) -> None:
    odd = replace(FINDING, evidence=(Evidence("a.b", text, State.NULL, (ODD,), "router"),))

    (told,) = only(fleet_of(Inspection(findings=(odd,))))["evidence"]

    assert told["value"] == value
    assert told["holder"] == "router"


def test_replicas_that_were_never_read_stand_in_no_cohort_of_no_pool() -> None:
    unread = replace(FINDING, pools=(), cohorts=(CohortShare("", "", (ODD,)),))

    assert only(fleet_of(Inspection(findings=(unread,))))["cohorts"] == [{"pool": None, "cohort": None, "count": 1}]


def test_a_suppressed_finding_stands_apart_with_who_answers_for_it_why_and_until_when() -> None:
    fleet = fleet_of(Inspection(suppressed=(replace(FINDING, suppression=ANA),)))

    assert document(fleet)["findings"] == []
    assert only(fleet, "suppressed")["suppression"] == {
        "owner": "ana",
        "reason": "a test of sizes",
        "until": "2026-12-01",
        "number": 3,
    }
    assert document(fleet)["tally"] == {"critical": 0, "warning": 0, "info": 0, "unknown": 0}


def test_a_domain_says_of_each_part_how_it_is_known() -> None:
    expects = Expectations(block_size=16, hash_algorithm="sha256_cbor", seed_policy=SeedPolicy.ENVIRONMENT)
    policy = Policy(pools={"chat": Declared(router=Router.KV_EVENTS, kv_store=Store.MOONCAKE, expects=expects)})

    (pool,) = document(fleet_of(policy=policy))["pools"]

    assert pool["domain"] == {
        "router": {"value": "kv-events", "basis": "declared"},
        "kv_store": {"value": "mooncake", "basis": "declared"},
        "disaggregated": {"value": False, "basis": "assumed"},
        "expects": {
            "block_size": 16,
            "hash_algorithm": "sha256_cbor",
            "seed_policy": "environment",
            "event_topic": None,
        },
    }


def test_a_rollout_says_how_far_it_is() -> None:
    began, last = AT - timedelta(hours=1), AT - timedelta(minutes=5)
    rollout = Rollout("chat", "0.31.0", "0.32.0", (ODD,), 4, began, last)

    (pool,) = document(fleet_of(Inspection(rollouts={"chat": rollout})))["pools"]

    assert pool["rollout"] == {
        "old": "0.31.0",
        "new": "0.32.0",
        "moved": 1,
        "total": 4,
        "began": "2026-11-20T11:00:00Z",
        "last": "2026-11-20T11:55:00Z",
    }


def outcomes(kinds: Iterable[tuple[str, str, OutcomeKind, str, int]]) -> Inspection:
    return Inspection(
        outcomes=tuple(
            Outcome(rule, pool, (pool,), kind, reason=reason, unknown=unknown, total=8)
            for rule, pool, kind, reason, unknown in kinds
        )
    )


def test_pools_on_which_the_same_became_of_a_rule_stand_together_worst_outcome_first() -> None:
    told = outcomes(
        [
            ("RT-01", "a", OutcomeKind.PASSED, "", 0),
            ("RT-01", "b", OutcomeKind.FAILED, "", 0),
            ("RT-01", "c", OutcomeKind.PASSED, "", 3),
            ("RT-01", "d", OutcomeKind.SKIPPED, "block_size: told by 0 of 8 replicas.", 8),
            ("CP-01", "a", OutcomeKind.ERROR, "KeyError: 'x'", 0),
        ]
    )

    found = document(fleet_of(told))["outcomes"]

    assert [(each["rule"], each["kind"], each["reason"], each["subjects"], each["unknown"]) for each in found] == [
        ("CP-01", "error", "KeyError: 'x'", ["a"], {}),
        ("RT-01", "failed", None, ["b"], {}),
        ("RT-01", "skipped", "block_size: told by 0 of 8 replicas.", ["d"], {"d": 8}),
        ("RT-01", "passed", None, ["a", "c"], {"c": 3}),
    ]


def test_every_outcome_stands_there_once(demo_fleet: Fleet) -> None:
    found = document(demo_fleet)["outcomes"]

    told = [(each["rule"], subject, each["kind"]) for each in found for subject in each["subjects"]]
    assert sorted(told) == sorted((each.rule, each.subject, each.kind) for each in demo_fleet.inspection.outcomes)


def test_sixty_rules_that_pass_on_a_hundred_and_twenty_pools_stay_small() -> None:
    """One name of a pool for each rule, and no more: 7,200 outcomes of 21 letters each."""
    names = [f"served-model-name-{number:03}" for number in range(120)]
    told = outcomes((f"RT-{rule:02}", name, OutcomeKind.PASSED, "", 0) for rule in range(60) for name in names)

    written = findings_json(fleet_of(told), AT)

    assert len(written) < 60 * 120 * (21 + 3) + 60 * 100 + 5_000


def test_the_reference_names_no_replicas_for_they_are_nearly_all() -> None:
    everyone = tuple(f"http://10.0.{number // 250}.{number % 250}:8000" for number in range(1_000))
    most = replace(FINDING, evidence=(SIZES[0], SIZES[1]._replace(replicas=everyone)))

    written = findings_json(fleet_of(Inspection(findings=(most,))), AT)

    assert b'"count":1000' in written
    assert everyone[500].encode() not in written
