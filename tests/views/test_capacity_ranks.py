"""What Capacity says of each DP rank."""

import pytest

from dashboard.fleet import Basis, KVCacheGroup
from dashboard.views.capacity_data import (
    GIB,
    NO_BYTES,
    NO_NUMBER_OF_GPUS,
    NO_REQUESTS,
    NOT_REPORTED,
    NOT_SERVED_AT_LENGTH,
    Measure,
    is_at_most,
    outliers_of,
    ranks_of,
    value,
    why_unknown,
)
from tests.builders import alike, devices, document, engine, fleet, replica

DOCUMENT = document()


def test_every_rank_of_every_replica_is_told_with_its_cohort_and_devices() -> None:
    two = replica("a", document=DOCUMENT, engines=(engine(), engine(dp_rank=1)), devices=devices(2, "H200", dp_rank=1))
    ranks = ranks_of(fleet([two], [DOCUMENT]), None)
    assert [(rank.engine.dp_rank, rank.letter, rank.kind, rank.counts) for rank in ranks] == [
        (0, "A", "", True),
        (1, "A", "H200", True),
    ]


def test_the_kind_of_a_rank_is_what_most_of_its_devices_are() -> None:
    mixed = (*devices(1, "A"), *devices(3, "B")[1:])
    assert ranks_of(fleet([replica(devices=mixed)]), None)[0].kind == "B"


def test_values_have_the_unit_that_is_asked_for() -> None:
    rank = ranks_of(fleet([replica(engines=(engine(kv_cache_bytes=3 * GIB),))]), None)[0]
    assert value(rank, Measure.TOKENS) == 1_200_000
    assert value(rank, Measure.GIB) == 3
    assert value(rank, Measure.REQUESTS) == pytest.approx(1_200_000 / 131_072)


def test_at_a_common_length_requests_follow_the_tokens() -> None:
    rank = ranks_of(fleet([replica(document=DOCUMENT)], [DOCUMENT]), 32_768)[0]
    assert value(rank, Measure.REQUESTS) == pytest.approx(1_200_000 / 32_768)


def test_above_its_own_length_a_rank_serves_nothing() -> None:
    rank = ranks_of(fleet([replica(document=DOCUMENT)], [DOCUMENT]), 262_144)[0]
    assert value(rank, Measure.REQUESTS) is None
    assert why_unknown(rank, Measure.REQUESTS) == NOT_SERVED_AT_LENGTH


def test_of_an_engine_of_two_kinds_of_layers_the_formula_is_asked() -> None:
    """Tokens / length would be wrong there."""
    groups = (
        KVCacheGroup(0, 0, "full_attention", 16, 65_536, 8),
        KVCacheGroup(0, 1, "sliding_window", 16, 65_536, 8, sliding_window=1024),
    )
    hybrid = replica(document=DOCUMENT, kv_cache_groups=groups, engines=(engine(naive_tokens=4_000_000),))
    rank = ranks_of(fleet([hybrid], [DOCUMENT]), 131_072)[0]
    requests = value(rank, Measure.REQUESTS)
    assert requests is not None
    assert requests < 75_000 / (131_072 / 16)
    assert is_at_most(rank, Measure.REQUESTS)  # no reply tells how many batches are in flight


def test_only_assumed_tokens_are_an_upper_bound() -> None:
    """Bytes come from KV cache groups, and those are reported."""
    rank = ranks_of(fleet([replica(engines=(engine(basis=Basis.ASSUMED),))]), None)[0]
    assert [is_at_most(rank, measure) for measure in Measure] == [True, False, True]


def test_an_unknown_value_has_a_reason() -> None:
    bare = engine(None, basis=Basis.UNKNOWN, kv_cache_bytes=None, kv_cache_bytes_per_device=None, reason="Because.")
    silent = engine(None, basis=Basis.UNKNOWN, kv_cache_bytes=None)
    odd = engine(naive_tokens=9_000_000)
    because, untold, hybrid = (
        ranks_of(fleet([replica(document=DOCUMENT, engines=(each,))], [DOCUMENT]), 4096)[0]
        for each in (bare, silent, odd)
    )
    assert [why_unknown(because, measure) for measure in Measure] == ["Because.", NO_BYTES, "Because."]
    assert why_unknown(untold, Measure.TOKENS) == NOT_REPORTED
    assert why_unknown(untold, Measure.GIB) == NO_NUMBER_OF_GPUS  # what each holds is told
    assert value(hybrid, Measure.REQUESTS) is None
    assert why_unknown(hybrid, Measure.REQUESTS) == NO_REQUESTS


def test_what_was_read_long_ago_does_not_count() -> None:
    assert not ranks_of(fleet([replica(fresh=False)]), None)[0].counts


def test_one_process_behind_two_addresses_counts_once() -> None:
    pair = [
        replica("a", same_process=("http://b:8000",)),
        replica("b", same_process=("http://a:8000",)),
    ]
    assert [rank.counts for rank in ranks_of(fleet(pair), None)] == [True, False]


def test_a_rank_that_holds_much_less_than_its_peers_is_found() -> None:
    members = alike("chat", 4, DOCUMENT)
    short = replica("chat-05", document=DOCUMENT, engines=(engine(900_000),))
    ranks = ranks_of(fleet([*members, short], [DOCUMENT]), None)
    found = outliers_of(ranks, Measure.TOKENS)
    assert list(found) == [4]
    assert found[4].share == pytest.approx(-0.25)


def test_peers_are_of_one_pool_and_one_kind_of_device() -> None:
    """An H100 beside H200 is not short."""
    many = alike("chat", 4, DOCUMENT)
    other = replica("chat-05", document=DOCUMENT, engines=(engine(900_000),), devices=devices(1, "L40S"))
    elsewhere = replica("embed-01", pool="embed", document=DOCUMENT, engines=(engine(900_000),))
    assert outliers_of(ranks_of(fleet([*many, other, elsewhere], [DOCUMENT]), None), Measure.TOKENS) == {}


def test_where_one_kind_is_told_the_untold_are_taken_to_be_of_it() -> None:
    """Most replies name no devices; their ranks still have peers."""
    members = [
        *alike("chat", 3, DOCUMENT, devices=()),
        replica("told", document=DOCUMENT, engines=(engine(900_000),), devices=devices(1, "H200")),
    ]
    assert list(outliers_of(ranks_of(fleet(members, [DOCUMENT]), None), Measure.TOKENS)) == [3]


def test_where_two_kinds_are_told_the_untold_are_peers_of_themselves() -> None:
    members = [
        *alike("chat", 3, DOCUMENT, devices=()),
        *[replica(kind, engines=(engine(900_000),), devices=devices(1, kind)) for kind in ("H100", "H200")],
    ]
    assert outliers_of(ranks_of(fleet(members, [DOCUMENT]), None), Measure.TOKENS) == {}


def test_what_does_not_count_is_no_peer() -> None:
    old = [replica(f"old-{index}", fresh=False, engines=(engine(10),)) for index in range(9)]
    ranks = ranks_of(fleet([*alike("chat", 3, DOCUMENT), *old], [DOCUMENT]), None)
    assert outliers_of(ranks, Measure.TOKENS) == {}
