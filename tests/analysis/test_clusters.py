"""One cluster of a fleet: its replicas, pools and findings, also those that span clusters."""

from dataclasses import replace

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.causes import Plan
from dashboard.analysis.clusters import clusters_of, only_cluster
from dashboard.analysis.plan import plan_of
from tests.e2e.frozen_fleets import CLUSTERS, frozen


@pytest.fixture(scope="module")
def whole() -> Fleet:
    return frozen(CLUSTERS)


def test_the_clusters_are_the_labels_of_the_replicas_in_natural_order(whole: Fleet) -> None:
    assert clusters_of(whole) == ("ap", "eu", "us")
    assert clusters_of(replace(whole, replicas=())) == ()


def test_a_cluster_has_its_own_replicas_pools_sums_and_findings(whole: Fleet) -> None:
    eu = only_cluster(whole, "eu")

    assert {each.labels["cluster"] for each in eu.replicas} == {"eu"}
    assert ([each.name for each in eu.pools], eu.cluster) == (["eu/chat-70b"], "eu")
    assert eu.total.ranks * 3 == whole.total.ranks
    assert [each.id for each in eu.inspection.findings] == [
        each.id for each in whole.inspection.findings if "eu/chat-70b" in each.pools
    ]
    assert {outcome.subject for outcome in eu.inspection.outcomes} == {"eu/chat-70b", "fleet"}


def test_a_finding_that_spans_clusters_is_on_the_replicas_of_the_cluster_only(whole: Fleet) -> None:
    first, *rest = whole.inspection.findings
    every = tuple(each.id for each in whole.replicas)
    spanning = replace(first, replicas=every, pools=tuple(each.name for each in whole.pools))
    fleet = replace(whole, inspection=replace(whole.inspection, findings=(spanning, *rest)))
    found = only_cluster(fleet, "us").inspection.findings[0]

    assert (found.id, found.pools) == (spanning.id, ("us/chat-70b",))
    assert set(found.replicas) == {each.id for each in whole.replicas if each.labels["cluster"] == "us"}
    assert {replica for row in found.evidence for replica in row.replicas} <= set(found.replicas)


def test_an_unknown_cluster_has_no_replicas(whole: Fleet) -> None:
    assert only_cluster(whole, "none").replicas == ()


@pytest.mark.parametrize("cluster", ["ap", "eu", "us"])
def test_the_plan_of_a_cluster_is_that_of_the_fleet_without_changes_of_other_clusters(
    whole: Fleet, cluster: str
) -> None:
    part = only_cluster(whole, cluster)
    known = {each.key: each for each in plan_of(whole).causes}

    assert {each.id for own in plan_of(part).causes for each in own.findings} == {
        each.id for each in part.inspection.findings if not each.remedy.is_wait
    }
    for own in plan_of(part).causes:
        for fix, of_fleet in zip(own.fixes, known[own.key].fixes, strict=True):
            assert fix.replicas == tuple(filter(part.by_id.get, of_fleet.replicas))
            assert fix.gained_in("") == of_fleet.gained_in(f"{cluster}/chat-70b")


def test_what_only_another_cluster_can_end_is_a_cause_without_a_fix(whole: Fleet) -> None:
    cause = next(each for each in plan_of(whole).causes if each.fixes)
    spanning = replace(cause.findings[0], pools=tuple(each.name for each in whole.pools), replicas=tuple(whole.by_id))
    fleet = replace(
        whole,
        inspection=replace(whole.inspection, findings=(spanning,)),
        plan=Plan((replace(cause, findings=(spanning,)),)),
    )
    changed = {whole.by_id[each].labels["cluster"] for each in cause.fixes[0].replicas}
    other = next(each for each in clusters_of(whole) if each not in changed)
    (own,) = plan_of(only_cluster(fleet, other)).causes

    assert (own.key, own.fixes, len(own.findings)) == (cause.key, (), 1)
