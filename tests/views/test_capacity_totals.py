"""Capacity added up says on what basis, and never counts what is not there."""

import pytest

from dashboard.fleet import Basis
from dashboard.views.capacity_data import device_words, short_device, total
from tests.builders import GIB, devices, down, engine, replica


def test_tokens_bytes_and_devices_are_summed_over_ranks() -> None:
    """Each rank counts once."""
    two = replica("a", engines=(engine(100, dp_rank=0), engine(200, dp_rank=1)), devices=devices(8))

    assert total([two])[:4] == (300, 368 * GIB, 8, 2)


@pytest.mark.parametrize(
    ("bases", "basis"),
    [
        ((Basis.REPORTED, Basis.REPORTED), Basis.REPORTED),
        ((Basis.REPORTED, Basis.DERIVED), Basis.DERIVED),
        ((Basis.DERIVED, Basis.ASSUMED), Basis.ASSUMED),
    ],
)
def test_a_sum_is_as_sure_as_its_weakest_part(bases: tuple[Basis, Basis], basis: Basis) -> None:
    """One upper bound makes an upper bound of the sum."""
    assert total([replica("a", engines=tuple(engine(1, basis=each) for each in bases))]).basis is basis


def test_what_is_not_known_is_counted_and_not_added_as_zero() -> None:
    """None stays None when nobody tells."""
    silent = engine(None, basis=Basis.UNKNOWN, kv_cache_bytes=None)

    assert total([replica("a", engines=(engine(5), silent))])[0] == 5
    assert total([replica("a", engines=(engine(5), silent))]).unknown == 1
    assert total([replica("a", engines=(silent,))])[:2] == (None, None)
    assert total([]).basis is Basis.UNKNOWN


def test_a_replica_that_is_gone_serves_nothing() -> None:
    """What a stale replica last said is not capacity of now."""
    stale = down("a", engines=(engine(5),), devices=devices(4))

    assert total([stale])[:4] == (None, None, 0, 0)


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
def test_devices_are_called_as_people_call_them(name: str, short: str) -> None:
    """Vendor, socket and memory are left out."""
    assert short_device(name) == short


def test_the_devices_of_one_engine_are_counted_and_kinds_are_named() -> None:
    """TP 4 on H100 is `H100 ×4`, however many replicas and ranks there are."""
    two_ranks = replica("a", devices=(*devices(4, dp_rank=0), *devices(4, dp_rank=1)))

    assert device_words([two_ranks, replica("b")]) == "H100 ×4"
    assert device_words([replica("a"), replica("b", devices=devices(1, "NVIDIA L40S"))]) == "H100 ×4, L40S ×1"
    assert device_words([replica("a", devices=())]) == ""


def test_what_runs_on_cpus_is_not_said_to_run_on_gpus() -> None:
    cpus = replica("a", devices=devices(2, "cpu"))
    assert total([replica("a")]).noun == "GPU"
    assert total([cpus]).noun == "device"
    assert total([replica("b"), cpus]).noun == "device"


def test_bytes_that_only_some_tell_are_what_there_is_at_least() -> None:
    """A stock vLLM names neither bytes nor devices: a sum without it is no total."""
    stock = replica("b", engines=(engine(5, kv_cache_bytes=None),), devices=())

    assert total([replica("a")]).whole
    assert not total([replica("a"), stock]).whole


def test_one_process_behind_two_addresses_is_added_once() -> None:
    """Else a load balancer's address in the list would double a replica."""
    first = replica("a", engines=(engine(100),), same_process=("http://b:8000",))
    second = replica("b", engines=(engine(100),), same_process=("http://a:8000",))

    assert total([first, second]).tokens == 100


def test_engines_that_share_a_sum_add_it_once() -> None:
    both = tuple(engine(1_572_864, basis=Basis.ASSUMED, dp_rank=rank, shares_sum=True) for rank in (0, 1))

    found = total([replica("a", engines=both), replica("b", engines=(engine(1000),))])

    assert (found.tokens, found.engines, found.unknown, found.basis) == (1_573_864, 3, 0, Basis.ASSUMED)
