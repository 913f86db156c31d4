"""Which cohorts share prefixes: measured by block hashes, else derived from settings; and the laws of the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import Share, SharingCell, SharingVerdict, sharing_verdict
from dashboard.compare.hashes import CohortHashes, SharingCause
from dashboard.compare.sharing import MOST_COHORTS, compare_cohorts
from dashboard.fleet import EngineFingerprint, KVCacheGroup, State
from tests.builders import setting
from tests.compare.sharing_pools import (
    ALGORITHM,
    BLOCK,
    CACHING,
    CONNECTOR,
    OFF,
    SILENT,
    Cohort,
    DrawnPool,
    Mark,
    drawn_pools,
    pool_of_cohorts,
    verdict_of,
)

ABSENT = setting(None, State.ABSENT)
REVISION, SNAPSHOT = "model_config.revision", "model_snapshot"
LAYOUT, MODEL, POLICY = "cache_config.kv_cache_layout", "model_config.model", "seed_policy"
XXHASH, RANDOM = {ALGORITHM: "xxhash_cbor"}, {POLICY: "random"}
NEW = {"version": "0.33.0", "speculative_config": None}
AHEAD = {"version": "0.33.0", "hash_lookahead_tokens": 1}
YES, NO, PARTLY, UNKNOWN = Share


def pair(first: Cohort, second: Cohort) -> SharingCell:
    """The cell of two cohorts."""
    return next(each for each in verdict_of(first, second).cells if (each.one, each.other) == ("A", "B"))


@pytest.mark.parametrize(
    ("settings", "replicas", "expected"),
    [
        ({}, ["a", "a", "a"], (YES, SharingCause.EQUAL_HASHES)),
        ({}, ["a", "b", "c"], (NO, SharingCause.RANDOM_SEED)),
        ({}, [["a", "b"]], (NO, SharingCause.RANDOM_SEED)),
        ({}, [["a", "a"]], (YES, SharingCause.EQUAL_HASHES)),
        ({}, [["a", "a", "b"]], (PARTLY, SharingCause.VARIANTS)),
        ({}, ["a", "a", "b"], (PARTLY, SharingCause.VARIANTS)),
        ({}, [["a", "a"], ["b", "b"]], (NO, SharingCause.REPLICA_SEED)),
        ({}, [[EngineFingerprint("c", "a")], [EngineFingerprint("c", "b")]], (NO, SharingCause.BLOCK_LENGTH)),
        ({}, [[EngineFingerprint(None, "a")], [EngineFingerprint("c", "b")]], (NO, SharingCause.VARIANTS)),
        ({}, ["a", "a", SILENT], (UNKNOWN, SharingCause.SOME_SILENT)),
        ({}, ["a", []], (UNKNOWN, SharingCause.NOT_MEASURED)),
        ({}, ["a", "b", SILENT], (NO, SharingCause.RANDOM_SEED)),
        ({CACHING: False}, [[OFF], [OFF]], (NO, SharingCause.CACHING_OFF)),
        ({CACHING: False}, ["a", [OFF]], (NO, SharingCause.VARIANTS)),
        ({CACHING: False}, [[EngineFingerprint()], [EngineFingerprint()]], (NO, SharingCause.CACHING_OFF)),
        ({}, [[OFF], [OFF]], (UNKNOWN, SharingCause.NOT_MEASURED)),
        ({CACHING: False, CONNECTOR: "LMCacheConnectorV1"}, [SILENT, SILENT], (UNKNOWN, SharingCause.NOT_MEASURED)),
        ({CACHING: False, CONNECTOR: None}, [SILENT, SILENT], (NO, SharingCause.CACHING_OFF)),
        (RANDOM, [SILENT, SILENT], (NO, SharingCause.RANDOM_SEED)),
        (RANDOM, [SILENT], (UNKNOWN, SharingCause.NOT_MEASURED)),
        (XXHASH, [SILENT, SILENT], (UNKNOWN, SharingCause.MAYBE_RANDOM)),
        (XXHASH, [SILENT], (UNKNOWN, SharingCause.NOT_MEASURED)),
        ({LAYOUT: ABSENT}, ["a", "a", "a"], (YES, SharingCause.EQUAL_HASHES)),
        ({BLOCK: ABSENT}, [["a", "a"]], (YES, SharingCause.EQUAL_HASHES)),
        ({BLOCK: ABSENT}, ["a", "a"], (UNKNOWN, SharingCause.BLOCKS_UNKNOWN)),
        ({REVISION: ABSENT}, ["a", "a"], (UNKNOWN, SharingCause.WEIGHTS_UNKNOWN)),
    ],
)
def test_replicas_of_a_cohort_share_if_their_hashes_are_equal(
    settings: Mapping[str, Any], replicas: Sequence[Sequence[Mark]], expected: tuple[Share, SharingCause]
) -> None:
    cell = verdict_of((settings, replicas)).cells[0]

    assert (cell.share, cell.cause) == expected


MIXED: Sequence[Sequence[Mark]] = [["a"], ["a"], [EngineFingerprint("c", "b")]]


@pytest.mark.parametrize(
    ("first", "settings", "mark", "cause", "paths"),
    [
        (({}, ["a", "a"]), {}, "b", SharingCause.OTHER_SEED, ()),
        (({}, ["a", "a"]), {ALGORITHM: "xxhash"}, "b", SharingCause.SETTINGS, (ALGORITHM,)),
        (({}, ["a", "a"]), {ALGORITHM: None}, "b", SharingCause.SETTINGS, (ALGORITHM,)),
        (({}, ["a", "a"]), {"version": "0.31.0", ALGORITHM: "xxhash"}, "b", SharingCause.SETTINGS, (ALGORITHM,)),
        (({}, ["a", "a"]), {"version": "0.31.0"}, "b", SharingCause.OTHER_HASHES, ()),
        (({}, ["a", "a"]), RANDOM, "b", SharingCause.RANDOM_SEED, ()),
        (({}, ["a", "a"]), {BLOCK: 32}, "b", SharingCause.OTHER_SEED, ()),
        (({}, ["a", "a"]), {}, EngineFingerprint(None, "b"), SharingCause.OTHER_HASHES, ()),
        (({}, ["a", "a"]), {BLOCK: 32}, EngineFingerprint("a", "b"), SharingCause.BLOCK_LENGTH, (BLOCK,)),
        (({}, MIXED), {BLOCK: 32}, EngineFingerprint("a", "x"), SharingCause.SETTINGS, (BLOCK,)),
        (({}, MIXED), {}, EngineFingerprint("a", "x"), SharingCause.OTHER_HASHES, ()),
        (
            ({POLICY: "default"}, ["a", "a"]),
            {POLICY: "environment", "version": "0.31.0"},
            "b",
            SharingCause.OTHER_SEED,
            (POLICY,),
        ),
    ],
)
def test_two_cohorts_with_different_hashes_do_not_share_for_a_named_cause(
    first: Cohort, settings: Mapping[str, Any], mark: Mark, cause: SharingCause, paths: tuple[str, ...]
) -> None:
    cell = pair(first, (settings, [[mark]]))

    assert (cell.share, cell.cause, cell.paths, cell.is_measured) == (NO, cause, paths, True)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (({}, ["a", "a", "a"]), ({}, ["b", "c"]), (NO, SharingCause.RANDOM_SEED, True)),
        (({}, ["a", "a", "b"]), ({}, ["a", "c"]), (PARTLY, SharingCause.VARIANTS, True)),
        (({}, ["a", "a"]), ({CACHING: False}, [[OFF]]), (NO, SharingCause.CACHING_OFF, False)),
        (({}, ["a", "a", "a"]), ({CACHING: False}, [["a"], [OFF]]), (PARTLY, SharingCause.VARIANTS, True)),
        (({}, ["a", "a", SILENT]), ({}, ["b"]), (NO, SharingCause.OTHER_SEED, True)),
        (({}, ["a", "a", SILENT]), ({}, [SILENT, "a"]), (UNKNOWN, SharingCause.SOME_SILENT, False)),
        (({}, ["a", "a"]), ({}, [SILENT]), (UNKNOWN, SharingCause.NOT_MEASURED, False)),
        (({}, ["a", "a"]), ({BLOCK: 32}, [SILENT]), (NO, SharingCause.SETTINGS, False)),
        (({}, ["a", "a"]), ({"version": "0.31.0"}, [SILENT]), (UNKNOWN, SharingCause.VERSIONS, False)),
        (({}, ["a", "a"]), ({"version": "0.31.0", BLOCK: 32}, [SILENT]), (NO, SharingCause.SETTINGS, False)),
        (({}, ["a", "a"]), ({CACHING: False}, [SILENT]), (NO, SharingCause.CACHING_OFF, False)),
        (({}, ["a", "a"]), (RANDOM, [SILENT]), (NO, SharingCause.RANDOM_SEED, False)),
        ((XXHASH, ["a", SILENT]), (XXHASH, [SILENT]), (UNKNOWN, SharingCause.MAYBE_RANDOM, False)),
        ((NEW, [SILENT]), (AHEAD, [SILENT]), (NO, SharingCause.SETTINGS, False)),
        ((NEW, ["a"]), (AHEAD, ["b"]), (NO, SharingCause.SETTINGS, True)),
        (({}, [SILENT, SILENT]), ({MODEL: "org/other"}, [SILENT]), (NO, SharingCause.WEIGHTS, False)),
    ],
)
def test_two_cohorts_are_compared_by_hashes_else_by_settings(
    first: Cohort, second: Cohort, expected: tuple[Share, SharingCause, bool]
) -> None:
    cell = pair(first, second)

    assert (cell.share, cell.cause, cell.is_measured) == expected


@pytest.mark.parametrize(
    ("settings", "share", "path"),
    [
        ({MODEL: "org/other"}, NO, MODEL),
        ({MODEL: "copy"}, UNKNOWN, MODEL),
        ({REVISION: "abc"}, NO, REVISION),
        ({REVISION: ABSENT}, UNKNOWN, REVISION),
        ({REVISION: "abc", SNAPSHOT: "abc"}, UNKNOWN, REVISION),
        ({BLOCK: 32}, NO, BLOCK),
    ],
)
def test_cohorts_with_equal_hashes_share_only_with_equal_weights_in_equal_blocks(
    settings: Mapping[str, Any], share: Share, path: str
) -> None:
    """A folder may contain the model with a different name."""
    verdict = verdict_of(({}, ["a", "a"]), (settings, ["a"]))
    cell = verdict.cells[-1]

    assert (cell.share, verdict.share, cell.paths, cell.is_measured) == (share, share, (path,), False)
    assert (verdict.is_split, verdict.is_unknown) == (share is NO, share is UNKNOWN)


def test_equal_hashes_name_the_settings_that_differ_and_ignored_settings_are_no_cause() -> None:
    seeded = {POLICY: "environment", "version": "0.31.0"}
    ignored = verdict_of(({BLOCK: 16}, [[]]), ({BLOCK: 32}, [[]]), ignore=[BLOCK])

    assert pair(({POLICY: "default"}, ["a", "a"]), (seeded, ["a"])).paths == ("version", POLICY)
    assert {cell.cause for cell in ignored.cells} == {SharingCause.NOT_MEASURED}


def test_a_second_address_of_a_process_is_not_counted() -> None:
    pool, documents, replicas = pool_of_cohorts(({}, ["a", "a"]))
    first, second = replicas.values()
    same = {first.id: first, second.id: replace(second, same_process=(first.id,))}

    assert sharing_verdict(pool, same, documents).cohorts[0].replicas == 1


def test_a_version_proves_nothing_even_where_only_a_stale_replica_has_it() -> None:
    """Only a setting or a digest proves that replicas do not share. The pool has no difference: stale has no vote."""
    stale = verdict_of(({}, [SILENT] * 2), ({"version": "0.31.0"}, [SILENT]), stale=["r1-0"])

    assert stale.pool.differences == ()
    assert (stale.share, stale.is_split, stale.is_certain) == (UNKNOWN, True, False)


def test_every_certain_verdict_has_a_cell_that_proves_it() -> None:
    """Law over drawn pools, many of them with stale replicas."""
    for pool, documents, replicas in drawn_pools(300, seed=2):
        verdict = sharing_verdict(pool, replicas, documents)
        proofs = {cell.share for cell in verdict.cells} & {NO, PARTLY}
        assert verdict.is_certain == (bool(proofs) and not verdict.is_off) or len(verdict.cohorts) > MOST_COHORTS


def test_groups_are_the_cohorts_with_equal_hashes_on_all_engines() -> None:
    verdict = verdict_of(({}, ["a"] * 5), ({}, ["b"] * 4), ({}, ["a"] * 3), ({}, ["x", "y"]), ({}, ["b", SILENT]))

    assert verdict.groups == (("A", "C"), ("B",))
    assert [[each.letter for each in group] for group in verdict.classes] == [["A", "C"], ["B", "E"]]
    assert (verdict.ways, verdict.silent) == (4, 1)
    unread = verdict_of(({}, ["a", "a"]), unread=1)
    assert (unread.unread, unread.silent, unread.share) == (1, 1, UNKNOWN)


def test_names_in_place_of_letters_change_no_verdict() -> None:
    verdict = verdict_of(({}, ["a", "a"]), ({}, ["b"]))
    named = verdict.renamed({"A": "gpu-1, gpu-2", "B": "gpu-3"})

    assert [each.letter for each in named.cohorts] == ["gpu-1, gpu-2", "gpu-3"]
    assert [(each.one, each.other) for each in named.cells if each.one != each.other] == [("gpu-1, gpu-2", "gpu-3")]
    assert [each.share for each in named.cells] == [each.share for each in verdict.cells]
    assert named.groups == (("gpu-1, gpu-2",), ("gpu-3",))


def test_more_than_a_dozen_cohorts_have_a_verdict_without_cells() -> None:
    alike: list[Cohort] = [({}, ["a"])] * MOST_COHORTS

    assert len(verdict_of(*alike).cells) == MOST_COHORTS * (MOST_COHORTS + 1) // 2
    assert verdict_of(*alike, *alike).cells == ()
    assert verdict_of(*alike, *alike).share is YES
    assert verdict_of(*alike, ({}, ["b"])).share is NO
    assert verdict_of(*alike, ({}, [SILENT])).share is UNKNOWN


def test_a_thousand_hashes_within_one_cohort_are_one_cell() -> None:
    (cell,) = verdict_of(({}, [[f"digest {number}"] for number in range(1000)])).cells

    assert (cell.share, cell.cause, cell.ways) == (NO, SharingCause.RANDOM_SEED, 1000)


@pytest.mark.parametrize(
    ("cohorts", "expected"),
    [
        ([({}, ["a"] * 3)], (YES, False, False, 0)),
        ([({CACHING: False}, [SILENT] * 3)], (NO, False, False, 0)),
        ([({}, [SILENT] * 3), ({"version": "0.31.0"}, [SILENT])], (UNKNOWN, False, False, 4)),
        ([({}, [SILENT] * 3), ({BLOCK: 32}, [SILENT])], (NO, True, False, 0)),
        ([(XXHASH, [SILENT] * 3)], (UNKNOWN, False, True, 3)),
        ([(XXHASH, ["a", "a", SILENT])], (UNKNOWN, False, True, 1)),
        ([(XXHASH, [SILENT])], (UNKNOWN, False, False, 1)),
        ([({}, [SILENT] * 2), ({BLOCK: ABSENT}, [SILENT])], (UNKNOWN, False, False, 3)),
    ],
)
def test_the_verdict_counts_unknown_replicas_and_is_certain_only_with_a_proof(
    cohorts: Sequence[Cohort], expected: tuple[Share, bool, bool, int]
) -> None:
    verdict = verdict_of(*cohorts)

    assert (verdict.share, verdict.is_certain, verdict.is_doubted, verdict.not_known) == expected


MARKS = st.sampled_from([None, "a", "b", "c", EngineFingerprint("a", "d"), EngineFingerprint(None, "e"), OFF])
REPLICA_MARKS = st.lists(st.lists(MARKS, max_size=3), min_size=1, max_size=4)
SETTINGS = st.sampled_from([{}, {BLOCK: 32}, {"version": "0.31.0"}, {CACHING: False}, RANDOM])


def _cohort(settings: Mapping[str, Any], replicas: Sequence[Sequence[Mark]]) -> CohortHashes:
    return verdict_of((settings, replicas)).cohorts[0]


@given(SETTINGS, REPLICA_MARKS, SETTINGS, REPLICA_MARKS)
def test_sharing_is_mutual(
    mine: Mapping[str, Any], replicas: list[list[Mark]], yours: Mapping[str, Any], others: list[list[Mark]]
) -> None:
    one, other = _cohort(mine, replicas), _cohort(yours, others)

    assert compare_cohorts(one, other)[2:] == compare_cohorts(other, one)[2:]


@given(SETTINGS, SETTINGS, st.integers(1, 3), st.integers(1, 3))
def test_equal_digests_share_where_blocks_are_equal(
    mine: Mapping[str, Any], yours: Mapping[str, Any], few: int, more: int
) -> None:
    both = _cohort(mine, [["a"]] * few), _cohort(yours, [["a", "a"]] * more)
    has_equal_blocks = mine.get(BLOCK) == yours.get(BLOCK)

    assert {compare_cohorts(one, one).share for one in both} == {YES}
    assert compare_cohorts(*both).share is (YES if has_equal_blocks else NO)


def grouped(drawn: DrawnPool, *sizes: Sequence[int]) -> SharingVerdict:
    """The verdict on a pool whose replicas report KV cache groups of these block sizes; those with none report none."""
    replicas = {
        key: replace(
            each,
            kv_cache_groups=tuple(
                KVCacheGroup(0, number, "FullAttentionSpec", size, 65536, 8) for number, size in enumerate(own)
            ),
        )
        for (key, each), own in zip(drawn.replicas.items(), sizes, strict=True)
    }
    return sharing_verdict(drawn.pool, replicas, drawn.documents)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([64], [128], (NO, SharingCause.BLOCKS)),
        ([64, 64], [64], (YES, SharingCause.EQUAL_HASHES)),
        ([16, 256], [16, 256], (YES, SharingCause.EQUAL_HASHES)),
        ([16, 256], [16, 512], (NO, SharingCause.BLOCKS)),
        ([16], [], (YES, SharingCause.EQUAL_HASHES)),
        ([32], [], (NO, SharingCause.BLOCKS)),
        ([16, 256], [], (UNKNOWN, SharingCause.BLOCKS_UNKNOWN)),
    ],
)
def test_one_hash_names_other_tokens_where_the_blocks_of_a_group_are_other(
    first: Sequence[int], second: Sequence[int], expected: tuple[Share, SharingCause]
) -> None:
    """A replica without groups has a block size of 16: that of its smallest group."""
    drawn = pool_of_cohorts(({}, ["a"]), ({}, ["a"]))
    cell = next(each for each in grouped(drawn, first, second).cells if each.one != each.other)

    assert (cell.share, cell.cause) == expected


def test_a_folder_copy_of_a_pinned_model_shares_where_hashes_are_measured() -> None:
    pinned, copy = {MODEL: "org/llama", REVISION: "abc"}, {MODEL: "llama", REVISION: None}
    whole = {MODEL: setting("/mnt/a/llama")}

    for marks, expected in (("a", YES), (None, UNKNOWN)):
        pool, documents, replicas = pool_of_cohorts((pinned, [[marks]] * 3), (copy, [[marks]]))
        known = {key: replace(each, identity=whole) if each.name == "r1-0" else each for key, each in replicas.items()}
        assert sharing_verdict(pool, known, documents).share is expected


def test_a_snapshot_of_the_pinned_revision_is_that_revision() -> None:
    pinned, other = {REVISION: "abc"}, {REVISION: "def"}
    snapshot = {SNAPSHOT: "abc", REVISION: None}

    assert pair((pinned, ["a", "a"]), (snapshot, ["a"])).share is YES
    assert pair((other, ["a", "a"]), (snapshot, ["a"])).paths == (REVISION,)


@given(SETTINGS, REPLICA_MARKS, SETTINGS, REPLICA_MARKS, st.lists(MARKS, max_size=3))
def test_one_more_replica_never_turns_no_into_yes(
    mine: Mapping[str, Any],
    replicas: list[list[Mark]],
    yours: Mapping[str, Any],
    others: list[list[Mark]],
    more: list[Mark],
) -> None:
    one, other, larger = _cohort(mine, replicas), _cohort(yours, others), _cohort(mine, [*replicas, more])

    for before, after in (((one, one), (larger, larger)), ((one, other), (larger, other))):
        assert (compare_cohorts(*before).share, compare_cohorts(*after).share) != (NO, YES)


@given(REPLICA_MARKS)
def test_yes_needs_the_same_digest_from_every_engine_of_every_replica(replicas: list[list[Mark]]) -> None:
    digests = {mark.engine if isinstance(mark, EngineFingerprint) else mark for marks in replicas for mark in marks}
    share = verdict_of(({}, replicas)).cells[0].share

    assert (share is YES) == (len(digests) == 1 and None not in digests and all(replicas))


@given(st.lists(st.tuples(SETTINGS, REPLICA_MARKS), min_size=1, max_size=4))
def test_the_verdict_on_a_pool_is_its_weakest_cell(cohorts: list[Cohort]) -> None:
    verdict = verdict_of(*cohorts)
    found = {cell.share for cell in verdict.cells}
    weakest = NO if found & {NO, PARTLY} else UNKNOWN if UNKNOWN in found else YES

    assert verdict.share is weakest
