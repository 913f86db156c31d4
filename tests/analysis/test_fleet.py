"""From snapshots to a fleet: what many replicas share, in which pools, and that their order means nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet, empty_fleet, only_pool
from dashboard.fleet import Role, Snapshot
from dashboard.rules.domain import Declared
from dashboard.rules.policy import Policy
from tests.captured import AT, INFERENCE_CONFIG, METRICS, MODELS, SERVER_INFO, VERSION, capture, snapshot
from tests.polled_fleets import OPEN, at, built, unreachable
from tests.sources.polling.hostile import changed_metrics


def told(fleet: Fleet) -> tuple[Any, ...]:
    """All that the order of the replicas must not change; cohorts by what they hold."""
    return (
        fleet.replicas,
        dict(fleet.documents),
        fleet.pools,
    )


def test_before_the_first_poll_there_is_an_empty_fleet() -> None:
    fleet = empty_fleet("prod")

    assert (fleet.name, fleet.generation, fleet.polled_at, fleet.replicas, fleet.pools) == ("prod", 0, None, (), ())


def test_a_poll_of_nobody_is_a_fleet_too() -> None:
    fleet = built(generation=7)

    assert (fleet.generation, fleet.polled_at, fleet.replicas, fleet.documents) == (7, AT, (), {})


def test_replicas_that_say_the_same_share_one_document_and_its_engines() -> None:
    fleet = built(at(1), at(2), at(3))

    assert len(fleet.documents) == 1
    assert {replica.document for replica in fleet.replicas} == set(fleet.documents)
    assert fleet.replicas[0].engines is fleet.replicas[1].engines
    assert [pool.name for pool in fleet.pools] == ["./llama"]
    assert fleet.pools[0].replicas == ("http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://10.0.0.3:8000")
    assert len(fleet.pools[0].cohorts) == 1


def test_two_launches_of_one_command_are_one_document_and_one_cohort() -> None:
    """They differ in their instance ids, start times and ports."""
    fleet = built(at(1, "qwen3_xxhash", None), at(2, "qwen3_xxhash_again", None))

    assert len(fleet.documents) == 1
    assert fleet.pools[0].differences == ()
    assert fleet.replicas[0].identity != fleet.replicas[1].identity
    assert fleet.replicas[0].same_process == ()


def test_another_hash_algorithm_is_another_cohort() -> None:
    answers = capture("llama").answers
    changed = {**answers, METRICS: answers[METRICS].replace(b'hash_algo="sha256"', b'hash_algo="xxhash"')}

    fleet = built(*(at(number) for number in range(1, 5)), snapshot(changed, OPEN, target="http://10.0.0.9:8000"))

    assert [cohort.replicas[-1] for cohort in fleet.pools[0].cohorts] == [
        "http://10.0.0.4:8000",
        "http://10.0.0.9:8000",
    ]
    assert [each.path for each in fleet.pools[0].differences] == ["cache_config.prefix_caching_hash_algo"]


def test_a_setting_that_is_ignored_is_no_difference() -> None:
    answers = capture("llama").answers
    changed = {**answers, METRICS: answers[METRICS].replace(b'hash_algo="sha256"', b'hash_algo="xxhash"')}

    fleet = built(
        at(1), at(2), at(3), snapshot(changed, OPEN, target="http://10.0.0.9:8000"), ignore=["cache_config.prefix_*"]
    )

    assert fleet.ignored == ("cache_config.prefix_*",)
    assert fleet.pools[0].differences == ()
    assert fleet.pools[0].ignored == ("cache_config.prefix_caching_hash_algo",)


def test_a_replica_that_answers_more_joins_those_that_answer_less() -> None:
    fleet = built(at(1), at(2), at(3, paths=None))

    assert len(fleet.documents) == 2
    assert len(fleet.pools[0].cohorts) == 1
    assert fleet.pools[0].cohorts[0].read_in_part == ("http://10.0.0.1:8000", "http://10.0.0.2:8000")


def test_replicas_are_ordered_by_pool_then_name_and_those_of_no_pool_come_last() -> None:
    named = [
        at(number, labels={"pool": pool, "name": name})
        for number, pool, name in ((1, "b", "x"), (2, "a", "z"), (3, "a", "y"))
    ]

    fleet = built(unreachable(9), *named)

    assert [(replica.pool, replica.name) for replica in fleet.replicas] == [
        ("a", "y"),
        ("a", "z"),
        ("b", "x"),
        (None, "10.0.0.9:8000"),
    ]
    assert [pool.name for pool in fleet.pools] == ["a", "b"]


def test_one_pool_of_a_fleet_is_a_fleet_with_its_replicas_and_documents_alone() -> None:
    fleet = built(at(1), at(2, "gemma3"), unreachable(3), unreachable(4, pool="./llama"))

    part = only_pool(fleet, "./llama")

    assert [replica.id for replica in part.replicas] == ["http://10.0.0.1:8000", "http://10.0.0.4:8000"]
    assert [pool.name for pool in part.pools] == ["./llama"]
    assert list(part.documents) == [part.replicas[0].document]
    assert only_pool(fleet, "nowhere").replicas == ()
    assert only_pool(empty_fleet("young"), "nowhere").polled_at is None


def test_one_pool_of_a_fleet_is_judged_alone_and_keeps_the_notes_on_the_whole_fleet() -> None:
    sizes = {METRICS: changed_metrics(block_size=32)}
    odd = snapshot({**capture("llama").answers, **sizes}, OPEN, target="http://10.0.0.9:8000", labels={"pool": "b"})
    same = [at(number, labels={"pool": "a" if number < 4 else "b"}) for number in range(1, 8)]
    fleet = built(odd, *same, policy=Policy(pools={"nowhere": Declared(), "a": Declared()}))

    part = only_pool(fleet, "b")

    assert any(finding.rule == "RT-01" for finding in part.inspection.findings)
    assert list(part.inspection.findings) == [each for each in fleet.inspection.findings if each.subject == "b"]
    assert list(part.inspection.domains) == ["b"]
    assert part.inspection.notes == fleet.inspection.notes != ()
    assert not any(each.rule == "RT-01" for each in only_pool(fleet, "a").inspection.findings)


@pytest.mark.parametrize(
    ("roles", "role"),
    [(["prefill", "decode", "prefill"], Role.PREFILL), (["prefill", "decode"], Role.DECODE), (["both", ""], Role.BOTH)],
)
def test_a_pool_has_the_role_of_most_of_its_replicas_on_a_tie_the_first_by_name(roles: list[str], role: Role) -> None:
    fleet = built(*(at(number, labels={"pool": "p", "role": each}) for number, each in enumerate(roles)))

    assert fleet.pools[0].role is role


def test_prefill_and_decode_of_one_model_are_two_pools() -> None:
    fleet = built(*(at(number, labels={"role": role}) for number, role in enumerate(("prefill", "decode", "prefill"))))

    assert [(pool.name, len(pool.replicas)) for pool in fleet.pools] == [("./llama/decode", 1), ("./llama/prefill", 2)]


# Laws


def some(numbers: Sequence[int]) -> list[Snapshot]:
    cases = ["llama", "gemma3", "llama_dp2", "gemma3_plugin", "qwen3_xxhash", "llama_apikey", "llama_noprefix"]
    ways = [OPEN, None, (METRICS,), (INFERENCE_CONFIG, VERSION), (SERVER_INFO, MODELS)]
    shared = {"pool": "one"}
    return [
        unreachable(number, pool="one")
        if number % 8 == 7
        else at(number, cases[number % 7], ways[number % 5], labels=shared if number % 2 else {})
        for number in numbers
    ]


@settings(max_examples=25)
@given(st.lists(st.integers(0, 40), unique=True, min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_the_order_of_the_replicas_and_of_their_probes_changes_nothing(numbers: list[int], random: Any) -> None:
    before = some(numbers)
    after = []
    for each in before:
        paths = list(each.probes)
        random.shuffle(paths)
        after.append(replace(each, probes={path: each.probes[path] for path in paths}))
    random.shuffle(after)

    first, second = built(*before), built(*after)

    assert [replace(replica, probes=()) for replica in first.replicas] == [
        replace(replica, probes=()) for replica in second.replicas
    ]
    assert first.documents == second.documents
    assert first.pools == second.pools


@settings(max_examples=25)
@given(st.lists(st.integers(0, 40), unique=True, max_size=9))
def test_building_twice_gives_the_same_and_loses_no_replica(numbers: list[int]) -> None:
    snapshots = some(numbers)

    first, second = built(*snapshots), built(*snapshots)

    assert len(first.replicas) == len(numbers)
    assert {replica.id for replica in first.replicas} == {each.target.id for each in snapshots}
    assert (first.replicas, first.documents, first.pools) == (second.replicas, second.documents, second.pools)


@settings(max_examples=25)
@given(st.lists(st.integers(0, 40), unique=True, min_size=1, max_size=9))
def test_every_document_is_held_and_every_replica_of_a_pool_that_was_read_is_in_one_cohort(numbers: list[int]) -> None:
    fleet = built(*some(numbers))

    held = [replica.document for replica in fleet.replicas if replica.document]
    assert set(held) == set(fleet.documents)
    members = [member for pool in fleet.pools for cohort in pool.cohorts for member in cohort.replicas]
    assert sorted(members) == sorted(replica.id for replica in fleet.replicas if replica.pool and replica.document)


def test_what_is_taken_over_from_the_fleet_before_is_what_would_be_derived_anew() -> None:
    """Whether nothing changed, one replica is gone, one came back with another configuration, or a path is ignored."""
    labels: dict[str, Any] = {"labels": {"pool": "p"}}
    listed = [at(1, **labels), at(2, **labels), at(3, "gemma3", **labels), at(4)]
    first = built(*listed)

    for later, more in (
        (listed, {}),
        (listed[1:], {}),
        ([at(1, "qwen3_xxhash", **labels), *listed[1:]], {}),
        (listed, {"ignore": ["cache_config.*"]}),
    ):
        assert told(built(*later, before=first, **more)) == told(built(*later, **more))
    assert built(*listed, before=first).pools[0] is first.pools[0]


def test_after_a_fleet_that_was_not_polled_yet_it_is_judged_as_if_there_were_none_before() -> None:
    fleet = built(at(1), before=empty_fleet("prod"))

    assert fleet.inspection == built(at(1)).inspection
    assert fleet.inspection.outcomes
