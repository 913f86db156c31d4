"""Capacity per rank and per pool: what is counted, its unit, its length, and why a number is unknown."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.capacity.sums import GIB, PoolCapacity
from dashboard.fleet import Basis, Engine, KVCacheGroup, Replica
from dashboard.views.capacity import ranks_table
from dashboard.views.capacity_text import (
    NO_BYTES,
    NO_NUMBER_OF_GPUS,
    NO_REQUESTS,
    NOT_REPORTED,
    NOT_SERVED_AT_LENGTH,
    Measure,
    pools_of,
    ranks_of,
    unknown_reason,
)
from dashboard.views.names import device_words, short_device
from tests.builders import alike, devices, document, engine, fleet, replica
from tests.used import traffic

DOCUMENT = document({"parallel_config.decode_context_parallel_size": 1})
UNKNOWN = engine(None, basis=Basis.UNKNOWN, kv_cache_bytes=None, reason="Because.")
SECOND_ADDRESS = (  # one process behind two addresses, such as a load balancer's
    replica("a", engines=(engine(100),), same_process=("http://b:8000",)),
    replica("b", engines=(engine(100),), same_process=("http://a:8000",)),
)
HYBRID = (
    KVCacheGroup(0, 0, "full_attention", 16, 65_536, 8),
    KVCacheGroup(0, 1, "sliding_window", 16, 65_536, 8, sliding_window=1024),
)


def ranks(*members: Replica, length: int | None = None, measure: Measure = Measure.TOKENS) -> list[Any]:
    return ranks_of(fleet(members, [DOCUMENT]), length, measure)


def sums(*members: Replica, length: int | None = None) -> tuple[PoolCapacity, ...]:
    found = fleet(members, [DOCUMENT])
    return pools_of(found, ranks_of(found, length), length)


def outliers(*members: Replica) -> dict[str, float]:
    """Return the shares of the outliers above the median, by replica."""
    return {rank.name: rank.off for rank in ranks(*members) if rank.off is not None}


def test_a_rank_has_its_cohort_and_the_kind_of_most_of_its_devices() -> None:
    mixed = (*devices(1, "L40S", dp_rank=1), *devices(3, "H200", dp_rank=1)[1:])
    found = ranks(replica("a", document=DOCUMENT, engines=(engine(), engine(dp_rank=1)), devices=mixed))

    assert [(rank.dp_rank, rank.cohort, rank.device, rank.counts) for rank in found] == [
        (0, "A", "", True),
        (1, "A", "H200", True),
    ]


def test_a_rank_has_the_share_of_its_kv_cache_in_use_and_without_it_none() -> None:
    members = alike("chat", 2, DOCUMENT, engines=(engine(), engine(dp_rank=1)))
    used = replace(fleet(members, [DOCUMENT]), traffic={members[0].id: {1: traffic(kv_usage=0.63)}})
    found = ranks_of(used)
    table = ranks_table(found, "ranks", "Ranks")

    assert [rank.traffic.kv_usage for rank in found] == [None, 0.63, None, None]
    assert table.note == "KV cache in use, highest value in 15 min; unknown on 3 ranks."
    place = [each.title for each in table.columns].index("KV in use")
    assert [row[place].text for row in table.rows] == ["unknown", "63%", "unknown", "unknown"]
    assert "KV in use" not in [each.title for each in ranks_table(ranks(*members), "ranks", "Ranks").columns]


def test_a_value_has_the_unit_of_its_measure() -> None:
    held = replica(engines=(engine(kv_cache_bytes=3 * GIB),))
    values = [rank.value for measure in Measure for rank in ranks(held, measure=measure)]

    assert values == [1_200_000, 3, pytest.approx(1_200_000 / 131_072)]


def test_requests_of_a_common_length_follow_from_tokens() -> None:
    (rank,) = ranks(replica(document=DOCUMENT), length=32_768, measure=Measure.REQUESTS)

    assert rank.value == pytest.approx(1_200_000 / 32_768)


def test_requests_of_a_hybrid_model_follow_from_its_kv_cache_groups() -> None:
    """Tokens divided by the length would be too many. The number of batches in flight is not reported."""
    hybrid = replica(document=DOCUMENT, kv_cache_groups=HYBRID, engines=(engine(naive_tokens=4_000_000),))
    (rank,) = ranks(hybrid, length=131_072, measure=Measure.REQUESTS)

    assert (rank.value or 0) < 75_000 / (131_072 / 16)
    assert rank.is_bound


def test_only_assumed_tokens_and_their_requests_are_upper_bounds() -> None:
    """Bytes come from KV cache groups, which are reported."""
    assumed = replica(engines=(engine(basis=Basis.ASSUMED),))

    assert [rank.is_bound for measure in Measure for rank in ranks(assumed, measure=measure)] == [True, False, True]


@pytest.mark.parametrize(
    ("one", "measure", "length", "reason"),
    [
        (UNKNOWN, Measure.TOKENS, 4096, "Because."),
        (UNKNOWN._replace(kv_cache_bytes_per_device=None), Measure.GIB, 4096, NO_BYTES),
        (UNKNOWN, Measure.REQUESTS, 4096, "Because."),
        (UNKNOWN._replace(reason=None), Measure.TOKENS, 4096, NOT_REPORTED),
        (UNKNOWN._replace(reason=None), Measure.GIB, 4096, NO_NUMBER_OF_GPUS),
        (engine(naive_tokens=9_000_000), Measure.REQUESTS, 4096, NO_REQUESTS),
        (engine(), Measure.REQUESTS, 262_144, NOT_SERVED_AT_LENGTH),
    ],
)
def test_an_unknown_value_has_a_reason(one: Engine, measure: Measure, length: int, reason: str) -> None:
    (rank,) = ranks(replica(document=DOCUMENT, engines=(one,)), length=length, measure=measure)

    assert (rank.value, unknown_reason(rank)) == (None, reason)


def test_stale_ranks_and_second_addresses_do_not_count() -> None:
    assert [rank.counts for rank in ranks(replica(fresh=False))] == [False]
    assert [rank.counts for rank in ranks(*SECOND_ADDRESS)] == [True, False]


def test_a_rank_with_much_less_than_its_peers_is_an_outlier() -> None:
    short = replica("short", engines=(engine(900_000),))

    assert outliers(*alike("chat", 4, DOCUMENT), short) == {"short": pytest.approx(-0.25)}


def test_peers_are_of_one_pool_and_one_kind_of_device_and_count() -> None:
    few = (engine(900_000),)
    others = [
        replica("chat-05", engines=few, devices=devices(1, "L40S")),
        replica("embed-01", pool="embed", engines=few),
        *(replica(f"stale-{place}", fresh=False, engines=(engine(10),)) for place in range(9)),
    ]

    assert outliers(*alike("chat", 4, DOCUMENT), *others) == {}


@pytest.mark.parametrize(("kinds", "found"), [(["H200"], ["H200"]), (["H100", "H200"], [])])
def test_ranks_without_devices_are_peers_of_the_only_reported_kind(kinds: list[str], found: list[str]) -> None:
    """Most replies report no devices. With two reported kinds, theirs is unknown."""
    reporting = [replica(kind, engines=(engine(900_000),), devices=devices(1, kind)) for kind in kinds]

    assert list(outliers(*alike("chat", 3, DOCUMENT, devices=()), *reporting)) == found


def test_ranks_that_do_not_serve_the_length_are_counted() -> None:
    (found,) = sums(*alike("chat", 2, DOCUMENT), length=262_144)

    assert (found.ranks, found.not_served, found.requests.value) == (2, 2, None)


def test_requests_of_a_pool_have_the_chosen_length() -> None:
    (found,), (own,) = (sums(*alike("chat", 2, DOCUMENT), length=length) for length in (32_768, None))

    assert found.requests.value == pytest.approx(2 * 1_200_000 / 32_768)
    assert found == own._replace(requests=found.requests)


def test_a_replica_without_a_pool_is_in_no_sum() -> None:
    assert sums(replica(pool=None)) == ()


def test_a_pool_without_ranks_that_count_is_left_out() -> None:
    assert sums(replica("a", fresh=False)) == sums(replica("a", engines=())) == ()


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA H200", "H200"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090"),
        ("cpu", "cpu"),
        ("", ""),
    ],
)
def test_a_short_device_name_has_no_vendor_socket_and_memory(name: str, short: str) -> None:
    assert short_device(name) == short


def test_devices_are_counted_per_engine() -> None:
    """TP 4 on H100 is `H100 ×4` for any number of replicas and ranks."""
    two_ranks = replica("a", devices=(*devices(4, dp_rank=0), *devices(4, dp_rank=1)))

    assert device_words([two_ranks, replica("b")]) == "H100 ×4"
    assert device_words([replica("a"), replica("b", devices=devices(1, "NVIDIA L40S"))]) == "H100 ×4, L40S ×1"
    assert device_words([replica("a", devices=())]) == ""


def test_an_engine_that_sleeps_does_not_count() -> None:
    asleep = replica("a", engines=(engine(100, sleep_level=1),))

    assert [rank.counts for rank in ranks(asleep, replica("b"))] == [False, True]
