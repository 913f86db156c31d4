"""A pool, compared: examples of each rule, and the laws that hold for every pool."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import PREFIX_PATHS, Member, compare_pool
from dashboard.compare.encoding import encode, is_comparable, lookup_setting
from dashboard.fleet import Difference, Distinction, Document, Pool, Role, SettingValue, Source, State, ValueCount
from tests.compare.pools import compared, document, fleets, pool_of, setting

Fleet = tuple[list[Member], dict[str, Document]]

HASH, BLOCK = "cache_config.prefix_caching_hash_algo", "cache_config.block_size"
EXAMPLE: tuple[tuple[int, dict[str, Any]], ...] = (
    (15, {"version": "0.32.0", HASH: "sha256_cbor", BLOCK: 16, "seed": 0}),
    (1, {"version": "0.32.0", HASH: "xxhash", BLOCK: 16, "seed": 0}),
    (2, {"version": "0.32.0", HASH: "sha256_cbor", BLOCK: 32, "seed": 0}),
)


def only(pool: Pool) -> Difference:
    (difference,) = pool.differences
    return difference


def test_cohorts_are_lettered_by_size_and_name_what_tells_them_apart() -> None:
    pool, _ = pool_of(*EXAMPLE)

    assert [(cohort.letter, len(cohort.replicas)) for cohort in pool.cohorts] == [("A", 15), ("B", 2), ("C", 1)]
    assert [cohort.distinguishing for cohort in pool.cohorts] == [
        (Distinction(HASH, '"sha256_cbor"', State.REPORTED), Distinction(BLOCK, "16", State.REPORTED)),
        (Distinction(BLOCK, "32", State.REPORTED),),
        (Distinction(HASH, '"xxhash"', State.REPORTED),),
    ]


def test_differences_say_the_majority_and_every_value_with_its_cohorts() -> None:
    pool, _ = pool_of(*EXAMPLE)

    assert [difference.path for difference in pool.differences] == [HASH, BLOCK]
    assert pool.differences[1].majority == SettingValue("16", State.REPORTED)
    assert pool.differences[1].values == (
        ValueCount("16", State.REPORTED, 16, ("A", "C")),
        ValueCount("32", State.REPORTED, 2, ("B",)),
    )
    assert (pool.equal, pool.identity, pool.fresh, pool.majority_document) == (2, 41, 18, "d0")


def test_settings_that_decide_prefix_sharing_come_first_then_the_smallest_minority() -> None:
    pool, _ = pool_of(
        (8, {"b": 1, "a": 1, "c": 1, BLOCK: 1}),
        (1, {"b": 2, "a": 1, "c": 1, BLOCK: 1}),
        (3, {"b": 1, "a": 2, "c": 2, BLOCK: 2}),
    )

    assert [difference.path for difference in pool.differences] == [BLOCK, "b", "a", "c"]


def test_two_against_two_is_a_tie() -> None:
    pool, _ = pool_of((2, {"seed": 0}), (2, {"seed": 1}))

    assert only(pool).majority is None
    assert pool.majority_document is None


def test_three_against_three_is_a_tie() -> None:
    assert only(pool_of((3, {"seed": 0}), (3, {"seed": 1}))[0]).majority is None


@pytest.mark.parametrize(("holders", "majority"), [(1, None), (2, SettingValue("0", State.REPORTED))])
def test_a_majority_is_more_than_half_of_at_least_three_replicas(holders: int, majority: SettingValue | None) -> None:
    assert only(pool_of((holders, {"seed": 0}), (1, {"seed": 1}))[0]).majority == majority


def test_the_majority_is_of_replicas_not_of_documents() -> None:
    pool, _ = pool_of((5, {"seed": 0, "x": 0}), (1, {"seed": 1, "x": 0}), (1, {"seed": 1, "x": 1}))

    assert {difference.majority for difference in pool.differences} == {SettingValue("0", State.REPORTED)}


def test_null_is_a_value_that_differs_and_can_be_the_majority() -> None:
    pool, _ = pool_of((3, {"cache_config.kv_offloading_size": None}), (1, {"cache_config.kv_offloading_size": 64}))

    assert only(pool).majority == SettingValue("null", State.NULL)


@pytest.mark.parametrize("state", [State.UNKNOWN, State.REDACTED])
def test_what_is_not_known_contradicts_nothing_and_does_not_vote(state: State) -> None:
    pool, _ = pool_of((3, {"seed": 0}), (5, {"seed": state}))

    assert pool.differences == ()
    assert [cohort.letter for cohort in pool.cohorts] == ["A"]


def test_values_say_why_replicas_have_none() -> None:
    documents = {
        "old": document("old", {"seed": 1, "x": 1}, version="0.12.0"),
        "new": document("new", {"seed": 2, "x": 2, "late": 1}, version="0.32.0"),
        "also": document("also", {"seed": 3, "x": 3, "late": 2}, version="0.32.0"),
        "mute": document("mute", {"seed": 4, "x": 4, "late": State.REDACTED}),
        "part": document("part", {"seed": 5, "x": 5}),
    }
    members = [Member(key, key, fresh=True, identity=0) for key in documents]
    members += [Member(f"part-{number}", "part", fresh=True, identity=0) for number in range(2)]
    pool = compare_pool("p", Role.BOTH, members, documents, unsupported=lambda version, _: version == "0.12.0")
    late = next(difference for difference in pool.differences if difference.path == "late")

    assert {(value.value, value.state, value.count) for value in late.values} == {
        ("1", State.REPORTED, 1),
        ("2", State.REPORTED, 1),
        ("null", State.REDACTED, 1),
        ("null", State.ABSENT, 3),
        ("null", State.UNSUPPORTED, 1),
    }
    assert [value.state for value in late.values[:2]] == [State.REPORTED, State.REPORTED]


def test_a_replica_that_says_less_is_read_in_part() -> None:
    pool, _ = pool_of((2, {"seed": 0, "x": 1}), (1, {"seed": 0}))
    (cohort,) = pool.cohorts

    assert cohort.read_in_part == ("http://1-0:80",)
    assert (cohort.document, cohort.documents) == ("d0", ("d0", "d1"))
    assert set(cohort.settings) == {"seed", "x"}
    assert cohort.held["http://1-0:80"] == "d1"


def test_a_cohort_tells_what_its_members_tell_together() -> None:
    pool, _ = pool_of((1, {"a": 1, "b": 1, "c": State.UNKNOWN}), (1, {"a": 1, "c": 3}))
    (cohort,) = pool.cohorts

    assert {path: setting.value for path, setting in cohort.settings.items()} == {"a": "1", "b": "1", "c": "3"}
    assert set(cohort.read_in_part) == {"http://0-0:80", "http://1-0:80"}


def test_of_equal_values_the_most_completely_read_document_names_the_source() -> None:
    documents = {
        "a": Document("a", None, {"x": setting(1, Source.METRICS)}),
        "b": Document("b", None, {"x": setting(1, Source.SERVER_INFO), "y": setting(1, Source.SERVER_INFO)}),
    }
    members = [Member(key, key, fresh=True, identity=0) for key in documents]
    (cohort,) = compare_pool("p", Role.BOTH, members, documents).cohorts

    assert cohort.settings["x"].source is Source.SERVER_INFO


def test_a_null_section_differs_from_its_leaves_and_is_no_row_of_its_own() -> None:
    pool, _ = pool_of((3, {"lora_config": None}), (1, {"lora_config.max_loras": 4}))

    assert only(pool).path == "lora_config.max_loras"
    assert only(pool).majority == SettingValue("null", State.NULL)
    assert pool.equal == 0


def test_ignored_paths_that_would_differ_are_listed_and_split_no_cohort() -> None:
    pool, _ = pool_of((3, {"a.b": 1, "a.c": 1, "x": 1}), (1, {"a.b": 2, "a.c": 1, "x": 1}), ignore=["a.*", "nothing"])

    assert (pool.ignored, pool.differences, pool.equal) == (("a.b",), (), 2)
    assert [cohort.letter for cohort in pool.cohorts] == ["A"]


def test_what_only_one_replica_tells_is_not_called_equal() -> None:
    pool, _ = pool_of((1, {"x": 1, "y": 1}), (1, {"x": 1}))

    assert pool.equal == 1


def test_stale_replicas_stand_in_cohorts_but_make_no_difference() -> None:
    documents = {"a": document("a", {"seed": 0}), "b": document("b", {"seed": 1})}
    members = [
        *(Member(f"a{number}", "a", fresh=True, identity=0) for number in range(3)),
        Member("b0", "b", fresh=False, identity=0),
    ]
    pool = compare_pool("p", Role.BOTH, members, documents)

    assert (pool.differences, pool.equal, pool.fresh) == ((), 1, 3)
    assert [cohort.replicas for cohort in pool.cohorts] == [("a0", "a1", "a2"), ("b0",)]


def test_when_all_are_stale_the_last_documents_are_compared_without_a_majority() -> None:
    documents = {"a": document("a", {"seed": 0, "x": 0}), "b": document("b", {"seed": 1, "x": 0})}
    members = [Member(f"{number}", "a" if number else "b", fresh=False, identity=0) for number in range(4)]
    pool = compare_pool("p", Role.BOTH, members, documents)

    assert only(pool).majority is None
    assert [value.count for value in only(pool).values] == [0, 0]
    assert (pool.equal, pool.majority_document) == (1, None)


def test_replicas_never_read_belong_to_no_cohort() -> None:
    pool = compare_pool("p", Role.PREFILL, [Member("x", None, fresh=False, identity=0)], {})

    assert (pool.replicas, pool.cohorts, pool.differences, pool.equal) == (("x",), (), (), 0)
    assert (pool.name, pool.role, pool.majority_document, pool.identity) == ("p", Role.PREFILL, None, 0)


def test_a_pool_of_nobody_is_empty() -> None:
    assert compare_pool("p", Role.BOTH, [], {}).replicas == ()


@given(fleets(), st.randoms(use_true_random=False))
def test_the_order_of_members_and_documents_changes_nothing(fleet: Fleet, random: Any) -> None:
    members, documents = fleet
    keys = list(documents)
    random.shuffle(keys)
    shuffled = random.sample(members, len(members))

    assert compared((shuffled, {key: documents[key] for key in keys})) == compared(fleet)


@given(fleets())
def test_every_replica_with_a_document_is_in_exactly_one_cohort(fleet: Fleet) -> None:
    pool = compared(fleet)
    placed = [(replica, key) for cohort in pool.cohorts for replica, key in cohort.held.items()]

    assert sorted(placed) == sorted((member.id, member.document) for member in fleet[0] if member.document)
    assert all(cohort.replicas == tuple(sorted(cohort.held)) for cohort in pool.cohorts)
    assert all(set(cohort.documents) == set(cohort.held.values()) for cohort in pool.cohorts)


def contradict(one: Document, other: Document, paths: tuple[str, ...]) -> bool:
    pairs = [(lookup_setting(one.settings, path), lookup_setting(other.settings, path)) for path in paths]
    return any(a and b and is_comparable(a.state) and is_comparable(b.state) and a[:2] != b[:2] for a, b in pairs)


@given(fleets())
def test_members_of_a_cohort_do_not_contradict_each_other_and_cohorts_do(fleet: Fleet) -> None:
    pool, documents = compared(fleet), fleet[1]
    paths = encode([document.settings for document in documents.values()]).paths

    for cohort in pool.cohorts:
        for one, other in combinations(cohort.documents, 2):
            assert not contradict(documents[one], documents[other], paths)
    for first, second in combinations(pool.cohorts, 2):
        pairs = [(documents[one], documents[other]) for one in first.documents for other in second.documents]
        assert any(contradict(one, other, paths) for one, other in pairs)


@given(fleets())
def test_what_distinguishes_a_cohort_tells_it_from_every_other(fleet: Fleet) -> None:
    pool = compared(fleet)

    for cohort in pool.cohorts:
        for other in pool.cohorts:
            told = {path: lookup_setting(other.settings, path) for path, *_ in cohort.distinguishing}
            differing = [
                path
                for path, *value in cohort.distinguishing
                if (setting := told[path]) and is_comparable(setting.state) and [*setting[:2]] != value
            ]
            assert bool(differing) == (other is not cohort)


@given(fleets())
def test_a_fleet_that_doubles_itself_keeps_its_differences(fleet: Fleet) -> None:
    members, documents = fleet
    twins = [member._replace(id=f"{member.id}/twin") for member in members]
    single, double = compared(fleet), compared(([*members, *twins], documents))

    assert [cohort.documents for cohort in single.cohorts] == [cohort.documents for cohort in double.cohorts]
    assert [cohort.distinguishing for cohort in single.cohorts] == [cohort.distinguishing for cohort in double.cohorts]
    assert [difference.path for difference in single.differences] == [item.path for item in double.differences]


@given(fleets())
def test_one_more_replica_like_another_brings_no_difference(fleet: Fleet) -> None:
    members, documents = fleet
    fresh = [member for member in members if member.fresh]
    more = [member._replace(id="http://new:80") for member in fresh[:1]]

    before, after = compared(fleet), compared(([*members, *more], documents))
    assert {difference.path for difference in before.differences} == {item.path for item in after.differences}
    assert before.equal <= after.equal


@given(fleets())
def test_a_fleet_of_one_document_has_no_difference(fleet: Fleet) -> None:
    members, documents = fleet
    same = [member._replace(document="d0" if documents else None) for member in members]
    pool = compared((same, documents))

    assert (pool.differences, pool.ignored) == ((), ())
    assert len(pool.cohorts) == bool(documents)


@given(fleets())
def test_ignoring_everything_leaves_one_cohort_and_lists_what_differed(fleet: Fleet) -> None:
    pool, plain = compared(fleet, ignore=["*"]), compared(fleet)

    assert pool.differences == ()
    assert len(pool.cohorts) <= 1
    assert {difference.path for difference in plain.differences} <= set(pool.ignored)
    assert pool.equal <= plain.equal


@given(fleets())
def test_counts_of_a_difference_add_up_to_the_fresh_replicas_that_were_read(fleet: Fleet) -> None:
    pool = compared(fleet)
    read = sum(member.fresh for member in fleet[0] if member.document)

    for difference in pool.differences:
        voting = [value for value in difference.values if is_comparable(value.state)]
        assert sum(value.count for value in difference.values) == read
        assert len(voting) >= 2
        assert difference.majority is None or 2 * voting[0].count > sum(value.count for value in voting)
    paths = [difference.path for difference in pool.differences]
    assert paths == sorted(paths, key=lambda path: path not in PREFIX_PATHS)
