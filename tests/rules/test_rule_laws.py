"""Laws of all rules, on fleets composed of the cases of every rule."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.rules.behaviour.development_mode import PLUGINS
from dashboard.rules.catalogue import ALL_RULES, BY_ID
from dashboard.rules.findings import Finding, Inspection, OutcomeKind
from tests import builders
from tests.rules.case import Case, built, cases, cases_of, inspected, main_outcome
from tests.rules.remedies import applied, remedies

ENTRIES = [entry for case in cases() for entry in case.fleet]
# Rules that evaluate each replica by itself.
ABSOLUTE = frozenset({"CO-14", "ID-05", "ID-06"})
# What a remedy switches on is evaluated from then on: the fault was there before.
REVEALED = frozenset({("RT-09", "RT-08"), ("RT-09", "RT-22"), ("RT-13", "RT-24")})
entries = st.lists(st.sampled_from(ENTRIES), min_size=1, max_size=6)


def without(fleet: Sequence[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key not in keys} for entry in fleet]


@given(entries, st.randoms(use_true_random=False))
def test_no_rule_raises_and_the_order_of_replicas_documents_and_rules_does_not_matter(
    fleet: list[dict[str, Any]], random: Any
) -> None:
    replicas, documents = built(fleet)
    expected = inspected(replicas, documents)
    for each in (replicas, documents):
        random.shuffle(each)

    assert inspected(replicas, documents, random.sample(ALL_RULES, len(ALL_RULES))) == expected
    assert [each for each in expected.outcomes if each.kind is OutcomeKind.ERROR] == []


@given(st.sampled_from(ENTRIES), st.integers(2, 5))
def test_an_identical_replica_adds_no_finding_to_a_uniform_pool(entry: dict[str, Any], number: int) -> None:
    same = without([entry], "replicas", "identity", "same_process")[0]
    replicas, documents = built([{**same, "replicas": number + 1}])
    fewer, more = inspected(replicas[:-1], documents), inspected(replicas, documents)

    assert {(each.rule, each.id) for each in more.findings} <= {(each.rule, each.id) for each in fewer.findings}


@given(entries, st.integers(0, 10**9))
def test_unique_instance_ids_are_not_compared(fleet: list[dict[str, Any]], salt: int) -> None:
    replicas, documents = built(without(fleet, "same_process"))
    renamed = [
        replace(each, identity={**each.identity, "instance_id": builders.setting(f"{salt}-{number}")})
        for number, each in enumerate(replicas)
    ]

    assert inspected(renamed, documents).findings == inspected(replicas, documents).findings


@given(entries)
def test_removing_a_replica_adds_no_absolute_finding_to_another(fleet: list[dict[str, Any]]) -> None:
    """Except the last fresh one: the stale replicas of its pool are then evaluated instead."""
    replicas, documents = built(without(fleet, "same_process"))
    before = absolute_pairs(inspected(replicas, documents))

    for removed in replicas:
        left = [each for each in replicas if each is not removed]
        if not removed.fresh or any(each.fresh for each in left if each.pool == removed.pool):
            assert absolute_pairs(inspected(left, documents)) <= before


@given(entries)
def test_a_stale_replica_is_evaluated_only_where_its_pool_has_no_fresh_one(fleet: list[dict[str, Any]]) -> None:
    replicas, documents = built(without(fleet, "same_process"))
    stale = {each.id for each in replicas if not each.fresh}
    read = {each.pool for each in replicas if each.fresh and each.document is not None}

    found = inspected(replicas, documents).findings
    routes = {replica for each in found if each.rule == "CO-14" for replica in each.replicas}

    assert not {each.id for each in replicas if each.id in stale & routes and each.pool in read}


@given(st.sampled_from(cases_of("RT-25")), st.permutations(("east", "west", "north")))
def test_names_and_order_of_clusters_change_no_verdict(case: Case, names: Sequence[str]) -> None:
    """The clusters of a case get the other names, so they are sorted otherwise."""
    new = dict(zip(("east", "west", "north"), names, strict=True))

    def renamed(text: str) -> str:
        return re.sub("east|west|north", lambda match: new[match[0]], text)

    other = Case(**json.loads(renamed(json.dumps(vars(case)))))
    found, after = (each.inspected(BY_ID["RT-25"]) for each in (case, other))

    assert main_outcome(after).kind is case.expect
    assert sorted(map(_of_clusters, after.findings)) == sorted(
        (*_of_clusters(each)[:-1], tuple(sorted(map(renamed, each.replicas)))) for each in found.findings
    )


def _of_clusters(finding: Finding) -> tuple[object, ...]:
    rows = sorted((each.path, each.value, len(each.replicas)) for each in finding.evidence if each.replicas)
    return finding.severity, finding.why, finding.remedy.snippets, repr(rows), tuple(sorted(finding.replicas))


@pytest.mark.parametrize("rule", [rule.id for rule in ALL_RULES])
def test_what_a_rule_finds_of_restarted_replicas_does_not_depend_on_the_poll_before(rule: str) -> None:
    for case in cases_of(rule):
        replicas, documents = built(case.fleet)
        rules = [BY_ID[each] for each in (rule, *case.also)]
        earlier = case.inspected_as([replace(each, started_at=None) for each in replicas], documents, rules)
        found = case.inspected_as(replicas, documents, rules, earlier)

        assert found.findings == case.inspected_as(replicas, documents, rules).findings


@pytest.mark.parametrize("rule", [rule.id for rule in ALL_RULES])
def test_a_remedy_brings_no_other_finding(rule: str) -> None:
    """Settings get the values that a remedy names; then no new finding is as severe as the one that it ends."""
    seen: set[tuple[object, ...]] = set()

    failing = [case for case in cases_of(rule) if case.expect is OutcomeKind.FAILED]

    assert [each for case in failing for each in brought_by_remedies(case, seen)] == []


def brought_by_remedies(case: Case, seen: set[tuple[object, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield what the remedies of a case bring. Equal remedies of other rules are applied once: `seen`."""
    replicas, documents = built(case.fleet)
    known = {each.id: each for each in documents}
    before = case.inspected_as(replicas, documents)
    for finding, values, concerned in remedies(before, replicas):
        key = (finding.rule, *sorted(values.items()))
        if finding.rule == case.rule or key not in seen:
            seen.add(key)
            after = case.inspected_as(*applied(concerned, values, replicas, known))
            for each in after.findings:
                if each.severity.rank <= finding.severity.rank and is_new(each, before, finding):
                    yield case.name, finding.rule, finding.remedy.sentence, each.rule, each.sentence


def is_new(finding: Finding, before: Inspection, remedied: Finding) -> bool:
    """Return whether no earlier finding of its rule has its settings."""
    earlier = (each for each in before.findings if each.rule == finding.rule)
    is_known = any(set(finding.paths) <= set(each.paths) for each in earlier)
    return not is_known and (remedied.rule, finding.rule) not in REVEALED


def absolute_pairs(inspection: Inspection) -> set[tuple[str, str]]:
    """Return (rule, replica) of absolute findings. CO-14 also compares plugins: those are none."""
    found = [each for each in inspection.findings if each.rule in ABSOLUTE and PLUGINS not in each.paths]
    return {(each.rule, replica) for each in found for replica in each.replicas}
