"""A compared pool: examples of cohorts, differences and values, and the laws of every pool."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import PREFIX_PATHS, compare_pool
from dashboard.compare.encoding import encode, is_comparable, lookup_setting, lookup_value
from dashboard.fleet import Difference, Document, Pool, Replica, Role, SettingValue, Source, State, ValueCount
from tests.compare.pools import compared, document, fleets, member, pool_of, pool_of_documents, setting

Fleet = tuple[list[Replica], dict[str, Document]]

HASH, BLOCK = "cache_config.prefix_caching_hash_algo", "cache_config.block_size"
UNIT = "cache_config.prefix_match_unit"  # vLLM 0.12 has no such setting
ZERO, NULL = SettingValue("0", State.REPORTED), SettingValue("null", State.NULL)
EXAMPLE: tuple[tuple[int, dict[str, Any]], ...] = (
    (15, {"version": "0.32.0", HASH: "sha256_cbor", BLOCK: 16, "seed": 0}),
    (1, {"version": "0.32.0", HASH: "xxhash", BLOCK: 16, "seed": 0}),
    (2, {"version": "0.32.0", HASH: "sha256_cbor", BLOCK: 32, "seed": 0}),
)


def reported(value: str) -> SettingValue:
    return SettingValue(value, State.REPORTED)


def only(pool: Pool) -> Difference:
    (difference,) = pool.differences
    return difference


def test_cohorts_have_letters_by_size_and_the_settings_that_distinguish_them() -> None:
    pool, _ = pool_of(*EXAMPLE)

    assert [(cohort.letter, len(cohort.replicas)) for cohort in pool.cohorts] == [("A", 15), ("B", 2), ("C", 1)]
    assert [cohort.distinguishing for cohort in pool.cohorts] == [
        {HASH: reported('"sha256_cbor"'), BLOCK: reported("16")},
        {BLOCK: reported("32")},
        {HASH: reported('"xxhash"')},
    ]


def test_a_difference_has_the_majority_and_every_value_with_its_cohorts() -> None:
    pool, _ = pool_of(*EXAMPLE)

    assert [difference.path for difference in pool.differences] == [HASH, BLOCK]
    assert pool.differences[1] == Difference(
        BLOCK,
        reported("16"),
        (ValueCount("16", State.REPORTED, 16, ("A", "C")), ValueCount("32", State.REPORTED, 2, ("B",))),
    )
    assert (pool.equal, pool.identity, pool.fresh, pool.majority_document) == (2, 41, 18, "d0")


def test_settings_that_decide_prefix_sharing_are_first_then_the_smallest_minority() -> None:
    base = {"b": 1, "a": 1, "c": 1, BLOCK: 1}
    pool, _ = pool_of((8, base), (1, {**base, "b": 2}), (3, {**base, "a": 2, "c": 2, BLOCK: 2}))

    assert [difference.path for difference in pool.differences] == [BLOCK, "b", "a", "c"]


@pytest.mark.parametrize(
    ("holders", "majority"),
    [
        (((1, 0), (1, 1)), None),
        (((2, 0), (1, 1)), ZERO),
        (((2, 0), (2, 1)), None),
        (((3, 0), (3, 1)), None),
        (((3, None), (1, 64)), NULL),
    ],
)
def test_a_majority_is_more_than_half_of_at_least_three_replicas(
    holders: tuple[tuple[int, Any], ...], majority: SettingValue | None
) -> None:
    pool, _ = pool_of(*((count, {"seed": value}) for count, value in holders))

    assert only(pool).majority == majority
    assert (pool.majority_document is None) == (majority is None)


def test_the_majority_counts_replicas_not_documents() -> None:
    pool, _ = pool_of((5, {"seed": 0, "x": 0}), (1, {"seed": 1, "x": 0}), (1, {"seed": 1, "x": 1}))

    assert {difference.majority for difference in pool.differences} == {ZERO}


@pytest.mark.parametrize("state", [State.UNKNOWN, State.REDACTED])
def test_a_setting_without_a_value_contradicts_nothing_and_has_no_vote(state: State) -> None:
    pool, _ = pool_of((3, {"seed": 0}), (5, {"seed": state}))

    assert pool.differences == ()
    assert [cohort.letter for cohort in pool.cohorts] == ["A"]


def test_a_difference_counts_the_replicas_without_a_value_by_reason() -> None:
    documents = {
        "old": document("old", {"x": 1}, version="0.12.0"),
        "new": document("new", {"x": 2, UNIT: 1}),
        "also": document("also", {"x": 3, UNIT: 2}),
        "redacted": document("redacted", {"x": 4, UNIT: State.REDACTED}),
        "partial": document("partial", {"x": 5}),
    }
    first = pool_of_documents(documents).differences[0]

    assert [(value.value, value.state, value.count) for value in first.values[:2]] == [
        ("1", State.REPORTED, 1),
        ("2", State.REPORTED, 1),
    ]
    assert {value.state for value in first.values[2:]} == {State.REDACTED, State.ABSENT, State.UNSUPPORTED}


def test_a_cohort_has_all_settings_of_its_members_and_names_incomplete_ones() -> None:
    pool, _ = pool_of((1, {"a": 1, "b": 1, "c": State.UNKNOWN}), (1, {"a": 1, "c": 3}), (1, {"a": 1, "b": 1, "c": 3}))
    (cohort,) = pool.cohorts

    assert {path: setting.value for path, setting in cohort.settings.items()} == {"a": "1", "b": "1", "c": "3"}
    assert (cohort.document, cohort.documents) == ("d2", ("d2", "d0", "d1"))
    assert cohort.read_in_part == ("http://0-0:80", "http://1-0:80")
    assert cohort.documents_by_replica["http://1-0:80"] == "d1"


def test_the_most_complete_document_names_the_source_of_a_shared_value() -> None:
    documents = {
        "a": Document("a", None, {"x": setting(1, Source.METRICS)}),
        "b": Document("b", None, {"x": setting(1, Source.SERVER_INFO), "y": setting(1, Source.SERVER_INFO)}),
    }

    assert pool_of_documents(documents).cohorts[0].settings["x"].source is Source.SERVER_INFO


def test_a_null_section_differs_from_its_leaves_and_is_no_difference_itself() -> None:
    pool, _ = pool_of((3, {"lora_config": None}), (1, {"lora_config.max_loras": 4}))

    assert (only(pool).path, only(pool).majority, pool.equal) == ("lora_config.max_loras", NULL, 0)


def test_ignored_paths_that_would_differ_are_listed_and_split_no_cohort() -> None:
    pool, _ = pool_of((3, {"a.b": 1, "a.c": 1, "x": 1}), (1, {"a.b": 2, "a.c": 1, "x": 1}), ignore=["a.*", "nothing"])

    assert (pool.ignored, pool.differences, pool.equal) == (("a.b",), (), 2)
    assert [cohort.letter for cohort in pool.cohorts] == ["A"]


def test_a_setting_of_one_replica_only_is_not_counted_as_equal() -> None:
    assert pool_of((1, {"x": 1, "y": 1}), (1, {"x": 1}))[0].equal == 1


def test_stale_replicas_are_in_cohorts_but_make_no_difference() -> None:
    documents = {**{f"a{number}": document("a", {"seed": 0}) for number in range(2)}, "b": document("b", {"seed": 1})}
    pool = pool_of_documents(documents, stale=["b"])

    assert (pool.differences, pool.equal, pool.fresh) == ((), 1, 2)
    assert [cohort.replicas for cohort in pool.cohorts] == [("a0", "a1"), ("b",)]


def test_last_documents_are_compared_without_a_majority_where_all_replicas_are_stale() -> None:
    documents = {"a": document("a", {"seed": 0, "x": 0}), "b": document("b", {"seed": 1, "x": 0})}
    pool = pool_of_documents(documents, stale=["a", "b"])

    assert only(pool).majority is None
    assert [value.count for value in only(pool).values] == [0, 0]
    assert (pool.equal, pool.majority_document) == (1, None)


def test_replicas_without_a_document_are_in_no_cohort() -> None:
    pool = compare_pool("p", Role.PREFILL, [member("x", None, fresh=False)], {})

    assert (pool.name, pool.role, pool.replicas, pool.identity) == ("p", Role.PREFILL, ("x",), 0)
    assert (pool.cohorts, pool.differences, pool.equal, pool.majority_document) == ((), (), 0, None)
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
    placed = [(replica, key) for cohort in pool.cohorts for replica, key in cohort.documents_by_replica.items()]

    assert sorted(placed) == sorted((member.id, member.document) for member in fleet[0] if member.document)
    assert all(cohort.replicas == tuple(sorted(cohort.documents_by_replica)) for cohort in pool.cohorts)
    assert all(set(cohort.documents) == set(cohort.documents_by_replica.values()) for cohort in pool.cohorts)


def contradict(one: Document, other: Document, paths: tuple[str, ...]) -> bool:
    pairs = [(lookup_setting(one.settings, path), lookup_setting(other.settings, path)) for path in paths]
    return any(a and b and is_comparable(a.state) and is_comparable(b.state) and a[:2] != b[:2] for a, b in pairs)


@given(fleets())
def test_only_documents_of_different_cohorts_contradict_each_other(fleet: Fleet) -> None:
    pool, documents = compared(fleet), fleet[1]
    paths = encode([document.settings for document in documents.values()]).paths

    for cohort in pool.cohorts:
        for one, other in combinations(cohort.documents, 2):
            assert not contradict(documents[one], documents[other], paths)
    for first, second in combinations(pool.cohorts, 2):
        pairs = [(documents[one], documents[other]) for one in first.documents for other in second.documents]
        assert any(contradict(one, other, paths) for one, other in pairs)


@given(fleets())
def test_distinguishing_settings_separate_a_cohort_from_every_other(fleet: Fleet) -> None:
    pool = compared(fleet)

    for cohort in pool.cohorts:
        for other in pool.cohorts:
            others = {path: lookup_value(other.settings, path) for path in cohort.distinguishing}
            differing = [path for path, value in cohort.distinguishing.items() if others[path] not in {None, value}]
            assert bool(differing) == (other is not cohort)


@given(fleets())
def test_doubling_a_fleet_keeps_its_cohorts_and_differences(fleet: Fleet) -> None:
    members, documents = fleet
    twins = [replace(member, id=f"{member.id}/twin") for member in members]
    single, double = compared(fleet), compared(([*members, *twins], documents))

    assert [cohort.documents for cohort in single.cohorts] == [cohort.documents for cohort in double.cohorts]
    assert [cohort.distinguishing for cohort in single.cohorts] == [cohort.distinguishing for cohort in double.cohorts]
    assert [difference.path for difference in single.differences] == [item.path for item in double.differences]


@given(fleets())
def test_one_more_replica_with_a_known_document_adds_no_difference(fleet: Fleet) -> None:
    members, documents = fleet
    fresh = [member for member in members if member.fresh]
    more = [replace(member, id="http://new:80") for member in fresh[:1]]
    before, after = compared(fleet), compared(([*members, *more], documents))

    assert {difference.path for difference in before.differences} == {item.path for item in after.differences}
    assert before.equal <= after.equal


@given(fleets())
def test_one_document_or_ignoring_every_path_leaves_no_difference(fleet: Fleet) -> None:
    members, documents = fleet
    same = compared(([replace(member, document="d0" if documents else None) for member in members], documents))
    ignoring, plain = compared(fleet, ignore=["*"]), compared(fleet)

    assert (same.differences, same.ignored, ignoring.differences) == ((), (), ())
    assert len(same.cohorts) == bool(documents) >= len(ignoring.cohorts)
    assert {difference.path for difference in plain.differences} <= set(ignoring.ignored)
    assert ignoring.equal <= plain.equal


@given(fleets())
def test_counts_of_a_difference_add_up_to_the_fresh_replicas_with_a_document(fleet: Fleet) -> None:
    pool = compared(fleet)
    read = sum(member.fresh for member in fleet[0] if member.document)

    for difference in pool.differences:
        voting = [value for value in difference.values if is_comparable(value.state)]
        assert sum(value.count for value in difference.values) == read
        assert len(voting) >= 2
        assert difference.majority is None or 2 * voting[0].count > sum(value.count for value in voting)
    paths = [difference.path for difference in pool.differences]
    assert paths == sorted(paths, key=lambda path: path not in PREFIX_PATHS)


@given(fleets())
def test_letters_do_not_depend_on_ids_of_documents_or_on_what_all_replicas_report(fleet: Fleet) -> None:
    """A restart on another version changes every id."""
    members, documents = fleet
    names = {key: f"d{1000 - place}" for place, key in enumerate(documents)}
    renamed = [replace(each, document=each.document and names[each.document]) for each in members]
    settings = {names[key]: {**each.settings, "zeta": setting(1)} for key, each in documents.items()}
    restarted = {key: Document(key, documents[old].version, settings[key]) for old, key in names.items()}

    letters = [
        {each.letter: each.replicas for each in compare_pool("chat", Role.BOTH, *side).cohorts}
        for side in ((members, documents), (renamed, restarted))
    ]

    assert letters[0] == letters[1]


@given(fleets(), st.data())
def test_a_restart_of_any_replicas_changes_no_letter_of_a_cohort_that_stays(fleet: Fleet, data: st.DataObject) -> None:
    members, documents = fleet
    known = {each.document: each.letter for each in compared(fleet).cohorts}
    restarted = [
        replace(each, document=data.draw(st.sampled_from([each.document, *documents])) if documents else None)
        for each in members
    ]

    after = compare_pool("chat", Role.BOTH, restarted, documents, letters=known)

    stayed = [each for each in after.cohorts if each.document in known]
    assert all(each.letter == known[each.document] for each in stayed)
    assert len({each.letter for each in after.cohorts}) == len(after.cohorts)
    new = [each for each in after.cohorts if known.keys().isdisjoint(each.documents)]
    assert {each.letter for each in new}.isdisjoint(known.values())
    letters = {each.letter for each in after.cohorts}
    assert all(set(value.cohorts) <= letters for each in after.differences for value in each.values)
