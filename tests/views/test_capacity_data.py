"""Capacity per rank, per pool and in total: what is counted, its unit, its basis, and why a number is unknown."""

import pytest

from dashboard.fleet import Basis, Engine, KVCacheGroup, Replica
from dashboard.views.capacity_data import (
    GIB,
    NO_BYTES,
    NO_NUMBER_OF_GPUS,
    NO_REQUESTS,
    NOT_REPORTED,
    NOT_SERVED_AT_LENGTH,
    Measure,
    PoolCapacity,
    Rank,
    Sum,
    device_words,
    pools_of,
    ranks_of,
    short_device,
    total,
)
from tests.builders import alike, devices, document, down, engine, fleet, replica

DOCUMENT = document({"parallel_config.decode_context_parallel_size": 1})
UNKNOWN = engine(None, basis=Basis.UNKNOWN, kv_cache_bytes=None, reason="Because.")
SECOND_ADDRESS = (  # one process behind two addresses, such as a load balancer's
    replica("a", engines=(engine(100),), same_process=("http://b:8000",)),
    replica("b", engines=(engine(100),), same_process=("http://a:8000",)),
)
# Both engines report the sum of both: the capacity of each is bounded by it.
SHARED_SUM = tuple(engine(1_572_864, basis=Basis.ASSUMED, dp_rank=rank, shares_sum=True) for rank in (0, 1))
HYBRID = (
    KVCacheGroup(0, 0, "full_attention", 16, 65_536, 8),
    KVCacheGroup(0, 1, "sliding_window", 16, 65_536, 8, sliding_window=1024),
)


def ranks(*members: Replica, length: int | None = None, measure: Measure = Measure.TOKENS) -> tuple[Rank, ...]:
    return ranks_of(fleet(members, [DOCUMENT]), length, measure)


def outliers(*members: Replica) -> dict[str, float]:
    """Return the shares of the outliers above the median, by replica."""
    return {rank.replica.name: rank.off for rank in ranks(*members) if rank.off is not None}


def pool(*members: Replica, length: int | None = None) -> PoolCapacity:
    (found,) = pools_of(ranks(*members, length=length))
    return found


def test_a_rank_has_its_cohort_and_the_kind_of_most_of_its_devices() -> None:
    mixed = (*devices(1, "L40S", dp_rank=1), *devices(3, "H200", dp_rank=1)[1:])
    found = ranks(replica("a", document=DOCUMENT, engines=(engine(), engine(dp_rank=1)), devices=mixed))

    assert [(rank.engine.dp_rank, rank.letter, rank.device, rank.counts) for rank in found] == [
        (0, "A", "", True),
        (1, "A", "H200", True),
    ]


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
    assert rank.is_at_most


def test_only_assumed_tokens_and_their_requests_are_upper_bounds() -> None:
    """Bytes come from KV cache groups, which are reported."""
    assumed = replica(engines=(engine(basis=Basis.ASSUMED),))

    assert [rank.is_at_most for measure in Measure for rank in ranks(assumed, measure=measure)] == [True, False, True]


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

    assert (rank.value, rank.reason) == (None, reason)


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


def test_a_pool_sums_its_ranks() -> None:
    found = pool(replica("a", engines=(engine(100), engine(200, dp_rank=1))), replica("b", engines=(engine(300),)))

    assert (found.ranks, found.tokens.value, found.tokens.known, found.gib.value) == (3, 600, 3, 3 * 184)
    assert (found.basis, found.tokens.at_most) == (Basis.REPORTED, False)


def test_one_upper_bound_makes_the_sum_an_upper_bound() -> None:
    found = pool(replica("a"), replica("b", engines=(engine(basis=Basis.ASSUMED),)))

    assert (found.basis, found.tokens.at_most, found.requests.at_most) == (Basis.ASSUMED, True, True)
    assert not found.gib.at_most


def test_unknown_ranks_are_counted_and_add_nothing() -> None:
    some, none = pool(replica("a"), replica("b", engines=(UNKNOWN,))), pool(replica("b", engines=(UNKNOWN,)))

    assert (some.ranks, some.tokens.known, some.gib.known, some.basis) == (2, 1, 1, Basis.REPORTED)
    assert some.reasons == ("Because.",)
    assert (none.tokens.value, none.requests.value, none.basis, none.naive) == (None, None, Basis.UNKNOWN, None)


def test_ranks_that_do_not_serve_the_length_are_counted() -> None:
    found = pool(*alike("chat", 2, DOCUMENT), length=262_144)

    assert (found.not_served, found.requests.value) == (2, None)


def test_the_naive_estimate_is_compared_with_reported_tokens_only() -> None:
    """Assumed tokens are the naive estimate itself."""
    found = pool(
        replica("a", engines=(engine(100, naive_tokens=630),)),
        replica("b", engines=(engine(5_000, basis=Basis.ASSUMED),)),
    )

    assert (found.naive, found.naive_of) == (630, 100)


def test_groups_that_do_not_keep_every_token_are_counted() -> None:
    assert pool(replica("a", kv_cache_groups=HYBRID)).window == (1, 2)
    assert pool(replica("a")).window == (0, 0)


def test_a_replica_without_a_pool_is_in_no_sum() -> None:
    assert pools_of(ranks(replica(pool=None))) == ()


def test_stale_replicas_and_second_addresses_add_nothing() -> None:
    stale = down("a", engines=(engine(5),), devices=devices(4))

    assert pool(replica("a"), replica("b", fresh=False)).tokens.value == 1_200_000
    assert (pool(*SECOND_ADDRESS).ranks, pool(*SECOND_ADDRESS).tokens.value) == (1, 100)
    assert total(SECOND_ADDRESS).tokens == 100
    assert total([stale])[:4] == (None, None, 0, 0)


def test_engines_that_share_a_sum_add_it_once() -> None:
    members = [replica("a", engines=SHARED_SUM), replica("b", engines=(engine(1000),))]
    found, summed = total(members), pool(*members)

    assert (found.tokens, found.engines, found.unknown, found.basis) == (1_573_864, 3, 0, Basis.ASSUMED)
    assert (summed.ranks, summed.tokens) == (3, (1_573_864, 3, True))


def test_a_total_sums_tokens_bytes_and_devices() -> None:
    two = replica("a", engines=(engine(100, dp_rank=0), engine(200, dp_rank=1)), devices=devices(8))

    assert total([two])[:4] == (300, 368 * GIB, 8, 2)


@pytest.mark.parametrize(
    ("bases", "basis"),
    [
        ((Basis.REPORTED, Basis.REPORTED), Basis.REPORTED),
        ((Basis.REPORTED, Basis.DERIVED), Basis.DERIVED),
        ((Basis.DERIVED, Basis.ASSUMED), Basis.ASSUMED),
        ((), Basis.UNKNOWN),
    ],
)
def test_the_basis_of_a_total_is_the_weakest(bases: tuple[Basis, ...], basis: Basis) -> None:
    assert total([replica("a", engines=tuple(engine(1, basis=each) for each in bases))]).basis is basis


def test_unknown_engines_are_counted_in_a_total_and_not_added_as_zero() -> None:
    some, none = total([replica("a", engines=(engine(5), UNKNOWN))]), total([replica("a", engines=(UNKNOWN,))])

    assert (some.tokens, some.unknown) == (5, 1)
    assert none[:2] == (None, None)


def test_a_total_without_bytes_or_devices_of_some_is_a_lower_bound() -> None:
    """Stock vLLM reports neither."""
    stock = replica("b", engines=(engine(5, kv_cache_bytes=None),), devices=())

    assert total([replica("a")]).whole
    assert not total([replica("a"), stock]).whole


def test_a_cpu_is_a_device_and_not_a_gpu() -> None:
    cpus = replica("a", devices=devices(2, "cpu"))

    assert [total(each).noun for each in ([replica("a")], [cpus], [replica("b"), cpus])] == ["GPU", "device", "device"]


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


def test_an_engine_that_sleeps_adds_to_no_sum() -> None:
    asleep = replica("a", engines=(engine(100, sleep_level=1),))
    awake = replica("b", engines=(engine(100),))

    assert [rank.counts for rank in ranks(asleep, awake)] == [False, True]
    assert pool(asleep, awake).tokens == Sum(100, 1, at_most=False)
    assert (total([asleep, awake]).tokens, total([asleep]).tokens) == (100, None)
    assert asleep.adding_engines == ()
