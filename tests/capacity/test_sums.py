"""Sums of KV cache: which ranks add to them, their basis, and what is a bound or unknown."""

import pytest

from dashboard.capacity.sums import GIB, Sum, capacity_of
from dashboard.fleet import Basis
from tests.builders import devices, down, engine, replica

UNKNOWN = engine(None, basis=Basis.UNKNOWN, kv_cache_bytes=None, reason="Because.")
SECOND_ADDRESS = (  # one process behind two addresses, such as a load balancer's
    replica("a", engines=(engine(100),), same_process=("http://b:8000",)),
    replica("b", engines=(engine(100),), same_process=("http://a:8000",)),
)
# Both engines report the sum of both: the capacity of each is bounded by it.
SHARED_SUM = tuple(engine(1_572_864, basis=Basis.ASSUMED, dp_rank=rank, shares_sum=True) for rank in (0, 1))


def test_ranks_add_up() -> None:
    two, one = replica("a", engines=(engine(100), engine(200, dp_rank=1)), devices=devices(8)), replica("b")
    found = capacity_of([two, one], "chat")

    assert (found.name, found.ranks, found.unknown, found.devices, found.basis) == ("chat", 3, 0, 12, Basis.REPORTED)
    assert found.tokens == Sum(1_200_300, 3, at_most=False)
    assert (found.bytes.value, found.gib) == (3 * 184 * GIB, Sum(3 * 184, 3, at_most=False))


def test_one_upper_bound_makes_the_sum_an_upper_bound() -> None:
    found = capacity_of([replica("a"), replica("b", engines=(engine(basis=Basis.ASSUMED),))])

    assert (found.basis, found.tokens.at_most, found.requests.at_most) == (Basis.ASSUMED, True, True)
    assert not found.gib.at_most


def test_unknown_ranks_are_counted_and_add_nothing() -> None:
    none = capacity_of([replica("b", engines=(UNKNOWN,))])
    some = capacity_of([replica("a"), replica("b", engines=(engine(5), UNKNOWN))])

    assert (some.ranks, some.unknown, some.tokens, some.gib.known) == (3, 1, Sum(1_200_005, 2, at_most=False), 2)
    assert (some.basis, some.reasons) == (Basis.REPORTED, ("Because.",))
    assert (none.tokens.value, none.requests.value, none.gib.value, none.naive) == (None, None, None, None)
    assert (none.unknown, none.basis) == (1, Basis.UNKNOWN)


def test_the_naive_estimate_is_compared_with_reported_tokens_only() -> None:
    """Assumed tokens are the naive estimate itself."""
    exact = replica("a", engines=(engine(100, naive_tokens=630),))
    found = capacity_of([exact, replica("b", engines=(engine(5_000, basis=Basis.ASSUMED),))])

    assert (found.naive, found.naive_of) == (630, 100)


def test_stale_replicas_and_second_addresses_add_nothing() -> None:
    stale = down("b", engines=(engine(5),), devices=devices(4))

    assert capacity_of([replica("a"), stale]) == capacity_of([replica("a")])._replace(silent=1)
    assert capacity_of(SECOND_ADDRESS) == capacity_of(SECOND_ADDRESS[:1])
    assert capacity_of([stale]) == capacity_of([])._replace(silent=1)


def test_engines_that_share_a_sum_add_it_once() -> None:
    first = replica("a", engines=SHARED_SUM)
    found = capacity_of([first, replica("b", engines=(engine(1000),))])

    assert (found.ranks, found.basis, found.tokens) == (3, Basis.ASSUMED, Sum(1_573_864, 3, at_most=True))
    assert found.requests.value == pytest.approx(1_573_864 / 131_072)


@pytest.mark.parametrize(
    ("bases", "basis"),
    [
        ((Basis.REPORTED, Basis.REPORTED), Basis.REPORTED),
        ((Basis.REPORTED, Basis.DERIVED), Basis.DERIVED),
        ((Basis.DERIVED, Basis.ASSUMED), Basis.ASSUMED),
        ((), Basis.UNKNOWN),
    ],
)
def test_the_basis_of_a_sum_is_the_weakest(bases: tuple[Basis, ...], basis: Basis) -> None:
    assert capacity_of([replica("a", engines=tuple(engine(1, basis=each) for each in bases))]).basis is basis


def test_sums_without_bytes_or_devices_of_some_are_lower_bounds() -> None:
    """Stock vLLM reports neither."""
    stock = replica("b", engines=(engine(5, kv_cache_bytes=None),), devices=())

    assert capacity_of([replica("a")]).whole
    assert not capacity_of([replica("a"), stock]).whole
    assert capacity_of([replica("a"), stock]).unsized == 1


def test_a_cpu_is_a_device_and_not_a_gpu() -> None:
    gpus, cpus = replica("a"), replica("b", devices=devices(2, "cpu"))

    assert [capacity_of(each).noun for each in ([gpus], [cpus], [gpus, cpus])] == ["GPU", "device", "device"]


def test_an_engine_that_sleeps_adds_to_no_sum() -> None:
    asleep, awake = replica("a", engines=(engine(100, sleep_level=1),)), replica("b", engines=(engine(100),))

    assert capacity_of([asleep, awake]).tokens == Sum(100, 1, at_most=False)
    assert capacity_of([asleep]).tokens.value is None


def test_where_the_first_of_a_shared_sum_sleeps_the_next_one_adds_it() -> None:
    first, second = SHARED_SUM
    found = capacity_of([replica("a", engines=(first._replace(sleep_level=1), second))])

    assert (found.ranks, found.tokens) == (1, Sum(1_572_864, 1, at_most=True))
