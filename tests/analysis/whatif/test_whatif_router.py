"""What a router must know after a pool converged: said where no rule can hold the pool against the router."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.analysis.whatif import WhatIf, converge
from dashboard.fleet import Baseline
from dashboard.rules.domain import Declared, Expectations, Router, SeedPolicy
from dashboard.rules.policy import Policy
from tests.builders import HASHING, NOW, alike, document, fleet, hashing, replica

BLOCKS = {"cache_config.block_size": 32}
ALGORITHM = {"cache_config.prefix_caching_hash_algo": "sha256"}
SEEDED = {"seed_policy": "environment"}
UNSEEDED = {"seed_policy": "default"}
ONCE = {"parallel_config.decode_context_parallel_size": 1}
TWICE = {"parallel_config.decode_context_parallel_size": 2}
BLOCKS_TOLD = [("block_size", "16", "32")]


def behind(router: Router | None, known: Fleet, expects: Expectations | None = None) -> Fleet:
    """Return a fleet whose operator says what stands before the pool."""
    declared = Declared(router, expects=expects or Expectations())
    return inspected(replace(known, policy=Policy(pools={"chat": declared})), NOW)


def pool(odd: dict[str, Any], usual: dict[str, Any] | None = None, *, number: int = 3, **more: Any) -> Fleet:
    """Return three replicas that agree, and one that differs: cohort B."""
    told = document(usual), document(odd)
    return fleet([*alike("chat", number, told[0]), replica("chat-9", document=told[1])], told, **more)


def told(what: WhatIf) -> list[tuple[str, str, str]]:
    """Return what the router must know: what it is, what most have now, what all would have."""
    return [(each.expects, each.before.value, each.after.value) for each in what.router]


def test_the_simulated_fleet_warns_of_the_odd_block_size(demo_fleet: Fleet) -> None:
    """Its fleet.yaml declares the hash algorithm of chat-70b and not the block size: rules judge only the one."""
    assert told(converge(demo_fleet, "chat-70b", "C")) == BLOCKS_TOLD
    assert told(converge(demo_fleet, "chat-70b", "A")) == told(converge(demo_fleet, "chat-70b", "B")) == []
    assert told(converge(demo_fleet, "deepseek-v3/decode", "A")) == []


@pytest.mark.parametrize(
    ("router", "names"),
    [
        (None, ["block_size"]),  # assumed: it is approximate
        (Router.PREFIX_HASH, ["block_size", "hash_algorithm", "seed_policy"]),
        (Router.KV_EVENTS, ["block_size"]),
        (Router.APPROXIMATE, ["block_size"]),
        (Router.NONE, []),
    ],
)
def test_only_what_the_router_of_the_pool_works_with_is_said(router: Router | None, names: list[str]) -> None:
    """Who hashes needs all three; who counts in blocks their size; who looks at no prefixes nothing."""
    known = behind(router, pool({**BLOCKS, **ALGORITHM, **SEEDED}, UNSEEDED))

    assert [each.expects for each in converge(known, "chat", "B").router] == names


def test_what_the_operator_declares_is_left_to_the_rules() -> None:
    """They hold the pool against it, each for its own."""
    known = pool({**BLOCKS, **ALGORITHM, **SEEDED}, UNSEEDED)
    declared: dict[str, Any] = {"block_size": 16, "hash_algorithm": "sha256_cbor", "seed_policy": SeedPolicy.DEFAULT}

    for name, value in declared.items():
        expects = Expectations(**{name: value})
        what = converge(behind(Router.PREFIX_HASH, known, expects), "chat", "B")
        assert {each.expects for each in what.router} == declared.keys() - {name}
    assert converge(behind(None, known, Expectations(**declared)), "chat", "B").router == ()


def test_converging_to_what_most_have_already_needs_no_word() -> None:
    """The router works with it now. With half and half nobody knows which it is, so both ways are said."""
    assert told(converge(pool(BLOCKS), "chat", "A")) == []

    half = pool(BLOCKS, number=1)
    both = sorted(told(converge(half, "chat", letter)) for letter in "AB")
    assert both == [BLOCKS_TOLD, [("block_size", "32", "16")]]


def test_what_counts_is_what_a_block_covers() -> None:
    """Decode context parallelism multiplies it, and twice eight tokens are sixteen."""
    assert told(converge(pool(TWICE, ONCE), "chat", "B")) == BLOCKS_TOLD
    assert told(converge(pool({**TWICE, "cache_config.block_size": 8}, ONCE), "chat", "B")) == []


def test_replicas_that_cache_no_prefixes_do_not_count() -> None:
    """They hash nothing, so nobody looks for their blocks."""
    off = {"cache_config.enable_prefix_caching": False}
    assert told(converge(pool({**BLOCKS, **off}), "chat", "B")) == []
    assert told(converge(pool(BLOCKS, off), "chat", "B")) == []


def test_two_names_of_what_hashes_alike_are_no_change() -> None:
    """The engines computed the same hashes: the router finds them as before."""
    plain, renamed = document(), document(ALGORITHM)
    members = [
        *alike("chat", 3, plain, engines=hashing("aa")),
        replica("chat-9", document=renamed, engines=hashing("aa")),
    ]
    known = fleet(members, [plain, renamed], policy=HASHING)
    assert told(converge(known, "chat", "B")) == []

    unlike = [*members[:3], replica("chat-9", document=renamed, engines=hashing("bb"))]
    assert told(converge(fleet(unlike, [plain, renamed], policy=HASHING), "chat", "B")) == [
        ("hash_algorithm", '"sha256_cbor"', '"sha256"')
    ]


def test_random_seeds_are_left_to_the_rules() -> None:
    """No router can be told them."""
    assert told(converge(pool({"seed_policy": "random"}, UNSEEDED), "chat", "B")) == []


def test_what_is_compared_nowhere_is_not_said() -> None:
    """The operator said that it does not matter, so RT-02 is silent too."""
    assert told(converge(pool(TWICE, ONCE, ignore=("*.block_size",)), "chat", "B")) == []


def test_a_baseline_is_held_to_the_same() -> None:
    """Nobody has its value yet; where it says nothing of a value, several stay and nothing is said."""
    agreed = Baseline("agreed", "chat", {"cache_config.block_size": "64"})
    assert told(converge(pool({}), "chat", agreed)) == [("block_size", "16", "64")]

    silent = Baseline("agreed", "chat", {"model_config.max_logprobs": "7"})
    assert told(converge(pool(BLOCKS), "chat", silent)) == []
