"""Headline and lead of a fleet, and the counts of findings and rules."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.findings import OutcomeKind, Severity, Tally
from dashboard.rules.identity.flapping import ONE_POLL
from dashboard.rules.registry import Scope
from dashboard.views.summary import (
    NO_PAIR,
    NO_REPLICA,
    NO_RULE,
    count_read,
    every_outcome,
    findings_lead,
    fleet_lead,
    fleet_title,
    incomplete_text,
    no_findings_sentences,
    rule_coverage,
    rules_text,
)
from tests import inspected_fleets
from tests.builders import HASHING, alike, document, down, fleet, replica, story
from tests.findings_builder import finding, outcome, with_findings
from tests.used import with_traffic

SHARED = document()
NOTHING: Mapping[str, Tally] = {}
BAD, ODD, INFO = Tally(critical=2), Tally(warning=1), Tally(info=3)
PASSED, FAILED = OutcomeKind.PASSED, OutcomeKind.FAILED
SKIPPED, ERROR, NOT_APPLICABLE = OutcomeKind.SKIPPED, OutcomeKind.ERROR, OutcomeKind.NOT_APPLICABLE
PAIRS = [rule.id for rule in ALL_RULES if rule.scope is Scope.PAIR]


def shown(
    *, pools: str = "ab", unreachable: int = 0, read: bool = True, found: Mapping[str, Tally] = NOTHING, **more: Any
) -> Fleet:
    """Pools of three replicas, and unreachable ones of the first, with findings by pool; of no pool: of the fleet."""
    members = [each for pool in pools for each in alike(pool, 3, SHARED)]
    members = members if read else [replace(each, document=None) for each in members]
    members += [down(f"down-{number}", pool=pools[:1] or None) for number in range(unreachable)]
    built = fleet(members, [SHARED])
    findings = [
        finding(built, (), pools=tuple(pool), severity=severity)
        for pool, tally in found.items()
        for severity in Severity
        for _ in range(getattr(tally, severity))
    ]
    return with_findings(built, *findings, **more)


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ({}, "No critical findings or warnings"),
        ({"found": {"a": BAD, "b": ODD}}, "1 pool has critical findings"),
        ({"found": {"a": ODD, "b": INFO}, "unreachable": 3}, "1 warning in 1 pool; 3 replicas are down"),
        ({"found": {"": ODD}}, "1 warning"),
        ({"pools": "", "unreachable": 10}, "No replica answered"),
        ({"read": False}, NO_RULE),
        (
            {"read": False, "found": {"a": ODD}, "unreachable": 1},
            "1 warning in 1 pool, no settings compared; 1 replica is down",
        ),
    ],
)
def test_the_title_begins_with_the_worst(given: dict[str, Any], title: str) -> None:
    assert fleet_title(shown(**given)) == title


def test_replicas_without_a_model_are_in_no_pool() -> None:
    unknown = fleet([replica("a", pool=None)])

    assert fleet_title(unknown) == "No pools to compare"
    assert "no replica reports a model" in fleet_lead(unknown)


def test_the_lead_counts_findings_and_says_where_sharing_is_unknown() -> None:
    assert fleet_lead(shown(found={"a": BAD, "b": ODD})).startswith("2 critical, 1 warning.")
    assert fleet_lead(shown(pools="", unreachable=10)) == "All replicas were polled; none returned a usable reply."
    silent = fleet(alike("chat", 3, SHARED), [SHARED], policy=HASHING)
    assert "Prefix sharing is unknown for 3 replicas." in fleet_lead(silent)


def test_no_findings_is_limited_to_the_reported_data() -> None:
    missing = fleet([*alike("chat", 3, SHARED), down("chat-9"), down("other-1", pool="other")], [SHARED])
    skipped = shown(outcomes=(outcome(pool="a", kind=SKIPPED),))

    assert (len(missing.pools), count_read(missing)) == (2, 1)
    assert fleet_lead(skipped).startswith("No findings in the reported data.")
    assert no_findings_sentences(missing)[-1] == "Replicas with incomplete data are not counted."


def test_a_fleet_without_settings_has_no_evaluated_rules() -> None:
    silent = fleet([replica(f"chat-{number}") for number in range(4)])
    why = "No settings compared: no pool reports its configuration."

    assert fleet_title(silent) == NO_RULE
    assert fleet_lead(silent).startswith(why)
    assert fleet_lead(shown(read=False, found={"a": ODD})).startswith("1 warning.")


def test_no_findings_counts_evaluated_rules_and_differences_without_a_rule() -> None:
    documents = [document({"model_config.seed": number}) for number in (1, 2)]
    other = fleet([replica(f"chat-{index}", document=each) for index, each in enumerate(documents)], documents)
    kinds = enumerate((PASSED, PASSED, SKIPPED, NOT_APPLICABLE))
    some = with_findings(story(), outcomes=tuple(outcome(f"XX-{number}", kind=kind) for number, kind in kinds))

    assert "1 difference without a rule: see Compare." in no_findings_sentences(other)
    assert no_findings_sentences(some)[0] == "No findings from 2 rules."


def test_each_rule_is_counted_once() -> None:
    kinds = {
        "RT-01": (PASSED, FAILED),
        "RT-02": (FAILED, SKIPPED),
        "RT-03": (PASSED, ERROR, SKIPPED),
        "RT-04": (SKIPPED, NOT_APPLICABLE),
        "RT-05": (ERROR, SKIPPED),
        "RT-06": (NOT_APPLICABLE,),
    }
    outcomes = [inspected_fleets.outcome(rule, kind, subject=str(kind)) for rule, own in kinds.items() for kind in own]
    inspection, total = inspected_fleets.fleet(outcomes=outcomes).inspection, len(ALL_RULES)

    assert rule_coverage(inspection) == (3, 2, 1, 1, total - 5)
    assert incomplete_text(inspection) == "2 rules partially evaluated, 1 skipped, 1 raised an error"
    assert rules_text(inspection) == (f"{total} rules: 3 evaluated (2 partially), 1 skipped, 1 error, {total - 5} n/a")
    silent = inspected_fleets.fleet(outcomes=[inspected_fleets.outcome("RT-01", unknown=3, unread=2)]).inspection
    unread = inspected_fleets.fleet(outcomes=[inspected_fleets.outcome("RT-01", unknown=2, unread=2)]).inspection
    assert (rule_coverage(silent).partially, rule_coverage(unread).partially) == (1, 0)
    everything = inspected_fleets.fleet(outcomes=[inspected_fleets.outcome(rule.id) for rule in ALL_RULES])
    assert rules_text(everything.inspection) == f"{total} rules: {total} evaluated"
    assert incomplete_text(everything.inspection) == ""
    polled_once = inspected_fleets.outcome("ID-12", NOT_APPLICABLE)._replace(reason=ONE_POLL)
    assert rules_text(inspected_fleets.fleet(outcomes=[polled_once]).inspection).endswith(
        f" {total} n/a (1 needs the history)"
    )


def test_a_rule_without_an_outcome_is_not_applicable() -> None:
    """So a list of outcomes has every rule that the lead counts."""
    known = [inspected_fleets.outcome(each.id, NOT_APPLICABLE) for each in ALL_RULES if each.scope is not Scope.PAIR]
    inspection = inspected_fleets.fleet(outcomes=[inspected_fleets.outcome(PAIRS[0], FAILED), *known]).inspection
    added = every_outcome(inspection)[len(inspection.outcomes) :]
    before = every_outcome(inspected_fleets.fleet(outcomes=[]).inspection)

    assert [each.rule for each in added] == PAIRS[1:]
    assert {(each.kind, each.reason, each.pools) for each in added} == {(NOT_APPLICABLE, NO_PAIR, ())}
    assert len(added) + len(known) == rule_coverage(inspection).not_applicable
    assert {each.rule: each.reason for each in before} == {
        rule.id: NO_PAIR if rule.id in PAIRS else NO_REPLICA for rule in ALL_RULES
    }


def test_before_the_first_whole_window_findings_say_when_those_on_traffic_come() -> None:
    used = replace(with_traffic(story(), {}, 0.6), traffic_window=1800.0)

    assert findings_lead(used).endswith(" · traffic rules start in 13 min")
    for each in (replace(used, traffic_window=900.0), replace(used, traffic={}), replace(used, snapshot="0123")):
        assert "traffic" not in findings_lead(each)
