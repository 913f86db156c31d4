"""What holds for all rules together, on fleets put together from the cases of every rule."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet import Document, Replica
from dashboard.rules.behaviour.development_mode import PLUGINS
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.engine import inspect_fleet
from dashboard.rules.findings import Finding, Inspection, OutcomeKind
from dashboard.rules.policy import Policy
from tests import builders
from tests.rules.case import built, cases

ENTRIES = [entry for case in cases() for entry in case.fleet]
# Rules that judge each replica for itself: what they say of one never depends on another.
ABSOLUTE = frozenset({"CO-14", "ID-05", "ID-06"})
entries = st.lists(st.sampled_from(ENTRIES), min_size=1, max_size=6)


def judged(replicas: Sequence[Replica], documents: Sequence[Document]) -> Inspection:
    known = {each.id: each for each in documents}
    return inspect_fleet(ALL_RULES, builders.compared(replicas, known), replicas, known, Policy(), builders.NOW)


def without(told: Sequence[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key not in keys} for entry in told]


@given(entries)
def test_no_rule_raises_whatever_the_fleet(told: list[dict[str, Any]]) -> None:
    outcomes = judged(*built(told)).outcomes

    assert [each for each in outcomes if each.kind is OutcomeKind.ERROR] == []


@given(entries, st.randoms(use_true_random=False))
def test_the_order_of_replicas_documents_and_rules_means_nothing(told: list[dict[str, Any]], random: Any) -> None:
    replicas, documents = built(told)
    expected = judged(replicas, documents)
    for each in (replicas, documents):
        random.shuffle(each)
    known = {each.id: each for each in documents}
    rules = random.sample(ALL_RULES, len(ALL_RULES))
    found = inspect_fleet(rules, builders.compared(replicas, known), replicas, known, Policy(), builders.NOW)

    assert found == expected


@given(st.sampled_from(ENTRIES), st.integers(2, 5))
def test_an_identical_replica_adds_no_finding_to_a_uniform_pool(entry: dict[str, Any], number: int) -> None:
    same = without([entry], "replicas", "identity", "same_process")[0]
    replicas, documents = built([{**same, "replicas": number + 1}])
    fewer = judged(replicas[:-1], documents)
    more = judged(replicas, documents)

    assert {(each.rule, each.id) for each in more.findings} <= {(each.rule, each.id) for each in fewer.findings}


@given(entries, st.integers(0, 10**9))
def test_another_name_for_each_process_adds_no_finding(told: list[dict[str, Any]], salt: int) -> None:
    """An instance id, like every identity that is unique, is never compared."""
    replicas, documents = built(without(told, "same_process"))
    renamed = [
        replace(each, identity={**each.identity, "instance_id": builders.setting(f"{salt}-{number}")})
        for number, each in enumerate(replicas)
    ]

    assert judged(renamed, documents).findings == judged(replicas, documents).findings


@given(entries)
def test_removing_a_replica_makes_no_absolute_finding_appear_on_another(told: list[dict[str, Any]]) -> None:
    """Removing the last one that is fresh does: the stale ones of its pool are judged in its place."""
    replicas, documents = built(without(told, "same_process"))
    before = pairs(judged(replicas, documents))

    for gone in replicas:
        left = [each for each in replicas if each is not gone]
        if not gone.fresh or any(each.fresh for each in left if each.pool == gone.pool):
            assert pairs(judged(left, documents)) <= before


@given(entries)
def test_a_stale_replica_is_judged_only_where_its_pool_has_no_fresh_one(told: list[dict[str, Any]]) -> None:
    replicas, documents = built(without(told, "same_process"))
    stale = {each.id for each in replicas if not each.fresh}
    read = {each.pool for each in replicas if each.fresh and each.document is not None}

    found = judged(replicas, documents).findings
    routes = {replica for each in found if each.rule == "CO-14" for replica in each.replicas}

    assert not {each.id for each in replicas if each.id in stale & routes and each.pool in read}


def pairs(inspection: Inspection) -> set[tuple[str, str]]:
    absolute = [each for each in inspection.findings if each.rule in ABSOLUTE and not compares(each)]
    return {(each.rule, replica) for each in absolute for replica in each.replicas}


def compares(finding: Finding) -> bool:
    """Tell whether a finding is on replicas that differ from others: CO-14 also compares the plugins to load."""
    return any(each.path == PLUGINS for each in finding.evidence)
