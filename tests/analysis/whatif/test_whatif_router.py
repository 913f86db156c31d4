"""Values that a router must know after a pool converged, where no rule compares the pool with its router."""

from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif import converge
from dashboard.analysis.whatif.findings import EXPECTATIONS
from dashboard.fleet import Baseline
from dashboard.rules.domain import Expectations, PoolDeclaration, Router, SeedPolicy
from dashboard.rules.policy import Policy
from tests.analysis.whatif.pools import LARGER, pool_of
from tests.builders import HASHING, hashing

ALGORITHM = {"cache_config.prefix_caching_hash_algo": "sha256"}
SEEDED, UNSEEDED = {"seed_policy": "environment"}, {"seed_policy": "default"}
ONCE = {"parallel_config.decode_context_parallel_size": 1}
TWICE = {"parallel_config.decode_context_parallel_size": 2}
OFF = {"cache_config.enable_prefix_caching": False}
SIZE_CHANGE = [("block_size", "16", "32")]
AGREED = Baseline("agreed", "chat", {"cache_config.block_size": "64"})
SILENT = Baseline("agreed", "chat", {"model_config.max_logprobs": "7"})


def behind(router: Router | None, expects: Expectations | None = None) -> Fleet:
    """Return a pool in which block size, hash algorithm and seed differ, behind a declared router."""
    policy = Policy(pools={"chat": PoolDeclaration(router, expects=expects or Expectations())})
    return pool_of({**LARGER, **ALGORITHM, **SEEDED}, UNSEEDED, policy=policy)


def changes(fleet: Fleet, target: str | Baseline, pool: str = "chat") -> list[tuple[str, str, str]]:
    """Return what the router must know: the option, the usual value now, the value of all afterwards."""
    return [
        (EXPECTATIONS[each.path], each.before.value, each.after.value) for each in converge(fleet, pool, target).router
    ]


def test_the_block_size_of_the_simulated_fleet_is_not_declared(demo_fleet: Fleet) -> None:
    found = [changes(demo_fleet, letter, "chat-70b") for letter in "ABC"]

    assert found == [[], SIZE_CHANGE, []]
    assert changes(demo_fleet, "A", "deepseek-v3/decode") == []


@pytest.mark.parametrize(
    ("router", "names"),
    [
        (None, ["block_size"]),  # assumed: approximate
        (Router.PREFIX_HASH, ["block_size", "hash_algorithm", "seed_policy"]),
        (Router.KV_EVENTS, ["block_size"]),
        (Router.APPROXIMATE, ["block_size"]),
        (Router.NONE, []),
    ],
)
def test_only_values_that_the_router_depends_on_are_listed(router: Router | None, names: list[str]) -> None:
    assert [each[0] for each in changes(behind(router), "B")] == names


def test_values_that_fleet_yaml_declares_are_left_to_the_rules() -> None:
    declared: dict[str, Any] = {"block_size": 16, "hash_algorithm": "sha256_cbor", "seed_policy": SeedPolicy.DEFAULT}

    for name, value in declared.items():
        found = changes(behind(Router.PREFIX_HASH, Expectations(**{name: value})), "B")
        assert {each[0] for each in found} == declared.keys() - {name}
    assert changes(behind(None, Expectations(**declared)), "B") == []


@pytest.mark.parametrize(
    ("fleet", "target", "found"),
    [
        (pool_of(LARGER), "A", []),  # most replicas have the value already
        (pool_of(LARGER, number=1), "A", [("block_size", "32", "16")]),  # half of the pool each: it changes both ways
        (pool_of(LARGER, number=1), "B", SIZE_CHANGE),
        (pool_of(TWICE, ONCE), "B", SIZE_CHANGE),  # decode context parallelism multiplies the tokens of a block
        (pool_of({**TWICE, "cache_config.block_size": 8}, ONCE), "B", []),
        (pool_of({**LARGER, **OFF}), "B", []),  # replicas without prefix caching do not count
        (pool_of(LARGER, OFF), "B", []),
        (pool_of(ALGORITHM, policy=HASHING, others={"engines": hashing("aa")}, engines=hashing("aa")), "B", []),
        (
            pool_of(ALGORITHM, policy=HASHING, others={"engines": hashing("aa")}, engines=hashing("bb")),
            "B",
            [("hash_algorithm", '"sha256_cbor"', '"sha256"')],
        ),
        (pool_of({"seed_policy": "random"}, UNSEEDED), "B", []),  # no router can use a random seed
        (pool_of(TWICE, ONCE, ignore=("*.block_size",)), "B", []),
        (pool_of({}), AGREED, [("block_size", "16", "64")]),
        (pool_of(LARGER), SILENT, []),
    ],
)
def test_a_value_is_listed_if_it_becomes_common_and_was_not_usual(
    fleet: Fleet, target: str | Baseline, found: list[tuple[str, str, str]]
) -> None:
    assert changes(fleet, target) == found
