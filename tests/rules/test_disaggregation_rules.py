"""Rules on prefill and decode: hosts and partners."""

from dataclasses import replace

import pytest

from dashboard.rules.catalogue import BY_ID
from dashboard.rules.disaggregation.roles import partners
from dashboard.rules.domain import PoolDeclaration
from dashboard.rules.subject import PoolSubject
from tests.rules.case import pool, whole

SIDE_CHANNEL = "env.VLLM_NIXL_SIDE_CHANNEL_HOST"


def nixl_pool(name: str, first: int, *, is_local: bool) -> PoolSubject:
    """Return a NIXL pool with two replicas, of which all have a loopback address or each has its own."""
    entry = {"settings": {"kv_transfer_config.kv_connector": "NixlConnector"}, "identity": {SIDE_CHANNEL: "localhost"}}
    subject = pool({"replicas": 2, **entry}, name=name, declared=PoolDeclaration(disaggregated=True))
    network = "127.0.0" if is_local else "10.0.0"
    replicas = [
        replace(each, id=f"http://{network}.{number}:8000") for number, each in enumerate(subject.all_replicas, first)
    ]
    return replace(subject, all_replicas=tuple(replicas))


@pytest.mark.parametrize(("is_local", "number"), [(False, 1), (True, 0)])
def test_loopback_addresses_of_one_machine_are_one_host(*, is_local: bool, number: int) -> None:
    pools = (nixl_pool(f"m/{role}", first, is_local=is_local) for role, first in (("prefill", 1), ("decode", 3)))

    assert len(list(BY_ID["PD-17"].check(whole(*pools)))) == number


def test_pools_with_a_common_name_are_partners_in_any_order() -> None:
    pools = [
        pool({"served": [served]}, name=name, declared=PoolDeclaration(disaggregated=True))
        for name, served in (("a/prefill", "m"), ("b/decode", "n"), ("a/decode", "n"), ("other/decode", "o"))
    ]
    for ordered in (pools, pools[::-1]):
        groups = partners(whole(*ordered))
        assert {frozenset(each.name for each in group) for group in groups} == {
            frozenset({"a/prefill", "a/decode", "b/decode"}),
            frozenset({"other/decode"}),
        }
