"""On what pools of one name differ between clusters."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import compare_pool
from dashboard.compare.clusters import cluster_columns, cluster_splits
from dashboard.fleet import Pool, Replica, Role
from tests import builders

BLOCK, SEQS = "cache_config.block_size", "scheduler_config.max_num_seqs"
Clusters = Mapping[str, Sequence[Mapping[str, object]]]  # the settings of each replica of each cluster


def pools(clusters: Clusters) -> tuple[Pool, list[Pool]]:
    """Return all replicas as one pool, and the pool of each cluster."""
    documents, members = {}, dict[str, list[Replica]]()
    for cluster, replicas in clusters.items():
        for number, settings in enumerate(replicas):
            document = builders.document(settings, base={})
            documents[document.id] = document
            one = builders.replica(f"{cluster}-{number}", pool=f"{cluster}/chat", document=document)
            members.setdefault(cluster, []).append(one)
    each = [
        replace(compare_pool(f"{cluster}/chat", Role.BOTH, own, documents), cluster=cluster)
        for cluster, own in members.items()
    ]
    whole = compare_pool("chat", Role.BOTH, [one for own in members.values() for one in own], documents)
    return whole, each


def splits(clusters: Clusters) -> list[tuple[tuple[str, ...], tuple[str, ...], dict[str, tuple[str, str]]]]:
    return [
        (split.clusters, split.others, {each.path: (each.before.value, each.after.value) for each in split.settings})
        for split in cluster_splits(*pools(clusters))
    ]


def test_the_clusters_with_other_values_are_together_with_all_of_these() -> None:
    usual, other = {BLOCK: 16, SEQS: 256}, {BLOCK: 32, SEQS: 128}
    assert splits({"ap": [other] * 2, "eu": [usual] * 2, "us": [usual]}) == [
        (("ap",), ("eu", "us"), {BLOCK: ("16", "32"), SEQS: ("256", "128")})
    ]


def test_one_odd_replica_does_not_hide_that_its_cluster_differs() -> None:
    found = splits({"ap": [{BLOCK: 32}] * 3 + [{BLOCK: 64}], "eu": [{BLOCK: 16}] * 3})
    assert found == [(("eu",), ("ap",), {BLOCK: ("32", "16")})]


def test_a_cluster_without_a_majority_and_one_that_reports_nothing_have_no_value() -> None:
    assert splits({"ap": [{BLOCK: 32}, {BLOCK: 16}], "eu": [{BLOCK: 16}] * 2}) == []
    assert splits({"ap": [{SEQS: 1}], "eu": [{SEQS: 1, BLOCK: 16}]}) == []


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.lists(st.integers(1, 3), min_size=1, max_size=5)))
def test_clusters_with_one_value_differ_exactly_where_the_values_do(values: dict[str, list[int]]) -> None:
    uniform = {cluster: [{BLOCK: each[0]}] * len(each) for cluster, each in values.items()}
    if not uniform:
        return
    found = splits(uniform)
    distinct = {each[0] for each in values.values()}
    assert len(found) == len(distinct) - 1
    for own, others, changes in found:
        assert {values[each][0] for each in own} == {int(changes[BLOCK][1])}
        assert {values[each][0] for each in others} == {int(changes[BLOCK][0])}
        assert len(others) >= len(own)


def test_a_column_is_a_cohort_of_a_cluster_with_its_replicas() -> None:
    whole, own = pools({"ap": [{BLOCK: 32}] * 2 + [{BLOCK: 16}], "eu": [{BLOCK: 16}]})
    columns = cluster_columns(own, {each: builders.document({}) for pool in own for each in pool.documents})
    assert [(each.key, each.title) for each in columns] == [
        ("ap/chat A", "ap A ×2"),
        ("ap/chat B", "ap B ×1"),
        ("eu/chat A", "eu A ×1"),
    ]
    assert {replica for each in columns for replica in each.replicas} == set(whole.replicas)
