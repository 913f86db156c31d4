"""Fingerprints on live servers against the block hashes that their engines really compute for one prompt."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.live.dashboard_runs import Checked, check, options, poll
from tests.live.servers import CONFIG, Kind, Server, running
from vllm_fleet_provider.switch import NAME

pytestmark = pytest.mark.vllm
BOTH = (NAME, "fleet_witness")
ONE_POOL = ("--served-model-name", "chat")
XXHASH = (*ONE_POOL, "--prefix-caching-hash-algo", "xxhash")
CBOR = (*ONE_POOL, "--prefix-caching-hash-algo", "sha256_cbor")
SEED = {"PYTHONHASHSEED": "42"}
RANDOM = (
    Kind("xxhash-1", "qwen3", XXHASH, plugins=BOTH),
    Kind("xxhash-2", "qwen3", XXHASH, plugins=BOTH),
    Kind("seeded-long", "qwen3", (*CBOR, "--block-size", "64"), SEED, BOTH),
)
FIXED = (
    Kind("cbor-1", "qwen3", CBOR, plugins=BOTH),
    Kind("cbor-2", "qwen3", CBOR, plugins=BOTH),
    Kind("seeded", "qwen3", CBOR, SEED, BOTH),
)


class Hashing(NamedTuple):
    """Prefix hashing and fingerprint that a server reports, and the hashes that its engine computed for a prompt."""

    prefix_hashing: dict[str, Any]
    fingerprint: dict[str, Any]
    hashes: list[str]


class Pools(NamedTuple):
    """Each server's hashing by name; per pool of two or three servers what the dashboard polled and found."""

    servers: dict[str, Hashing]
    polls: dict[str, dict[str, Any]]
    checks: dict[str, Checked]


@pytest.fixture(scope="module")
def pools(venv: Path, site: Path, others: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> Pools:
    folder = tmp_path_factory.mktemp("vllm")
    found = Pools({}, {}, {})
    with running(RANDOM, venv, folder, (site, *others)) as servers:
        _collect(found, servers, folder, {"xxhash": servers[:2]})
    with running(FIXED, venv, folder, (site, *others)) as servers:
        _collect(found, servers, folder, {"sha256_cbor": servers[:2], "one of three seeded": servers})
    return found


def _collect(found: Pools, servers: list[Server], folder: Path, pools: dict[str, list[Server]]) -> None:
    for server in servers:
        server.complete()
        fleet = server.json(CONFIG)["fleet"]
        (engine,) = fleet["engines"]
        hashes = server.witnessed()[-1]["block_hashes"]
        found.servers[server.kind.name] = Hashing(fleet["prefix_hashing"], engine["fingerprint"], hashes)
    for name, members in pools.items():
        config = options(members, folder)
        found.polls[name], found.checks[name] = poll(config), check(config)


@pytest.mark.parametrize(
    ("one", "other", "is_equal"),
    [
        ("cbor-1", "cbor-2", True),
        ("xxhash-1", "xxhash-2", False),
        ("cbor-1", "xxhash-1", False),
        ("cbor-1", "seeded", False),
        ("seeded", "seeded-long", False),
    ],
)
def test_fingerprints_are_equal_where_the_hashes_of_a_prompt_are(
    pools: Pools, one: str, other: str, *, is_equal: bool
) -> None:
    first, second = pools.servers[one], pools.servers[other]

    assert first.hashes
    assert second.hashes
    assert (first.hashes == second.hashes) is is_equal
    assert (first.fingerprint["engine"] == second.fingerprint["engine"]) is is_equal


def test_where_only_the_block_length_differs_the_canonical_digests_are_equal(pools: Pools) -> None:
    seeded, long = pools.servers["seeded"], pools.servers["seeded-long"]

    assert (seeded.prefix_hashing["hash_block_size"], long.prefix_hashing["hash_block_size"]) == (128, 64)
    assert seeded.fingerprint["canonical"] == long.fingerprint["canonical"]


def test_where_the_roots_differ_the_canonical_digests_do_too(pools: Pools) -> None:
    names = ("xxhash-1", "xxhash-2", "cbor-1", "seeded")

    assert len({pools.servers[name].fingerprint["canonical"] for name in names}) == len(names)


def test_no_digest_is_a_part_of_a_hash(pools: Pools) -> None:
    for server in pools.servers.values():
        digests = {server.fingerprint["canonical"], server.fingerprint["engine"]}
        assert not [digest for digest in digests if any(digest in each for each in server.hashes)]


def test_the_source_of_the_seed_is_reported_and_never_the_seed(pools: Pools) -> None:
    policies = {name: server.prefix_hashing["seed_policy"] for name, server in pools.servers.items()}

    assert policies == {
        **dict.fromkeys(("xxhash-1", "xxhash-2"), "random"),
        **dict.fromkeys(("cbor-1", "cbor-2"), "default"),
        **dict.fromkeys(("seeded", "seeded-long"), "environment"),
    }


def test_the_poll_has_the_fingerprint_of_every_engine(pools: Pools) -> None:
    for document in pools.polls.values():
        names = {replica["replica"]: replica["name"] for replica in document["replicas"]}
        for engine in document["engines"]:
            assert engine["fingerprint"] == pools.servers[names[engine["replica"]]].fingerprint


def test_two_replicas_of_one_command_with_xxhash_are_reported_not_to_share(pools: Pools) -> None:
    finding = pools.checks["xxhash"].of("RT-06")

    assert (finding["severity"], finding["confidence"]) == ("critical", "reported")
    assert {each["name"] for each in finding["replicas"]} == {"xxhash-1", "xxhash-2"}
    assert "hash the same tokens differently" in finding["sentence"]


def test_two_replicas_of_one_command_with_sha256_cbor_have_no_finding_on_hashes(pools: Pools) -> None:
    assert [each["rule"] for each in pools.checks["sha256_cbor"].findings if each["rule"].startswith("RT-")] == []


def test_the_one_that_was_started_with_a_seed_is_named(pools: Pools) -> None:
    finding = pools.checks["one of three seeded"].of("RT-06")

    assert [each["name"] for each in finding["replicas"]] == ["seeded"]
    assert finding["confidence"] == "reported"
