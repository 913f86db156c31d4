"""Replicas that were added, removed, restarted or changed; KV cache before and after. Each process counts once."""

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest

from dashboard.analysis.changes.comparison import is_beyond
from dashboard.analysis.changes.models import REPLICA_FIELDS
from dashboard.capacity.outliers import TOLERANCE
from dashboard.fleet import Basis, Replica
from tests.analysis.changes.sides import NEW, OLD, RESTARTED, between, chat, ids, one_process
from tests.builders import GIB, down, engine, replica


def names(replicas: Iterable[Replica]) -> list[str]:
    return [each.name for each in replicas]


def test_a_replica_of_one_side_is_added_or_removed() -> None:
    replicas = between(chat(3), [*chat(2), replica("new", pool="embed", document=OLD)]).replicas

    assert (names(replicas.added), names(replicas.removed)) == (["new"], ["chat-03"])
    assert (replicas.added[0].pool, replicas.letters_before[replicas.removed[0].id]) == ("embed", "A")
    assert (len(replicas.both), replicas.changed) == (2, ())


def test_one_document_has_one_letter_on_both_sides() -> None:
    """These sides are of no common history: each has A as its largest cohort."""
    before, after = chat(3), [*chat(1), *chat(2, first=2, document=NEW)]
    replicas = between(before, after).replicas

    assert set(replicas.letters_before.values()) == {"B"}
    assert [replicas.letters_after[each.id] for each in after] == ["B", "A", "A"]


def test_added_replicas_are_sorted_by_pool_and_natural_order_of_the_name() -> None:
    pools = {"b-10": None, "a-10": "z", "a-9": "z", "c-1": "a"}
    added = [replica(name, pool=pool, document=OLD) for name, pool in pools.items()]

    assert names(between([], added).replicas.added) == ["c-1", "a-9", "a-10", "b-10"]


def test_another_start_time_is_a_restart_and_a_missing_one_is_unknown() -> None:
    before = [*chat(2), *chat(1, first=3, started_at=None), *chat(1, first=4)]
    after = [*chat(1), *chat(1, first=2, **RESTARTED), *chat(1, first=3), *chat(1, first=4, started_at=None)]
    replicas = between(before, after).replicas

    assert names(each.after for each in replicas.restarted) == ["chat-02"]
    assert replicas.start_unknown == ids("chat-03", "chat-04")
    assert [each.restarted for each in replicas.both] == [False, True, None, None]


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        (chat(1), [down("chat-01", started_at=None)], ["state"]),  # a replica that is down reports no version
        (chat(1), [replica("chat-01", pool="other", document=OLD, version="0.33.0")], ["version", "pool"]),
        (chat(1), [replace(chat(1)[0], name="blue")], ["name"]),
        (chat(1, version="0.32.0"), chat(1, version="0.32.0+cpu"), ["version"]),
        (chat(1, version="mine"), chat(1, version="yours"), ["version"]),
    ],
)
def test_state_version_pool_and_name_are_compared(before: Any, after: Any, fields: list[str]) -> None:
    (changed,) = between(before, after).replicas.changed

    assert [each for each in REPLICA_FIELDS if changed.differs_in(each)] == fields


def test_one_process_behind_two_addresses_counts_once() -> None:
    before, after = one_process("a", "b"), one_process("a", "b", engines=(engine(600_000),), **RESTARTED)
    changes = between(before, after)

    assert names(each.after for each in changes.replicas.restarted) == ["a"]
    assert len(between(before, []).replicas.removed) == len(between([], after).replicas.added) == 1
    assert (changes.capacity.total.before.tokens.value, len(changes.capacity.ranks)) == (1_200_000, 1)


@pytest.mark.parametrize("sides", [("ab", "b"), ("b", "ab")])
def test_a_second_address_of_a_process_is_no_added_or_removed_replica(sides: tuple[str, str]) -> None:
    before, after = (one_process(*addresses) for addresses in sides)
    replicas = between(before, after).replicas

    assert (replicas.added, replicas.removed) == ((), ())
    assert names(each.after for each in replicas.both) == ["b"]


def test_the_tolerance_is_relative_to_the_smaller_side() -> None:
    edge = round(1_000_000 * (1 + TOLERANCE))
    sizes = [(1_000_000, edge), (1_000_000, edge + 1), (edge + 1, 1_000_000), (0, 1), (0, 0)]

    assert [is_beyond(*each) for each in sizes] == [False, True, True, True, False]


def test_ranks_beyond_the_tolerance_are_listed() -> None:
    before = chat(2, engines=(engine(1_000_000), engine(1_000_000, dp_rank=1)))
    after = [
        *chat(1, engines=(engine(820_000), engine(1_010_000, dp_rank=1))),
        *chat(1, first=2, engines=(engine(1_000_000), engine(1_500_000, dp_rank=1))),
    ]
    capacity = between(before, after).capacity

    assert [(each.replica, each.dp_rank, each.before, each.after, round(each.share, 2)) for each in capacity.ranks] == [
        (*ids("chat-01"), 0, 1_000_000, 820_000, -0.18),
        (*ids("chat-02"), 1, 1_000_000, 1_500_000, 0.5),
    ]
    assert capacity.compared == 4


sums = attrgetter("ranks", "tokens.value", "bytes.value", "unknown", "unsized", "silent", "basis")


def test_sums_count_the_ranks_and_replicas_that_are_not_in_them() -> None:
    before = [*chat(2), *chat(1, first=3, engines=(engine(None, kv_cache_bytes=None), engine(5, dp_rank=1)))]
    after = [*chat(1), *chat(1, first=2, engines=(engine(7, basis=Basis.DERIVED),)), down("chat-03")]
    capacity = between(before, after).capacity
    (pool,) = capacity.pools

    assert (pool.pool, pool.before, pool.after) == ("chat", capacity.total.before, capacity.total.after)
    assert sums(pool.before) == (4, 2_400_005, 3 * 184 * GIB, 1, 1, 0, Basis.REPORTED)
    assert (pool.after.tokens.value, pool.after.silent, pool.after.basis) == (1_200_007, 1, Basis.DERIVED)
    assert pool.share is None, "not the same ranks are known"


HALF, LOST = chat(2, engines=(engine(600_000),)), down("chat-03")


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        (chat(2), HALF, -0.5),
        ([*chat(2), LOST], [*HALF, LOST], -0.5),  # the same ranks are known
        (chat(2), chat(3), 0.5),  # all ranks are known
        (chat(2), chat(2, engines=(engine(600_000, basis=Basis.ASSUMED),)), None),
        ([], chat(2), None),
        (chat(2), [LOST], None),
    ],
)
def test_sums_are_compared_only_if_they_are_comparable(before: Any, after: Any, share: float | None) -> None:
    assert between(before, after).capacity.total.share == share


def test_an_upper_bound_is_compared_with_upper_bounds_only() -> None:
    bound = engine(2_400_000, basis=Basis.ASSUMED)
    capacity = between(chat(1), chat(1, engines=(bound,))).capacity
    both = between(chat(1, engines=(engine(basis=Basis.ASSUMED),)), chat(1, engines=(bound,))).capacity

    assert (capacity.ranks, capacity.compared, capacity.incomparable) == ((), 0, 1)
    assert [each.is_at_most for each in both.ranks] == [True]


def test_pools_are_sorted_by_name_with_replicas_without_a_pool_last() -> None:
    before = [replica("x", pool=None, document=OLD), replica("b", pool="b", document=OLD)]
    pools = between(before, [replica("a", pool="a", document=OLD)]).capacity.pools

    assert [each.pool for each in pools] == ["a", "b", None]
    assert (pools[0].before.tokens.value, pools[1].after.ranks) == (None, 0)


@pytest.mark.parametrize("after", [chat(1, fresh=False), chat(1, engines=())])
def test_a_replica_without_engine_data_is_silent_and_not_compared(after: Any) -> None:
    capacity = between(chat(1), after).capacity

    assert sums(capacity.total.after) == (0, None, None, 0, 0, 1, Basis.UNKNOWN)
    assert (capacity.ranks, capacity.compared, capacity.incomparable) == ((), 0, 0)
