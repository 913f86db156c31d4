"""Which cohorts can share prefixes where not all engines tell their block hashes: what settings say."""

from collections.abc import Mapping
from typing import Any

import pytest

from dashboard.compare import Share, compare_pool, pool_sharing
from dashboard.compare.pool import Member
from dashboard.compare.prefix import ALGORITHM_PATH, CACHING_PATH
from dashboard.compare.random_root import SEED_POLICY_PATH
from dashboard.compare.sharing import CACHING_OFF, CONNECTOR_PATH, DOUBTFUL, NOT_MEASURED, OUTDATED, OWN_ROOTS
from dashboard.fleet import Fingerprint, Role
from dashboard.vllm.lookahead import UPGRADE
from tests.builders import document, replica
from tests.compare.hashing_pools import BLOCK, OFF, VERSION, alone, pair


def test_an_engine_that_hashes_no_blocks_shares_with_nobody_not_even_its_equals() -> None:
    off = {CACHING_PATH: False}

    assert alone([OFF], [OFF], settings=off) == (Share.NO, CACHING_OFF)
    assert pair(({}, ["a", "a"]), (off, [[OFF]])) == (Share.NO, CACHING_OFF, False)
    assert alone("a", [OFF], settings=off) == (Share.NO, "2 ways of hashing blocks")
    assert pair(({}, ["a", "a", "a"]), (off, [["a"], [OFF]]))[0] is Share.PARTLY


def test_without_a_digest_only_a_cohort_without_caching_is_believed_to_hash_nothing() -> None:
    """A vLLM of which the provider does not know how it hashes gives a reason, too."""
    assert alone([OFF], [OFF]) == (Share.UNKNOWN, NOT_MEASURED)
    assert alone([Fingerprint()], [Fingerprint()], settings={CACHING_PATH: False})[1] == CACHING_OFF


def test_a_connector_makes_engines_hash_blocks_without_prefix_caching() -> None:
    connected = {CACHING_PATH: False, CONNECTOR_PATH: "LMCacheConnectorV1"}

    assert alone([None], [None], settings=connected) == (Share.UNKNOWN, NOT_MEASURED)
    assert alone([None], [None], settings={CACHING_PATH: False, CONNECTOR_PATH: None}) == (Share.NO, CACHING_OFF)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (Share.UNKNOWN, NOT_MEASURED, False)),
        ({BLOCK: 32}, (Share.NO, "block_size differs", False)),
        ({VERSION: "0.31.0"}, (Share.UNKNOWN, "two versions may hash in different ways", False)),
        ({VERSION: "0.31.0", BLOCK: 32}, (Share.NO, "block_size differs", False)),
        ({CACHING_PATH: False}, (Share.NO, CACHING_OFF, False)),
        ({SEED_POLICY_PATH: "random"}, (Share.NO, OWN_ROOTS, False)),
    ],
)
def test_who_does_not_tell_is_judged_by_settings(
    settings: Mapping[str, Any], expected: tuple[Share, str, bool]
) -> None:
    """A version alone may or may not matter; other settings that decide are certain."""
    assert pair(({}, [["a"], ["a"]]), (settings, [[None]])) == expected


def test_roots_that_are_random_unless_a_seed_is_set_are_doubted_not_called_equal() -> None:
    """Nobody tells the seed: neither yes nor no, but likelier no."""
    xxhash = {ALGORITHM_PATH: "xxhash_cbor"}

    assert alone([None], [None], settings=xxhash) == (Share.UNKNOWN, DOUBTFUL)
    assert alone([None], settings=xxhash) == (Share.UNKNOWN, NOT_MEASURED)
    assert pair((xxhash, [["a"], [None]]), (xxhash, [[None]])) == (Share.UNKNOWN, DOUBTFUL, False)


def test_random_roots_are_derived_within_a_cohort_of_several_replicas() -> None:
    random = {SEED_POLICY_PATH: "random"}

    assert alone([None], [None], settings=random) == (Share.NO, OWN_ROOTS)
    assert alone([None], settings=random) == (Share.UNKNOWN, NOT_MEASURED)


def test_what_fleet_yaml_ignores_is_no_reason() -> None:
    told = [document({BLOCK: size}) for size in (16, 32)]
    replicas = [replica(f"r{number}", document=each, engines=()) for number, each in enumerate(told)]
    members = [Member(each.id, each.document, fresh=True, identity=0) for each in replicas]
    pool = compare_pool("chat", Role.BOTH, members, {each.id: each for each in told}, ignore=[BLOCK])

    assert pool_sharing(pool, {each.id: each for each in replicas}).cells[0].reason == NOT_MEASURED


NEW = {VERSION: "0.33.0", CACHING_PATH: True, "speculative_config": None}
AHEAD = {**NEW, "hash_lookahead_tokens": 1}
OLD_PROVIDER = Fingerprint(reason=UPGRADE)


def test_replicas_that_look_ahead_by_different_numbers_of_tokens_do_not_share() -> None:
    differs = (Share.NO, "hash_lookahead_tokens differs")

    assert pair((NEW, [[None]]), (AHEAD, [[None]])) == (*differs, False)
    assert pair((NEW, ["a"]), (AHEAD, ["b"])) == (*differs, True)


def test_an_older_provider_leaves_it_unknown_whether_replicas_share() -> None:
    unknown = {VERSION: "0.33.0", CACHING_PATH: True}

    assert alone([OLD_PROVIDER], [OLD_PROVIDER], settings=unknown) == (Share.UNKNOWN, OUTDATED)
    assert pair((NEW, ["a"]), (unknown, [[OLD_PROVIDER]])) == (Share.UNKNOWN, OUTDATED, False)
    assert pair((NEW, ["a"]), ({**unknown, BLOCK: 32}, [[OLD_PROVIDER]]))[0] is Share.NO
