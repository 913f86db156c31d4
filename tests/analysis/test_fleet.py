"""From snapshots to a fleet: shared documents, pools and their order."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.analysis.parts import only_pool
from dashboard.fleet import Role, Snapshot
from dashboard.rules.domain import PoolDeclaration
from dashboard.rules.policy import Policy
from tests.captured import AT, INFERENCE_CONFIG, METRICS, MODELS, SERVER_INFO, VERSION, capture, snapshot
from tests.polled_fleets import OPEN, REFUSED, at, built, unreachable
from tests.sources.polling.hostile import changed_metrics


def content(fleet: Fleet) -> tuple[Any, ...]:
    """Return all that does not depend on the fleet before or on the order of the replicas."""
    decided = fleet.sharing, fleet.transfers, fleet.capacity, fleet.total
    return fleet.replicas, dict(fleet.documents), fleet.pools, fleet.inspection, *decided


def test_a_fleet_can_be_empty() -> None:
    before, polled = empty_fleet("prod"), built(generation=7)

    assert (before.name, before.generation, before.polled_at, before.replicas, before.pools) == (
        "prod",
        0,
        None,
        (),
        (),
    )
    assert (polled.generation, polled.polled_at, polled.replicas, polled.documents) == (7, AT, (), {})


def test_replicas_with_equal_settings_share_one_document_and_its_engines() -> None:
    fleet = built(at(1), at(2), at(3))
    (pool,) = fleet.pools

    assert [replica.document for replica in fleet.replicas] == [*fleet.documents] * 3
    assert fleet.replicas[0].engines is fleet.replicas[1].engines
    assert (pool.name, len(pool.cohorts)) == ("./llama", 1)
    assert pool.replicas == ("http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://10.0.0.3:8000")


def test_two_launches_of_one_command_are_one_document_and_one_cohort() -> None:
    fleet = built(at(1, "qwen3_xxhash", None), at(2, "qwen3_xxhash_again", None))

    assert len(fleet.documents) == 1
    assert fleet.pools[0].differences == ()
    assert fleet.replicas[0].identity != fleet.replicas[1].identity
    assert fleet.replicas[0].same_process == ()


def test_another_hash_algorithm_is_another_cohort_unless_the_setting_is_ignored() -> None:
    answers = capture("llama").answers
    changed = {**answers, METRICS: answers[METRICS].replace(b'hash_algo="sha256"', b'hash_algo="xxhash"')}
    snapshots = [*(at(number) for number in range(1, 5)), snapshot(changed, OPEN, target="http://10.0.0.9:8000")]
    (pool,), ignoring = built(*snapshots).pools, built(*snapshots, ignore=["cache_config.prefix_*"])

    assert [cohort.replicas[-1] for cohort in pool.cohorts] == ["http://10.0.0.4:8000", "http://10.0.0.9:8000"]
    assert [each.path for each in pool.differences] == ["cache_config.prefix_caching_hash_algo"]
    assert (ignoring.ignored, ignoring.pools[0].differences) == (("cache_config.prefix_*",), ())
    assert ignoring.pools[0].ignored == ("cache_config.prefix_caching_hash_algo",)


def test_a_replica_with_more_settings_joins_the_cohort_of_those_with_fewer() -> None:
    fleet = built(at(1), at(2), at(3, paths=None))

    assert len(fleet.documents) == 2
    assert len(fleet.pools[0].cohorts) == 1
    assert fleet.pools[0].cohorts[0].read_in_part == ("http://10.0.0.1:8000", "http://10.0.0.2:8000")


def test_replicas_are_sorted_by_pool_and_name_with_those_without_a_pool_last() -> None:
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


def test_one_pool_of_a_fleet_is_a_fleet_with_only_its_replicas_and_documents() -> None:
    fleet = built(at(1), at(2, "gemma3"), unreachable(3), unreachable(4, pool="./llama"))

    part = only_pool(fleet, "./llama")

    assert [replica.id for replica in part.replicas] == ["http://10.0.0.1:8000", "http://10.0.0.4:8000"]
    assert [pool.name for pool in part.pools] == ["./llama"]
    assert set(part.documents) == {part.replicas[0].document}
    assert only_pool(fleet, "nowhere").replicas == ()
    assert only_pool(empty_fleet("young"), "nowhere").polled_at is None


def test_one_pool_of_a_fleet_has_its_own_findings_and_the_notes_of_the_whole_fleet() -> None:
    sizes = {METRICS: changed_metrics(block_size=32)}
    odd = snapshot({**capture("llama").answers, **sizes}, OPEN, target="http://10.0.0.9:8000", labels={"pool": "b"})
    same = [at(number, labels={"pool": "a" if number < 4 else "b"}) for number in range(1, 8)]
    fleet = built(odd, *same, policy=Policy(pools={"nowhere": PoolDeclaration(), "a": PoolDeclaration()}))
    one, other = (only_pool(fleet, name).inspection for name in "ba")

    assert [list(one.domains), "RT-01" in {each.rule for each in one.findings}] == [["b"], True]
    assert list(one.findings) == [each for each in fleet.inspection.findings if each.subject == "b"]
    assert one.notes == fleet.inspection.notes != ()
    assert "RT-01" not in {each.rule for each in other.findings}


@pytest.mark.parametrize(
    ("roles", "role"),
    [(["prefill", "decode", "prefill"], Role.PREFILL), (["prefill", "decode"], Role.DECODE), (["both", ""], Role.BOTH)],
)
def test_a_pool_has_the_role_of_most_replicas_or_on_a_tie_the_first_by_name(roles: list[str], role: Role) -> None:
    fleet = built(*(at(number, labels={"pool": "p", "role": each}) for number, each in enumerate(roles)))

    assert fleet.pools[0].role is role


def test_prefill_and_decode_of_one_model_are_two_pools() -> None:
    fleet = built(*(at(number, labels={"role": role}) for number, role in enumerate(("prefill", "decode", "prefill"))))

    assert [(pool.name, len(pool.replicas)) for pool in fleet.pools] == [("./llama/decode", 1), ("./llama/prefill", 2)]


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


@settings(max_examples=settings().max_examples // 3)
@given(st.lists(st.integers(0, 40), unique=True, min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_the_order_of_replicas_and_probes_does_not_matter(numbers: list[int], random: Any) -> None:
    before = some(numbers)
    after = []
    for each in before:
        paths = list(each.probes)
        random.shuffle(paths)
        after.append(replace(each, probes={path: each.probes[path] for path in paths}))
    random.shuffle(after)

    first, second = built(*before), built(*after)

    unprobed = [[replace(replica, probes=()) for replica in each.replicas] for each in (first, second)]
    assert unprobed[0] == unprobed[1]
    assert first.documents == second.documents
    assert first.pools == second.pools


@settings(max_examples=settings().max_examples // 3)
@given(st.lists(st.integers(0, 40), unique=True, max_size=9))
def test_a_fleet_has_every_replica_each_document_is_used_and_each_member_is_in_one_cohort(numbers: list[int]) -> None:
    snapshots = some(numbers)
    fleet = built(*snapshots)
    members = [member for pool in fleet.pools for cohort in pool.cohorts for member in cohort.replicas]

    assert content(built(*snapshots)) == content(fleet), "it is reproducible"
    assert sorted(replica.id for replica in fleet.replicas) == sorted(each.target.id for each in snapshots)
    assert {replica.document for replica in fleet.replicas if replica.document} == set(fleet.documents)
    assert sorted(members) == sorted(replica.id for replica in fleet.replicas if replica.pool and replica.document)


LABELS: dict[str, Any] = {"labels": {"pool": "p"}}
LISTED = [at(1, **LABELS), at(2, **LABELS), at(3, "gemma3", **LABELS), at(4)]


@pytest.mark.parametrize(
    ("later", "more"),
    [
        (LISTED, {}),
        (LISTED[1:], {}),
        ([at(1, "qwen3_xxhash", **LABELS), *LISTED[1:]], {}),
        (LISTED, {"ignore": ["cache_config.*"]}),
    ],
)
def test_a_fleet_does_not_depend_on_the_fleet_before(later: list[Snapshot], more: dict[str, Any]) -> None:
    first = built(*LISTED)

    assert content(built(*later, before=first, **more)) == content(built(*later, letters=first.letters, **more))


def moved(snapshots: Sequence[Snapshot], seconds: Sequence[int]) -> list[Snapshot]:
    """Return snapshots with the times of later answers."""
    return [
        replace(
            each,
            probes={
                path: replace(result, observed_at=result.observed_at + timedelta(seconds=later))
                for path, result in each.probes.items()
            },
        )
        for each, later in zip(snapshots, seconds, strict=True)
    ]


def restarted(each: Snapshot) -> Snapshot:
    """Return a snapshot whose process started later, with the same answers otherwise."""
    probes = {
        path: replace(result, reply=replace(result.reply, started_at=AT)) if result.reply else result
        for path, result in each.probes.items()
    }
    return replace(each, probes=probes)


CHANGES: dict[str, Any] = {
    "restart": restarted,
    "time": lambda each: each,
    "target is stale": lambda each: replace(each, target=replace(each.target, stale=not each.target.stale)),
    "label": lambda each: replace(each, target=replace(each.target, labels={**each.target.labels, "zone": "z"})),
    "copy": lambda each: replace(each, same_digest_as="http://10.0.0.99:8000"),
    "failure": lambda each: replace(
        each, probes={path: replace(result, failure=REFUSED) for path, result in each.probes.items()}
    ),
    "answers": lambda each: replace(each, probes=at(1, "qwen3_xxhash").probes),
    "path": lambda each: replace(each, probes=dict(list(each.probes.items())[1:])),
}


@given(
    st.lists(st.integers(0, 20), unique=True, max_size=7),
    st.lists(
        st.tuples(st.integers(0, 20), st.sampled_from(sorted(CHANGES)), st.sampled_from((0, 15, 600))),
        unique_by=lambda each: each[0],
        max_size=7,
    ),
)
def test_no_poll_depends_on_the_one_before(first: list[int], then: list[tuple[int, str, int]]) -> None:
    before = built(*some(first))
    changed = [CHANGES[what](each) for each, (_, what, _) in zip(some([n for n, *_ in then]), then, strict=True)]
    later = moved(changed, [seconds for *_, seconds in then])
    more = {"polled_at": AT + timedelta(seconds=600)}

    assert content(built(*later, before=before, **more)) == content(built(*later, letters=before.letters, **more))


def test_a_replica_that_was_not_read_since_is_kept_and_a_later_answer_changes_times_only() -> None:
    first = built(*LISTED)
    again = built(*LISTED, before=first)
    (*_, last) = built(*moved(LISTED, [0, 0, 15, 0]), before=first).replicas

    assert all(now is then for now, then in zip(again.replicas, first.replicas, strict=True))
    assert last.observed_at == AT + timedelta(seconds=15)
    assert replace(last, observed_at=AT, probes=first.replicas[-1].probes) == first.replicas[-1]


def test_the_first_poll_has_findings_and_equal_pools_of_the_fleet_before_are_reused() -> None:
    first = built(*LISTED, before=empty_fleet("prod"))

    assert first.inspection == built(*LISTED).inspection
    assert first.inspection.outcomes
    again = built(*LISTED, before=first)

    assert again.pools[0] is first.pools[0]
    assert all(again.sharing[name] is verdict for name, verdict in first.sharing.items())
    assert all(again.capacity[name] is held for name, held in first.capacity.items())


def test_a_replica_with_equal_settings_and_other_engines_is_summed_up_anew() -> None:
    first = built(*LISTED)
    fewer = {METRICS: changed_metrics(num_gpu_blocks=100)}
    changed = snapshot({**capture("llama").answers, **fewer}, OPEN, target=LISTED[0].target.id, **LABELS)
    then = built(changed, *LISTED[1:], before=first)

    assert then.pools == first.pools
    assert (then.capacity["p"], then.total) != (first.capacity["p"], first.total)
    assert then.total == built(changed, *LISTED[1:]).total
