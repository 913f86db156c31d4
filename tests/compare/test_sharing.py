"""Which cohorts share prefixes: measured by block hashes, else derived from settings; and the laws of the verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import Share, SharingCell, Verdict, compare_pool, sharing_verdict
from dashboard.compare.hashes import CohortHashes
from dashboard.compare.pool import Member
from dashboard.compare.sharing import MOST_COHORTS, Cause, between, within
from dashboard.fleet import Fingerprint, Role, State
from dashboard.vllm.lookahead import UPGRADE
from tests.builders import document, hashing, replica, setting
from tests.compare.sharing_pools import ALGORITHM, BLOCK, CACHING, CONNECTOR, OFF, SILENT, Cohort, Mark, verdict_of

ABSENT = setting(None, State.ABSENT)
LAYOUT, MODEL, POLICY = "cache_config.kv_cache_layout", "model_config.model", "seed_policy"
XXHASH, RANDOM = {ALGORITHM: "xxhash_cbor"}, {POLICY: "random"}
OLD_PROVIDER = Fingerprint(reason=UPGRADE)
NEW = {"version": "0.33.0", "speculative_config": None}
AHEAD = {"version": "0.33.0", "hash_lookahead_tokens": 1}
YES, NO, PARTLY, UNKNOWN = Share


def own(settings: Mapping[str, Any], *held: Sequence[Mark]) -> tuple[Share, Cause]:
    """How the replicas of one cohort compare."""
    cell = verdict_of((settings, held)).cells[0]
    return cell.share, cell.cause


def pair(first: Cohort, second: Cohort) -> SharingCell:
    """How two cohorts compare."""
    return next(each for each in verdict_of(first, second).cells if (each.one, each.other) == ("A", "B"))


@pytest.mark.parametrize(
    ("settings", "held", "expected"),
    [
        ({}, ["a", "a", "a"], (YES, Cause.EQUAL_HASHES)),
        ({}, ["a", "b", "c"], (NO, Cause.RANDOM_SEED)),
        ({}, [["a", "b"]], (NO, Cause.RANDOM_SEED)),
        ({}, [["a", "a"]], (YES, Cause.EQUAL_HASHES)),
        ({}, [["a", "a", "b"]], (PARTLY, Cause.VARIANTS)),
        ({}, ["a", "a", "b"], (PARTLY, Cause.VARIANTS)),
        ({}, [["a", "a"], ["b", "b"]], (NO, Cause.REPLICA_SEED)),
        ({}, [[Fingerprint("c", "a")], [Fingerprint("c", "b")]], (NO, Cause.BLOCK_LENGTH)),
        ({}, [[Fingerprint(None, "a")], [Fingerprint("c", "b")]], (NO, Cause.VARIANTS)),
        ({}, ["a", "a", SILENT], (UNKNOWN, Cause.SOME_SILENT)),
        ({}, ["a", []], (UNKNOWN, Cause.NOT_MEASURED)),
        ({}, ["a", "b", SILENT], (NO, Cause.RANDOM_SEED)),
        ({CACHING: False}, [[OFF], [OFF]], (NO, Cause.CACHING_OFF)),
        ({CACHING: False}, ["a", [OFF]], (NO, Cause.VARIANTS)),
        ({CACHING: False}, [[Fingerprint()], [Fingerprint()]], (NO, Cause.CACHING_OFF)),
        ({}, [[OFF], [OFF]], (UNKNOWN, Cause.NOT_MEASURED)),
        ({CACHING: False, CONNECTOR: "LMCacheConnectorV1"}, [SILENT, SILENT], (UNKNOWN, Cause.NOT_MEASURED)),
        ({CACHING: False, CONNECTOR: None}, [SILENT, SILENT], (NO, Cause.CACHING_OFF)),
        (RANDOM, [SILENT, SILENT], (NO, Cause.RANDOM_SEED)),
        (RANDOM, [SILENT], (UNKNOWN, Cause.NOT_MEASURED)),
        (XXHASH, [SILENT, SILENT], (UNKNOWN, Cause.MAYBE_RANDOM)),
        (XXHASH, [SILENT], (UNKNOWN, Cause.NOT_MEASURED)),
        ({"version": "0.33.0"}, [[OLD_PROVIDER], [OLD_PROVIDER]], (UNKNOWN, Cause.OUTDATED)),
        ({LAYOUT: ABSENT}, [["a", "a"]], (YES, Cause.EQUAL_HASHES)),
        ({LAYOUT: ABSENT}, ["a", "a"], (UNKNOWN, Cause.KV_UNKNOWN)),
    ],
)
def test_the_replicas_of_a_cohort_share_if_their_hashes_are_equal(
    settings: Mapping[str, Any], held: Sequence[Sequence[Mark]], expected: tuple[Share, Cause]
) -> None:
    assert own(settings, *held) == expected


@pytest.mark.parametrize(
    ("settings", "mark", "cause", "paths"),
    [
        ({}, "b", Cause.OTHER_SEED, ()),
        ({ALGORITHM: "xxhash"}, "b", Cause.SETTINGS, (ALGORITHM,)),
        ({ALGORITHM: None}, "b", Cause.SETTINGS, (ALGORITHM,)),
        ({"version": "0.31.0", ALGORITHM: "xxhash"}, "b", Cause.SETTINGS, (ALGORITHM,)),
        ({"version": "0.31.0"}, "b", Cause.OTHER_HASHES, ()),
        (RANDOM, "b", Cause.RANDOM_SEED, ()),
        ({BLOCK: 32}, "b", Cause.OTHER_SEED, ()),
        ({}, Fingerprint(None, "b"), Cause.OTHER_HASHES, ()),
        ({BLOCK: 32}, Fingerprint("a", "b"), Cause.BLOCK_LENGTH, (BLOCK,)),
    ],
)
def test_two_cohorts_with_other_hashes_do_not_share_and_the_cause_is_named(
    settings: Mapping[str, Any], mark: Mark, cause: Cause, paths: tuple[str, ...]
) -> None:
    cell = pair(({}, ["a", "a"]), (settings, [[mark]]))

    assert (cell.share, cell.cause, cell.paths, cell.is_measured) == (NO, cause, paths, True)


def test_reported_seed_policies_are_the_cause_whatever_the_versions() -> None:
    cell = pair(({POLICY: "default"}, ["a", "a"]), ({POLICY: "environment", "version": "0.31.0"}, ["b"]))

    assert (cell.cause, cell.paths) == (Cause.OTHER_SEED, (POLICY,))


def test_canonical_digests_that_only_overlap_name_the_length_only_where_it_differs() -> None:
    mixed: Sequence[Sequence[Mark]] = [["a"], ["a"], [Fingerprint("c", "b")]]

    assert pair(({}, mixed), ({BLOCK: 32}, [[Fingerprint("a", "x")]])).paths == (BLOCK,)
    assert pair(({}, mixed), ({}, [[Fingerprint("a", "x")]])).cause is Cause.OTHER_HASHES


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (({}, ["a", "a", "a"]), ({}, ["b", "c"]), (NO, Cause.RANDOM_SEED, True)),
        (({}, ["a", "a", "b"]), ({}, ["a", "c"]), (PARTLY, Cause.VARIANTS, True)),
        (({}, ["a", "a"]), ({CACHING: False}, [[OFF]]), (NO, Cause.CACHING_OFF, False)),
        (({}, ["a", "a", "a"]), ({CACHING: False}, [["a"], [OFF]]), (PARTLY, Cause.VARIANTS, True)),
        (({}, ["a", "a", SILENT]), ({}, ["b"]), (NO, Cause.OTHER_SEED, True)),
        (({}, ["a", "a", SILENT]), ({}, [SILENT, "a"]), (UNKNOWN, Cause.SOME_SILENT, False)),
        (({}, ["a", "a"]), ({}, [SILENT]), (UNKNOWN, Cause.NOT_MEASURED, False)),
        (({}, ["a", "a"]), ({BLOCK: 32}, [SILENT]), (NO, Cause.SETTINGS, False)),
        (({}, ["a", "a"]), ({"version": "0.31.0"}, [SILENT]), (UNKNOWN, Cause.VERSIONS, False)),
        (({}, ["a", "a"]), ({"version": "0.31.0", BLOCK: 32}, [SILENT]), (NO, Cause.SETTINGS, False)),
        (({}, ["a", "a"]), ({CACHING: False}, [SILENT]), (NO, Cause.CACHING_OFF, False)),
        (({}, ["a", "a"]), (RANDOM, [SILENT]), (NO, Cause.RANDOM_SEED, False)),
        ((XXHASH, ["a", SILENT]), (XXHASH, [SILENT]), (UNKNOWN, Cause.MAYBE_RANDOM, False)),
        ((NEW, [SILENT]), (AHEAD, [SILENT]), (NO, Cause.SETTINGS, False)),
        ((NEW, ["a"]), (AHEAD, ["b"]), (NO, Cause.SETTINGS, True)),
        ((NEW, ["a"]), ({"version": "0.33.0"}, [[OLD_PROVIDER]]), (UNKNOWN, Cause.OUTDATED, False)),
        (({}, [SILENT, SILENT]), ({MODEL: "org/other"}, [SILENT]), (NO, Cause.KV_CACHE, False)),
    ],
)
def test_two_cohorts_compare_by_hashes_and_without_them_by_settings(
    first: Cohort, second: Cohort, expected: tuple[Share, Cause, bool]
) -> None:
    cell = pair(first, second)

    assert (cell.share, cell.cause, cell.is_measured) == expected


@pytest.mark.parametrize(
    ("settings", "share", "path"),
    [
        ({MODEL: "org/other"}, NO, MODEL),
        ({MODEL: "llama"}, UNKNOWN, MODEL),
        ({"model_config.revision": "abc"}, NO, "model_config.revision"),
        ({"cache_config.cache_dtype": "fp8"}, NO, "cache_config.cache_dtype"),
        ({"model_config.dtype": "float16"}, NO, "model_config.dtype"),
        ({LAYOUT: "HND"}, NO, LAYOUT),
        ({LAYOUT: ABSENT}, UNKNOWN, LAYOUT),
    ],
)
def test_equal_hashes_are_no_sharing_unless_the_kv_cache_is_known_to_be_the_same(
    settings: Mapping[str, Any], share: Share, path: str
) -> None:
    """One model may have two names, where one of them is a folder's."""
    verdict = verdict_of(({}, ["a", "a"]), (settings, ["a"]))
    cell = verdict.cells[-1]

    assert (cell.share, verdict.share, cell.paths, cell.is_measured) == (share, share, (path,), False)
    assert verdict.verdict is (Verdict.DIFFERS if share is NO else Verdict.UNKNOWN)


def test_settings_that_differ_although_hashes_are_equal_are_named() -> None:
    seeded = {POLICY: "environment", "version": "0.31.0"}

    assert pair(({POLICY: "default"}, ["a", "a"]), (seeded, ["a"])).paths == ("version", POLICY)


def test_an_ignored_setting_is_no_cause() -> None:
    verdict = verdict_of(({BLOCK: 16}, [[]]), ({BLOCK: 32}, [[]]), ignore=[BLOCK])

    assert {cell.cause for cell in verdict.cells} == {Cause.NOT_MEASURED}


def test_a_second_address_of_a_process_is_not_counted() -> None:
    shared = document()
    first, second = (replica(f"r{number}", document=shared, engines=hashing("a")) for number in (1, 2))
    second = replica("r2", document=shared, engines=hashing("a"), same_process=(first.id,))
    members = [Member(each.id, each.document, fresh=True, identity=0) for each in (first, second)]
    pool = compare_pool("chat", Role.BOTH, members, {shared.id: shared})
    verdict = sharing_verdict(pool, {first.id: first, second.id: second}, {shared.id: shared})

    assert verdict.cohorts[0].replicas == 1


def test_groups_are_the_cohorts_with_equal_hashes_on_all_engines() -> None:
    verdict = verdict_of(({}, ["a"] * 5), ({}, ["b"] * 4), ({}, ["a"] * 3), ({}, ["x", "y"]), ({}, ["b", SILENT]))

    assert verdict.groups == (("A", "C"), ("B",))
    assert [[each.letter for each in group] for group in verdict.classes] == [["A", "C"], ["B", "E"]]
    assert (verdict.ways, verdict.silent) == (4, 1)


def test_replicas_that_were_never_read_are_silent() -> None:
    verdict = verdict_of(({}, ["a", "a"]), unread=1)

    assert (verdict.unread, verdict.silent, verdict.share) == (1, 1, UNKNOWN)


def test_beyond_a_dozen_cohorts_there_are_no_cells_but_a_verdict() -> None:
    alike: list[Cohort] = [({}, ["a"])] * MOST_COHORTS

    assert len(verdict_of(*alike).cells) == MOST_COHORTS * (MOST_COHORTS + 1) // 2
    assert verdict_of(*alike, *alike).cells == ()
    assert verdict_of(*alike, *alike).share is YES
    assert verdict_of(*alike, ({}, ["b"])).share is NO
    assert verdict_of(*alike, ({}, [SILENT])).share is UNKNOWN


def test_a_thousand_hashes_within_one_cohort_are_one_cell() -> None:
    cell = within(verdict_of(({}, [[f"digest {number}"] for number in range(1000)])).cohorts[0])

    assert (cell.share, cell.cause, cell.ways) == (NO, Cause.RANDOM_SEED, 1000)


@pytest.mark.parametrize(
    ("cohorts", "expected"),
    [
        ([({}, ["a"] * 3)], (Verdict.AGREES, False, False, 0)),
        ([({CACHING: False}, [SILENT] * 3)], (Verdict.OFF, False, False, 0)),
        ([({}, [SILENT] * 3), ({"version": "0.31.0"}, [SILENT])], (Verdict.DIFFERS, False, False, 4)),
        ([({}, [SILENT] * 3), ({BLOCK: 32}, [SILENT])], (Verdict.DIFFERS, True, False, 0)),
        ([(XXHASH, [SILENT] * 3)], (Verdict.UNKNOWN, False, True, 3)),
        ([(XXHASH, ["a", "a", SILENT])], (Verdict.UNKNOWN, False, True, 1)),
        ([(XXHASH, [SILENT])], (Verdict.UNKNOWN, False, False, 1)),
        ([({}, [SILENT] * 2), ({BLOCK: ABSENT}, [SILENT])], (Verdict.UNKNOWN, False, False, 3)),
    ],
)
def test_the_verdict_says_whether_it_is_certain_and_how_many_replicas_are_unknown(
    cohorts: Sequence[Cohort], expected: tuple[Verdict, bool, bool, int]
) -> None:
    verdict = verdict_of(*cohorts)

    assert (verdict.verdict, verdict.is_certain, verdict.is_doubted, verdict.not_known) == expected


MARKS = st.sampled_from([None, "a", "b", "c", Fingerprint("a", "d"), Fingerprint(None, "e"), OFF])
HELD = st.lists(st.lists(MARKS, max_size=3), min_size=1, max_size=4)
SETTINGS = st.sampled_from([{}, {BLOCK: 32}, {"version": "0.31.0"}, {CACHING: False}, RANDOM])


def _cohort(settings: Mapping[str, Any], held: Sequence[Sequence[Mark]]) -> CohortHashes:
    return verdict_of((settings, held)).cohorts[0]


@given(SETTINGS, HELD, SETTINGS, HELD)
def test_sharing_is_mutual(
    mine: Mapping[str, Any], held: list[list[Mark]], yours: Mapping[str, Any], others: list[list[Mark]]
) -> None:
    one, other = _cohort(mine, held), _cohort(yours, others)

    assert between(one, other)[2:] == between(other, one)[2:]


@given(SETTINGS, SETTINGS, st.integers(1, 3), st.integers(1, 3))
def test_equal_digests_always_share(mine: Mapping[str, Any], yours: Mapping[str, Any], few: int, more: int) -> None:
    one, other = _cohort(mine, [["a"]] * few), _cohort(yours, [["a", "a"]] * more)

    assert {within(one).share, within(other).share, between(one, other).share} == {YES}


@given(SETTINGS, HELD, SETTINGS, HELD, st.lists(MARKS, max_size=3))
def test_one_more_replica_never_turns_no_into_yes(
    mine: Mapping[str, Any],
    held: list[list[Mark]],
    yours: Mapping[str, Any],
    others: list[list[Mark]],
    more: list[Mark],
) -> None:
    one, other, larger = _cohort(mine, held), _cohort(yours, others), _cohort(mine, [*held, more])

    assert (within(one).share, within(larger).share) != (NO, YES)
    assert (between(one, other).share, between(larger, other).share) != (NO, YES)


@given(HELD)
def test_yes_needs_the_same_digest_from_every_engine_of_every_replica(held: list[list[Mark]]) -> None:
    digests = {mark.engine if isinstance(mark, Fingerprint) else mark for marks in held for mark in marks}

    assert (own({}, *held)[0] is YES) == (len(digests) == 1 and None not in digests and all(held))


@given(st.lists(st.tuples(SETTINGS, HELD), min_size=1, max_size=4))
def test_the_pool_is_as_weak_as_its_weakest_cell(cohorts: list[Cohort]) -> None:
    verdict = verdict_of(*cohorts)
    found = {cell.share for cell in verdict.cells}
    weakest = NO if found & {NO, PARTLY} else UNKNOWN if UNKNOWN in found else YES

    assert verdict.share is weakest
    assert (verdict.verdict is Verdict.AGREES) == (weakest is YES)
