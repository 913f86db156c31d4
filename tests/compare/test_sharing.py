"""Which cohorts can share prefixes by what engines tell of their block hashes, and the laws of sharing."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import Share, Verdict, compare_pool, pool_sharing
from dashboard.compare.pool import Member
from dashboard.compare.prefix import ALGORITHM_PATH, CACHING_PATH
from dashboard.compare.random_root import SEED_POLICY_PATH
from dashboard.compare.sharing import (
    EQUAL_HASHES,
    LENGTH_ONLY,
    MOST_COHORTS,
    OTHER_HASHES,
    OTHER_ROOT,
    OWN_ROOTS,
    REPLICA_ROOTS,
    Hashing,
    although,
    between,
    within,
)
from dashboard.fleet import Fingerprint, Role
from tests.builders import document, hashing, replica
from tests.compare.hashing_pools import BLOCK, OFF, VERSION, Cohort, Mark, alone, pair, shared, told


def test_equal_digests_share() -> None:
    assert alone("a", "a", "a") == (Share.YES, EQUAL_HASHES)
    assert pair(({}, ["a", "a"]), ({}, ["a"])) == (Share.YES, EQUAL_HASHES, True)


def test_replicas_of_one_cohort_that_all_hash_in_their_own_way_share_nothing() -> None:
    """With xxhash each process has a root of its own: equal settings, other hashes."""
    assert alone("a", "b", "c") == (Share.NO, OWN_ROOTS)


def test_two_ranks_of_one_replica_with_roots_of_their_own_share_nothing() -> None:
    assert alone(["a", "b"]) == (Share.NO, OWN_ROOTS)
    assert alone(["a", "a"]) == (Share.YES, EQUAL_HASHES)
    assert alone(["a", "a", "b"]) == (Share.PARTLY, "2 ways of hashing blocks")


def test_a_root_per_replica_is_told_from_one_per_engine() -> None:
    """Its ranks agree, and no two replicas do."""
    assert alone(["a", "a"], ["b", "b"]) == (Share.NO, REPLICA_ROOTS)


def test_some_that_hash_alike_share_in_part_and_the_ways_are_counted() -> None:
    sharing = shared(({}, ["a", "a", "b"]))

    assert sharing.cells[0].share is Share.PARTLY
    assert sharing.cells[0].ways == 2


def test_within_a_cohort_only_the_block_length_can_differ() -> None:
    """The engine fills the length in later, so settings do not always tell it."""
    assert alone([Fingerprint("c", "a")], [Fingerprint("c", "b")]) == (Share.NO, LENGTH_ONLY)


def test_digests_without_those_at_one_length_do_not_speak_of_roots() -> None:
    for canonical in (None, "c"):
        assert alone([Fingerprint(None, "a")], [Fingerprint(canonical, "b")]) == (Share.NO, "2 ways of hashing blocks")


def test_who_does_not_tell_makes_agreement_unknown_but_no_difference_undone() -> None:
    known: Sequence[Sequence[Mark]] = [["a"], ["a"], [None]]
    fewer: Sequence[Sequence[Mark]] = [[None], ["a"]]

    assert alone("a", "a", [None]) == (Share.UNKNOWN, "those that tell have equal block hashes; 1 does not tell")
    assert alone("a", "b", [None])[0] is Share.NO
    assert pair(({}, known), ({}, fewer))[:2] == (
        Share.UNKNOWN,
        "those that tell have equal block hashes; 2 do not tell",
    )
    assert pair(({}, known), ({}, ["b"]))[::2] == (Share.NO, True)


def test_a_replica_without_engines_does_not_tell() -> None:
    assert alone("a", [])[0] is Share.UNKNOWN


@pytest.mark.parametrize(
    ("settings", "other", "reason"),
    [
        ({}, "b", OTHER_ROOT),
        ({ALGORITHM_PATH: "xxhash"}, "b", "prefix_caching_hash_algo differs"),
        ({VERSION: "0.31.0", ALGORITHM_PATH: "xxhash"}, "b", "prefix_caching_hash_algo differs"),
        ({VERSION: "0.31.0"}, "b", OTHER_HASHES),
        ({SEED_POLICY_PATH: "random"}, "b", OWN_ROOTS),
        ({BLOCK: 32}, "b", OTHER_ROOT),
        ({ALGORITHM_PATH: None}, "b", "prefix_caching_hash_algo differs"),
        ({}, Fingerprint(None, "b"), OTHER_HASHES),
        ({BLOCK: 32}, Fingerprint("a", "b"), LENGTH_ONLY),
    ],
)
def test_why_two_cohorts_do_not_share(settings: Mapping[str, Any], other: Mark, reason: str) -> None:
    """The canonical digest takes the block length out of the question; the rest has a name where settings tell it."""
    assert pair(({}, ["a", "a"]), (settings, [[other]])) == (Share.NO, reason, True)


def test_nothing_is_said_of_lengths_where_neither_tells_the_digest_at_one_length() -> None:
    cohort: Sequence[Sequence[Mark]] = [[Fingerprint(None, "a")]] * 2

    assert pair(({}, cohort), ({}, [[Fingerprint(None, "b")]]))[1] == OTHER_HASHES


def test_roots_that_are_told_to_come_from_elsewhere_are_the_reason_whatever_the_versions() -> None:
    seeded = {SEED_POLICY_PATH: "environment", VERSION: "0.31.0"}

    assert pair(({SEED_POLICY_PATH: "default"}, ["a", "a"]), (seeded, ["b"])) == (Share.NO, OTHER_ROOT, True)


def test_a_cohort_with_roots_of_its_own_shares_with_nobody() -> None:
    assert pair(({}, ["a", "a", "a"]), ({}, ["b", "c"])) == (Share.NO, OWN_ROOTS, True)


def test_canonical_digests_that_only_overlap_name_the_length_only_where_it_differs() -> None:
    mixed: Sequence[Sequence[Mark]] = [["a"], ["a"], [Fingerprint("c", "b")]]

    assert pair(({}, mixed), ({BLOCK: 32}, [[Fingerprint("a", "x")]]))[1] == "block_size differs"
    assert pair(({}, mixed), ({}, [[Fingerprint("a", "x")]]))[1] == OTHER_HASHES


def test_cohorts_with_a_way_in_common_share_in_part() -> None:
    assert pair(({}, ["a", "a", "b"]), ({}, ["a", "c"])) == (
        Share.PARTLY,
        "3 ways of hashing blocks, of which both have 1",
        True,
    )


def test_who_hashes_alike_although_settings_differ_is_told_with_their_names() -> None:
    """A seed given that is the default; two versions that hash alike."""
    seeded = {SEED_POLICY_PATH: "environment", VERSION: "0.31.0"}

    assert pair(({SEED_POLICY_PATH: "default"}, ["a", "a"]), (seeded, ["a"])) == (
        Share.YES,
        "equal block hashes, although vLLM version and seed_policy differ",
        True,
    )
    assert pair(({}, ["a", "a"]), ({VERSION: "0.31.0"}, ["a"]))[1].endswith("although vLLM version differs")
    assert although(shared(({}, ["a"])).cohorts) == []


def test_a_second_address_of_a_process_is_not_counted() -> None:
    """One process behind two addresses hashes alike with itself, which says nothing of others."""
    told = document()
    first, second = (replica(f"r{number}", document=told, engines=hashing("a")) for number in (1, 2))
    second = replica("r2", document=told, engines=hashing("a"), same_process=(first.id,))
    members = [Member(each.id, each.document, fresh=True, identity=0) for each in (first, second)]
    pool = compare_pool("chat", Role.BOTH, members, {told.id: told})

    assert pool_sharing(pool, {first.id: first, second.id: second}).cohorts[0].replicas == 1


def test_groups_are_the_cohorts_with_one_way_of_hashing() -> None:
    sharing = shared(({}, ["a"] * 5), ({}, ["b"] * 4), ({}, ["a"] * 3), ({}, ["x", "y"]), ({}, [[None]]))

    assert sharing.groups == (("A", "C"), ("B",))
    assert (sharing.ways, sharing.silent) == (4, 1)


def test_a_cohort_of_which_not_all_replicas_tell_is_in_no_group() -> None:
    """Of who does not tell nothing is claimed, in the document neither."""
    sharing = shared(({}, ["a", *[[None]] * 3]), ({}, ["a"] * 3), ({}, [["b"], [None]]))

    assert sharing.groups == (("B",),)
    assert sharing.classes == (("A", "B"), ("C",))


def test_replicas_that_were_never_read_are_silent() -> None:
    told = document()
    read = replica("r1", document=told, engines=hashing("a"))
    members = [Member(read.id, told.id, fresh=True, identity=0), Member("x", None, fresh=False, identity=0)]
    sharing = pool_sharing(compare_pool("chat", Role.BOTH, members, {told.id: told}), {read.id: read})

    assert (sharing.unread, sharing.silent) == (1, 1)


def test_beyond_a_dozen_cohorts_there_is_no_matrix() -> None:
    dozen: list[Cohort] = [({}, ["a"])] * MOST_COHORTS

    assert len(shared(*dozen).cells) == MOST_COHORTS * (MOST_COHORTS + 1) // 2
    assert shared(*dozen, ({}, ["a"])).cells == ()


def test_a_thousand_ways_within_one_cohort_are_one_cell() -> None:
    """Each engine with a root of its own: the largest fleet that one sees is one cell."""
    cohort = shared(({}, [[f"digest {number}"] for number in range(1000)])).cohorts[0]

    assert within(cohort)[2:6] == (Share.NO, True, OWN_ROOTS, 1000)


MARKS = st.sampled_from([None, "a", "b", "c", Fingerprint("a", "d"), Fingerprint(None, "e"), OFF])
HELD = st.lists(st.lists(MARKS, max_size=3), min_size=1, max_size=4)
SETTINGS = st.sampled_from([{}, {BLOCK: 32}, {VERSION: "0.31.0"}, {CACHING_PATH: False}, {SEED_POLICY_PATH: "random"}])


def _cohort(settings: Mapping[str, Any], held: Sequence[Sequence[Mark]]) -> Hashing:
    return shared((settings, held)).cohorts[0]


@given(SETTINGS, HELD, SETTINGS, HELD)
def test_sharing_is_mutual(
    mine: Mapping[str, Any], held: list[list[Mark]], yours: Mapping[str, Any], others: list[list[Mark]]
) -> None:
    one, other = _cohort(mine, held), _cohort(yours, others)

    assert between(one, other)[2:] == between(other, one)[2:]


@given(SETTINGS, SETTINGS, st.integers(1, 3), st.integers(1, 3))
def test_equal_digests_always_share(mine: Mapping[str, Any], yours: Mapping[str, Any], few: int, more: int) -> None:
    one, other = _cohort(mine, [["a"]] * few), _cohort(yours, [["a", "a"]] * more)

    assert {within(one).share, within(other).share, between(one, other).share} == {Share.YES}


@given(SETTINGS, HELD, SETTINGS, HELD, st.lists(MARKS, max_size=3))
def test_a_replica_more_never_turns_no_into_yes(
    mine: Mapping[str, Any],
    held: list[list[Mark]],
    yours: Mapping[str, Any],
    others: list[list[Mark]],
    more: list[Mark],
) -> None:
    one, other, larger = _cohort(mine, held), _cohort(yours, others), _cohort(mine, [*held, more])

    assert (within(one).share, within(larger).share) != (Share.NO, Share.YES)
    assert (between(one, other).share, between(larger, other).share) != (Share.NO, Share.YES)


@given(HELD)
def test_what_is_told_is_never_more_certain_than_its_replicas(held: list[list[Mark]]) -> None:
    """Yes is said only where each engine of each replica told the same digest."""
    cohort = _cohort({}, held)
    told = {mark.engine if isinstance(mark, Fingerprint) else mark for marks in held for mark in marks}

    assert (within(cohort).share is Share.YES) == (len(told) == 1 and None not in told and all(held))


@given(st.lists(st.tuples(SETTINGS, HELD), min_size=1, max_size=4))
def test_the_pool_is_as_weak_as_its_weakest_cell(cohorts: list[Cohort]) -> None:
    found = {cell.share for cell in shared(*cohorts).cells}
    weakest = Share.NO if found & {Share.NO, Share.PARTLY} else Share.UNKNOWN if Share.UNKNOWN in found else Share.YES
    sentence = told(*cohorts)

    assert sentence.share is weakest
    assert (sentence.verdict is Verdict.AGREES) == (weakest is Share.YES)


def test_of_very_many_cohorts_none_is_left_out() -> None:
    alike: list[Cohort] = [({}, ["a"])] * (MOST_COHORTS + 2)

    assert shared(*alike).share is Share.YES
    assert shared(*alike, ({}, ["b"])).share is Share.NO
    assert shared(*alike, ({}, [[None]])).share is Share.UNKNOWN
