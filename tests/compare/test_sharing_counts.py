"""How many replicas share prefixes with their pool: known pools, and laws of the number."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import Share, SharingCounts, compare_pool, count_sharing, sharing_verdict, sum_counts
from dashboard.fleet import Replica, Role, State
from tests.builders import down, setting
from tests.compare.sharing_pools import BLOCK, CACHING, OFF, SILENT, Cohort, DrawnPool, drawn_pools, pool_of_cohorts

MODEL, REVISION = "model_config.model", "model_config.revision"
ABSENT = setting(None, State.ABSENT)
RANDOM = {"seed_policy": "random"}
DRAWN = list(drawn_pools(150))


def counts_of(pool: DrawnPool, members: Sequence[Replica] | None = None, **more: Any) -> SharingCounts:
    """The counts of a drawn pool, or of other members."""
    own = list(pool.replicas.values()) if members is None else list(members)
    compared = compare_pool("chat", Role.BOTH, own, pool.documents, pool.pool.ignored)
    verdict = sharing_verdict(compared, {each.id: each for each in own}, pool.documents)
    return count_sharing(verdict, own, **more)


@pytest.mark.parametrize(
    ("cohorts", "expected"),
    [
        pytest.param([({}, ["a"] * 3)], (3, 0, 0), id="all share"),
        pytest.param([({}, ["a"] * 3), ({}, ["a"] * 2)], (5, 0, 0), id="a setting that hashes do not depend on"),
        pytest.param([({}, ["a"] * 3), ({}, ["b"] * 2)], (3, 2, 0), id="the largest set shares, the other does not"),
        pytest.param([({}, ["a", "a", "b"])], (2, 1, 0), id="two of a cohort share, the third has other hashes"),
        pytest.param([({}, ["a", "a", SILENT])], (2, 0, 1), id="a silent replica is unknown"),
        pytest.param([({}, ["a", "b", "c"])], (0, 3, 0), id="sets of one share with nobody"),
        pytest.param([({}, ["a"]), ({}, ["b"])], (0, 2, 0), id="two that differ"),
        pytest.param([({}, ["a"]), ({}, [SILENT])], (0, 0, 2), id="one that reports is alone, perhaps"),
        pytest.param([({}, [SILENT] * 3)], (0, 0, 3), id="nothing is measured"),
        pytest.param([({}, ["a"] * 2), ({BLOCK: 32}, [SILENT])], (2, 1, 0), id="settings prove that one differs"),
        pytest.param([({}, ["a"] * 2), ({BLOCK: 32}, ["a"])], (2, 1, 0), id="equal hashes in blocks of other lengths"),
        pytest.param([({}, ["a"] * 2), ({REVISION: ABSENT}, ["a"])], (2, 0, 1), id="perhaps other weights"),
        pytest.param([({REVISION: ABSENT}, ["a"] * 2)], (0, 0, 2), id="perhaps other weights within a cohort"),
        pytest.param([({}, ["a"] * 2), ({MODEL: "org/other"}, ["a"] * 3)], (3, 2, 0), id="other weights"),
        pytest.param([({MODEL: "a/m"}, ["a"] * 2), ({MODEL: "b/m"}, ["a"])], (3, 0, 0), id="a mirror of the model"),
        pytest.param([({}, [["a", "b"]] * 2)], (0, 2, 0), id="the ranks of a replica do not share"),
        pytest.param([({}, ["a"] * 2), ({}, [["a", "b"]])], (2, 1, 0), id="one of whose ranks does not share"),
        pytest.param([(RANDOM, [SILENT] * 2)], (0, 2, 0), id="random seeds"),
        pytest.param([({CACHING: False}, [[OFF]] * 3)], (0, 3, 0), id="caching is off"),
    ],
)
def test_the_largest_set_of_replicas_that_all_share_is_counted(
    cohorts: Sequence[Cohort], expected: tuple[int, int, int]
) -> None:
    counts = counts_of(pool_of_cohorts(*cohorts))

    assert counts[:3] == expected
    assert counts.excluded == 0


def test_replicas_alone_in_their_pool_or_without_a_use_of_prefixes_are_excluded() -> None:
    pair = pool_of_cohorts(({}, ["a", "a"]))
    one = pool_of_cohorts(({}, ["a"]))

    assert counts_of(pair, is_used=False) == SharingCounts(excluded=2)
    assert counts_of(one) == counts_of(one, [*one.replicas.values(), down("gone")]) == SharingCounts(excluded=1)
    assert counts_of(one).ratio is None


def test_a_replica_that_was_not_read_lately_is_not_counted() -> None:
    """Such as those of a cluster whose dashboard is down."""
    pool = pool_of_cohorts(({}, ["a"] * 3))
    one, *others = pool.replicas.values()

    assert counts_of(pool, [replace(one, fresh=False), *others]) == SharingCounts(sharing=2)
    assert counts_of(pool, [replace(each, fresh=False) for each in (one, *others)]) == SharingCounts()


def test_a_replica_that_answers_without_settings_is_unknown_and_one_that_is_down_not_counted() -> None:
    pool = pool_of_cohorts(({}, ["a", "a"]))
    partial = replace(next(iter(pool.replicas.values())), id="http://partial:8000", document=None, engines=())

    counts = counts_of(pool, [*pool.replicas.values(), partial, down("gone")])

    assert counts == SharingCounts(sharing=2, unknown=1)
    assert counts.ratio == pytest.approx(2 / 3)


def test_two_addresses_of_one_process_are_one_replica() -> None:
    pool = pool_of_cohorts(({}, ["a", "a"]))
    first, second = sorted(pool.replicas)
    same = [
        replace(pool.replicas[first], same_process=(second,)),
        replace(pool.replicas[second], same_process=(first,)),
    ]

    assert counts_of(pool, same) == SharingCounts(excluded=1)


def test_a_pool_with_a_cohort_for_each_replica_is_counted_whole() -> None:
    assert counts_of(pool_of_cohorts(*[({}, ["a"])] * 40)) == SharingCounts(sharing=40)


def test_counts_of_pools_add_up() -> None:
    assert sum_counts([SharingCounts(1, 2, 3, 4), SharingCounts(sharing=5)]) == SharingCounts(6, 2, 3, 4)
    assert sum_counts([]) == SharingCounts()


@given(pool=st.sampled_from(DRAWN))
def test_every_replica_that_answered_has_one_state_and_a_verdict_yes_means_that_all_share(pool: DrawnPool) -> None:
    counts = counts_of(pool)
    verdict = sharing_verdict(pool.pool, pool.replicas, pool.documents)

    assert sum(counts) == len(pool.replicas)
    assert counts.sharing != 1
    if counts.counted and verdict.share is Share.YES and not verdict.unread:
        assert counts.sharing == counts.counted
    if counts.counted and counts.sharing == counts.counted:
        assert verdict.share in {Share.YES, Share.UNKNOWN}


@given(pool=st.sampled_from(DRAWN), seed=st.integers(0, 1_000))
def test_the_order_of_replicas_has_no_meaning(pool: DrawnPool, seed: int) -> None:
    members = list(pool.replicas.values())
    shuffled = Random(seed).sample(members, len(members))  # noqa: S311  an order, no secret

    assert counts_of(pool, shuffled) == counts_of(pool)


def _copy(replica: Replica, name: str) -> Replica:
    return replace(replica, id=f"http://{name}:8000", name=name)


@given(pool=st.sampled_from(DRAWN), data=st.data())
def test_an_equal_replica_never_lowers_the_number_that_share(pool: DrawnPool, data: st.DataObject) -> None:
    members = list(pool.replicas.values())
    more = _copy(data.draw(st.sampled_from(members)), "one-more")

    assert counts_of(pool, [*members, more]).sharing >= counts_of(pool).sharing


@given(pool=st.sampled_from(DRAWN))
def test_a_copy_of_each_replica_doubles_the_number_or_proves_more(pool: DrawnPool) -> None:
    """Who is alone shares with its copy, so the number can only grow."""
    members = list(pool.replicas.values())
    twice = counts_of(pool, [*members, *(_copy(each, f"copy-{each.name}") for each in members)])

    assert twice.sharing >= 2 * counts_of(pool).sharing
    assert sum(twice) == 2 * len(members)


def test_the_drawn_pools_have_all_states() -> None:
    """So the laws are not empty."""
    found: Mapping[str, int] = sum_counts(map(counts_of, DRAWN))._asdict()

    assert all(number > 5 for number in found.values()), found
