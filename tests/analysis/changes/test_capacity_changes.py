"""KV cache before and after: sums that say what is not in them, and ranks that hold clearly less or more."""

import pytest

from dashboard.analysis.changes.replicas import is_beyond
from dashboard.capacity.outliers import TOLERANCE
from dashboard.fleet import Basis
from tests.analysis.changes.sides import OLD, between, chat, ids, one_process
from tests.builders import GIB, down, engine, replica


def test_a_rank_is_beyond_the_tolerance_by_the_smaller_side_and_so_both_ways() -> None:
    edge = round(1_000_000 * (1 + TOLERANCE))

    assert not is_beyond(1_000_000, edge)
    assert is_beyond(1_000_000, edge + 1)
    assert is_beyond(edge + 1, 1_000_000)
    assert is_beyond(0, 1)
    assert not is_beyond(0, 0)


def test_ranks_that_hold_clearly_less_or_more_are_named() -> None:
    before = chat(2, engines=(engine(1_000_000), engine(1_000_000, dp_rank=1)))
    after = [
        *chat(1, engines=(engine(820_000), engine(1_010_000, dp_rank=1))),
        *chat(1, first=2, engines=(engine(1_000_000), engine(1_500_000, dp_rank=1))),
    ]
    capacity = between(before, after).capacity

    assert [(each.replica, each.dp_rank, each.before, each.after) for each in capacity.ranks] == [
        (*ids("chat-01"), 0, 1_000_000, 820_000),
        (*ids("chat-02"), 1, 1_000_000, 1_500_000),
    ]
    assert [round(each.share, 2) for each in capacity.ranks] == [-0.18, 0.5]
    assert capacity.compared == 4


def test_sums_say_how_much_is_in_them_and_what_they_rest_on() -> None:
    before = [*chat(2), *chat(1, first=3, engines=(engine(None, kv_cache_bytes=None), engine(5, dp_rank=1)))]
    after = [*chat(1), *chat(1, first=2, engines=(engine(7, basis=Basis.DERIVED),)), down("chat-03")]
    capacity = between(before, after).capacity
    (pool,) = capacity.pools

    assert (pool.pool, pool.before, pool.after) == ("chat", capacity.total.before, capacity.total.after)
    assert pool.before._asdict() == {
        "ranks": 4,
        "tokens": 2_400_005,
        "bytes": 3 * 184 * GIB,
        "unknown": 1,
        "unsized": 1,
        "silent": 0,
        "basis": Basis.REPORTED,
    }
    assert (pool.after.tokens, pool.after.silent, pool.after.basis) == (1_200_007, 1, Basis.DERIVED)
    assert pool.share is None, "not the same ranks are known"


def test_a_change_is_told_of_sums_of_one_kind_only() -> None:
    half = chat(2, engines=(engine(600_000),))
    bound = chat(2, engines=(engine(600_000, basis=Basis.ASSUMED),))
    lost = down("chat-03")

    assert between(chat(2), half).capacity.total.share == -0.5
    assert between([*chat(2), lost], [*half, lost]).capacity.total.share == -0.5, "the same ranks are known"
    assert between(chat(2), chat(3)).capacity.total.share == 0.5, "all ranks are known"
    assert between(chat(2), bound).capacity.total.share is None
    assert between([], chat(2)).capacity.total.share is None
    assert between(chat(2), [lost]).capacity.total.share is None


def test_an_upper_bound_is_compared_with_upper_bounds_only() -> None:
    bound = engine(2_400_000, basis=Basis.ASSUMED)
    capacity = between(chat(1), chat(1, engines=(bound,))).capacity
    both = between(chat(1, engines=(engine(basis=Basis.ASSUMED),)), chat(1, engines=(bound,))).capacity

    assert (capacity.ranks, capacity.compared, capacity.incomparable) == ((), 0, 1)
    assert [each.is_at_most for each in both.ranks] == [True]


def test_pools_stand_by_name_and_replicas_without_one_at_the_end() -> None:
    before = [replica("x", pool=None, document=OLD), replica("b", pool="b", document=OLD)]
    capacity = between(before, [replica("a", pool="a", document=OLD)]).capacity

    assert [each.pool for each in capacity.pools] == ["a", "b", None]
    assert capacity.pools[0].before.tokens is None
    assert capacity.pools[1].after.ranks == 0


@pytest.mark.parametrize("gone", [chat(1, fresh=False), chat(1, engines=())])
def test_what_no_rank_is_known_of_is_silent_and_compared_with_nothing(gone: list[object]) -> None:
    capacity = between(chat(1), gone).capacity  # type: ignore[arg-type]

    assert capacity.total.after == (0, None, None, 0, 0, 1, Basis.UNKNOWN)
    assert (capacity.ranks, capacity.compared, capacity.incomparable) == ((), 0, 0)


def test_one_process_behind_two_addresses_holds_its_cache_once() -> None:
    changed = between(one_process("a", "b"), one_process("a", "b", engines=(engine(600_000),))).capacity

    assert changed.total.before.tokens == 1_200_000
    assert len(changed.ranks) == 1
