"""The bars of Capacity: which are drawn, what they say, where the medians stand."""

from typing import Any

from dashboard.fleet import Basis
from dashboard.report.capacity.pools import pools_of
from dashboard.report.capacity.ranks import GIB, Measure, Rank, outliers_of, ranks_of
from dashboard.web.capacity_bars import (
    MOST_BARS,
    NOT_COUNTED,
    device_chart,
    devices_of,
    held_of,
    pool_chart,
    rank_chart,
)
from tests.builders import HOSTILE, alike, devices, document, engine, fleet, replica

DOCUMENT = document()


def ranks(*members: Any) -> tuple[Rank, ...]:
    """The ranks of these replicas."""
    return ranks_of(fleet(members, [DOCUMENT]), None)


def chart(*members: Any, measure: Measure = Measure.TOKENS) -> Any:
    """The bars of their ranks."""
    told = ranks(*members)
    return rank_chart(told, measure, outliers_of(told, measure))


def test_a_bar_says_whose_it_is_how_much_it_holds_and_how_that_is_known() -> None:
    (bar,) = chart(replica("chat-0", document=DOCUMENT)).bars
    assert bar.hover == ("chat-0, rank 0", "1,200,000 tokens", "basis: reported", "H100", "cohort A")
    assert (bar.group, bar.tick, bar.letter, bar.target) == ("chat-0", "0", "A", "http://chat-0:8000")


def test_an_upper_bound_is_called_so() -> None:
    (bar,) = chart(replica(engines=(engine(basis=Basis.ASSUMED),))).bars
    assert bar.at_most
    assert bar.hover[1] == "≤ 1,200,000 tokens"


def test_an_outlier_says_how_far_it_is_from_the_median() -> None:
    found = chart(*alike("chat", 4, DOCUMENT), replica("chat-9", engines=(engine(900_000),)))
    assert [bar.note for bar in found.bars] == ["", "", "", "", "−25 %"]
    assert found.bars[4].hover[1] == "900,000 tokens (−25 % from the median)"


def test_what_is_not_known_has_no_bar() -> None:
    found = chart(replica("a"), replica("b", engines=(engine(None, basis=Basis.UNKNOWN),)))
    assert [bar.group for bar in found.bars] == ["a"]


def test_what_does_not_count_is_pale_and_says_why() -> None:
    bars = chart(replica("a"), replica("b", fresh=False)).bars
    assert [bar.faint for bar in bars] == [False, True]
    assert bars[1].hover[-1] == NOT_COUNTED


def test_every_kind_of_device_has_its_median_over_its_own_bars() -> None:
    """Bars of one kind stand together, though their replicas are mixed."""
    kinds = (devices(1, "NVIDIA H100"), devices(1, "NVIDIA L40S"))
    members = [
        replica(f"r{place}", engines=(engine((100, 50)[place % 2]),), devices=kinds[place % 2]) for place in range(6)
    ]
    found = chart(*members)
    assert [(level.label, level.first, level.last) for level in found.levels] == [
        ("H100: median 100", 0, 2),
        ("L40S: median 50", 3, 5),
    ]
    assert [bar.value for bar in found.bars] == [100, 100, 100, 50, 50, 50]


def test_one_kind_alone_needs_no_name_at_its_median() -> None:
    assert [level.label for level in chart(*alike("chat", 3, DOCUMENT)).levels] == ["median 1.20 M"]


def test_two_ranks_have_no_median() -> None:
    assert chart(*alike("chat", 2, DOCUMENT)).levels == ()


def test_of_too_many_ranks_those_that_hold_least_are_drawn() -> None:
    members = [replica(f"r{index}", engines=(engine(1000 + index),)) for index in range(MOST_BARS + 10)]
    found = chart(*reversed(members))
    assert len(found.bars) == MOST_BARS
    assert found.left_out == 10
    assert max(bar.value for bar in found.bars) == 1000 + MOST_BARS - 1


def test_devices_are_drawn_as_kv_cache_inside_memory() -> None:
    found = device_chart(devices_of(ranks(replica("chat-0", document=DOCUMENT))))
    assert [(bar.tick, bar.value, bar.whole) for bar in found.bars] == [(str(gpu), 46, 80) for gpu in range(4)]
    assert found.bars[3].hover[:2] == ("chat-0, rank 0, device 3", "46.0 of 80 GiB")


def test_a_device_of_unknown_kv_cache_shows_its_memory_only() -> None:
    bare = replica(engines=(engine(kv_cache_bytes_per_device=None),), devices=devices(1))
    (bar,) = device_chart(devices_of(ranks(bare))).bars
    assert (bar.value, bar.whole, bar.hover[1]) == (None, 80, "not known of 80 GiB")


def test_a_device_that_holds_less_than_its_kind_is_an_outlier() -> None:
    short = replica("chat-9", engines=(engine(kv_cache_bytes_per_device=30 * GIB),), devices=devices(1))
    bars = device_chart(devices_of(ranks(*alike("chat", 2, DOCUMENT), short))).bars
    assert [bar.note for bar in bars] == [""] * 8 + ["−35 %"]


def test_a_device_without_memory_is_left_out() -> None:
    """Inside what should it be drawn?"""
    blind = tuple(device._replace(total_memory_bytes=None) for device in devices(2))
    assert devices_of(ranks(replica(devices=blind))) == ()


def test_devices_belong_to_their_rank() -> None:
    two = replica(engines=(engine(), engine(dp_rank=1)), devices=(*devices(1), *devices(2, dp_rank=1)))
    assert [(one.rank.engine.dp_rank, one.device.rank) for one in devices_of(ranks(two))] == [(0, 0), (1, 0), (1, 1)]


def test_a_pool_is_one_bar_with_what_blocks_x_block_size_would_say_behind_it() -> None:
    members = [replica("a", engines=(engine(100, naive_tokens=630),)), replica("b", pool="other")]
    tokens, gib = (pool_chart(pools_of(ranks(*members)), measure).bars for measure in (Measure.TOKENS, Measure.GIB))
    assert [(bar.group, bar.value, bar.whole) for bar in tokens] == [("chat", 100, 630), ("other", 1_200_000, None)]
    assert tokens[0].hover[2] == "blocks × block size would say 630"
    assert [(bar.value, bar.whole) for bar in gib] == [(184, None), (184, None)]


def test_a_pool_of_which_nothing_is_known_has_no_bar() -> None:
    unknown = replica(engines=(engine(None, basis=Basis.UNKNOWN),))
    assert pool_chart(pools_of(ranks(unknown)), Measure.TOKENS).bars == ()


def test_foreign_names_are_cut_to_one_short_line() -> None:
    (bar,) = chart(replica(HOSTILE + "\n" + "x" * 500)).bars
    assert len(bar.group) <= 40
    assert "\n" not in bar.group


def test_memory_is_written_without_needless_digits() -> None:
    assert held_of(46 * GIB, 80 * GIB) == "46.0 of 80 GiB"
    assert held_of(None, None) == "not known of not known"


def read_through_the_provider() -> tuple[Any, Any]:
    """One replica with two GPUs in its engine, one with two engines of one GPU each; all bytes are told."""
    per = 46 * GIB
    two_wide = replica(
        "tp2",
        document=DOCUMENT,
        engines=(engine(kv_cache_bytes=2 * per, kv_cache_bytes_per_device=per),),
        devices=devices(2),
    )
    two_ranks = replica(
        "dp2",
        document=DOCUMENT,
        engines=tuple(
            engine(600_000, dp_rank=rank, kv_cache_bytes=per, kv_cache_bytes_per_device=per) for rank in range(2)
        ),
        devices=(*devices(1), *devices(1, dp_rank=1)),
    )
    return two_wide, two_ranks


def test_every_rank_of_a_replica_has_its_own_bar_and_none_is_a_bound() -> None:
    bars = chart(*read_through_the_provider(), measure=Measure.GIB).bars
    assert [(bar.group, bar.tick, bar.value, bar.at_most) for bar in bars] == [
        ("tp2", "0", 92, False),
        ("dp2", "0", 46, False),
        ("dp2", "1", 46, False),
    ]


def test_a_gpu_is_named_with_its_rank_where_there_are_several() -> None:
    """GPU 0 of rank 0 is another one than GPU 0 of rank 1; each holds its own share, and no engine's sum."""
    bars = device_chart(devices_of(ranks(*read_through_the_provider()))).bars
    assert {(bar.group, bar.tick, bar.value, bar.whole) for bar in bars} == {
        ("tp2", "0", 46, 80),
        ("tp2", "1", 46, 80),
        ("dp2", "0·0", 46, 80),
        ("dp2", "1·0", 46, 80),
    }
