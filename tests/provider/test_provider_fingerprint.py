"""Fingerprints are equal if and only if equal tokens have equal block hashes."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captured import capture
from tests.provider.conftest import Serve
from tests.provider.engines import EngineProcess, broken, thing
from tests.provider.vllm_modules import HASH_FUNCTIONS
from tests.tools import config_api
from vllm_fleet_provider.gathering import Gathering
from vllm_fleet_provider.hashing import MAX_TOKENS, fingerprint_of, hashing_of

LLAMA = capture("llama")
UTILS = "vllm.v1.core.kv_cache_utils"
# The stand-ins of the other algorithms are not vLLM's.
AS_VLLM = [row for row in config_api.vectors(config_api.PAGE.read_text()) if row.algorithm == "sha256"]
SEEDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
LENGTHS = st.integers(1, 300)
ALGORITHMS = st.sampled_from(["sha256", "sha256_cbor"])
OFF = "prefix caching is off, so this engine hashes no blocks"
UNKNOWN = "this vLLM hashes blocks in a way that the provider does not know"


def engine(
    algorithm: str = "sha256",
    *,
    seed: str | None = None,
    length: Any = 16,
    connector: bool = False,
    lookahead: Any = None,
) -> EngineProcess:
    """A newly started engine process. Without `lookahead` it is a vLLM before 0.33."""
    process = EngineProcess(LLAMA, environ={} if seed is None else {"PYTHONHASHSEED": seed}, algorithm=algorithm)
    process.kv_cache_config.hash_block_size = length
    if lookahead is not None:
        process.config.num_hash_lookahead_tokens = lookahead
    if connector:
        process.config.cache_config.enable_prefix_caching = False
        with process.inside():
            process.begin_hashing(for_connector=True)
    return process


def fingerprint(process: EngineProcess) -> dict[str, Any]:
    with process.inside():
        return fingerprint_of(process.core, Gathering())


def hashing(process: EngineProcess, gathering: Gathering | None = None) -> dict[str, Any]:
    with process.inside():
        return hashing_of(process.core, gathering or Gathering())


def hashes(process: EngineProcess, length: int, blocks: int = 2) -> list[bytes]:
    """The engine's hashes of the first blocks."""
    utils, function = process.modules[UTILS], HASH_FUNCTIONS[process.config.cache_config.prefix_caching_hash_algo]
    made: list[bytes] = []
    for number in range(blocks):
        tokens = range(number * length, (number + 1) * length)
        made.append(utils.hash_block_tokens(function, made[-1] if made else None, tokens, None))
    return made


@pytest.mark.parametrize(
    ("options", "canonical", "own"),
    [
        ({}, "f44dae44beeb7c51", "f30f3014fbe54354"),  # of vLLM 0.32.0
        ({"lookahead": 0}, "f44dae44beeb7c51", "f30f3014fbe54354"),
        # get_request_block_hasher of vLLM 0.33.0 for a request of the tokens 0, 1, 2, ...
        ({"lookahead": 1}, "99f2fbfbafda28a8", "32991f86b5c8a2d6"),
        ({"lookahead": 3}, "c17b616106358c1b", "9cffe4ec340eefdd"),
        ({"length": 16, "seed": "42"}, "5c13ec9b218cea06", "5c13ec9b218cea06"),  # of provider 1.0, without lookahead
        ({"length": 16, "seed": "42", "lookahead": 0}, "5c13ec9b218cea06", "5c13ec9b218cea06"),
    ],
)
def test_fingerprints_equal_those_computed_in_vllm(options: dict[str, Any], canonical: str, own: str) -> None:
    """If the digest changes, so must DOMAIN."""
    process = engine(**{"length": 128, **options})

    assert fingerprint(process) == {"canonical": canonical, "engine": own, "reason": None}
    assert hashing(process)["lookahead_tokens"] == options.get("lookahead", 0)


@pytest.mark.parametrize("row", AS_VLLM, ids=lambda row: row.seed or "default")
def test_fingerprints_equal_the_test_vectors_of_the_documentation(row: config_api.Vector) -> None:
    """They were computed with the functions of vLLM 0.32.0."""
    found = {length: fingerprint(engine(seed=row.seed, length=length)) for length in row.digests}

    assert {length: one["engine"] for length, one in found.items()} == row.digests
    assert {one["canonical"] for one in found.values()} == {row.digests[16]}


def test_the_documentation_has_test_vectors_of_every_algorithm() -> None:
    rows = config_api.vectors(config_api.PAGE.read_text())

    assert {row.algorithm for row in rows} == {"sha256", "sha256_cbor", "xxhash", "xxhash_cbor"}
    assert [row.seed for row in AS_VLLM] == [None, "42"]


def older_scheduler(process: EngineProcess) -> None:
    process.kv_cache_config.hash_block_size = None
    process.core.scheduler.hash_block_size = 32


def no_hash_length(process: EngineProcess) -> None:
    del process.kv_cache_config.hash_block_size


def no_hasher(process: EngineProcess) -> None:
    del process.core.request_block_hasher


def broken_hasher(process: EngineProcess) -> None:
    process.core = thing("EngineCore", vllm_config=process.config, scheduler=process.core.scheduler)
    broken(process.core, "request_block_hasher")


@pytest.mark.parametrize(
    ("options", "change", "same_as"),
    [
        ({}, None, {}),
        ({"algorithm": "sha256_cbor"}, None, {"algorithm": "sha256_cbor"}),
        ({"seed": "vllm-none-hash"}, None, {}),
        ({"algorithm": "xxhash", "seed": "7"}, None, {"algorithm": "xxhash", "seed": "7"}),
        ({}, older_scheduler, {"length": 32}),
        ({}, no_hash_length, {"length": 128}),  # the block size of the captured server
        ({}, no_hasher, {}),
        ({}, broken_hasher, {}),
    ],
)
def test_processes_and_versions_that_hash_alike_have_equal_fingerprints(
    options: dict[str, Any], change: Callable[[EngineProcess], None] | None, same_as: dict[str, Any]
) -> None:
    process = engine(**options)
    if change:
        change(process)

    assert fingerprint(process) == fingerprint(engine(**same_as))
    assert fingerprint(process)["reason"] is None


def newer_hashes(process: EngineProcess) -> None:
    usual = process.modules[UTILS].hash_block_tokens
    process.modules[UTILS].hash_block_tokens = lambda *args: usual(*args[:3], ("newer",))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "other"),
    [
        ({}, {"algorithm": "sha256_cbor"}),
        ({}, {"algorithm": "xxhash", "seed": "1"}),
        ({}, {"seed": "42"}),
        ({}, {"seed": ""}),
        ({}, {"seed": "0"}),
        ({"algorithm": "xxhash"}, {"algorithm": "xxhash"}),  # a random root
    ],
)
def test_engines_that_hash_differently_differ_in_both_digests(options: dict[str, Any], other: dict[str, Any]) -> None:
    ours, theirs = fingerprint(engine(**options)), fingerprint(engine(**other))

    assert ours["canonical"] != theirs["canonical"]
    assert ours["engine"] != theirs["engine"]


def test_a_version_with_another_hash_function_differs() -> None:
    newer = engine()
    newer_hashes(newer)

    assert fingerprint(newer)["canonical"] != fingerprint(engine())["canonical"]


def test_the_block_size_changes_only_the_engines_digest() -> None:
    short, long = fingerprint(engine(length=16)), fingerprint(engine(length=128))

    assert short["canonical"] == short["engine"] == long["canonical"] != long["engine"]


@pytest.mark.parametrize(
    ("algorithm", "seed", "policy"),
    [
        ("sha256", None, "default"),
        ("sha256", "vllm-none-hash", "environment"),
        ("sha256", "", "environment"),
        ("xxhash", None, "random"),
    ],
)
def test_the_seed_policy_is_the_source_of_the_seed(algorithm: str, seed: str | None, policy: str) -> None:
    assert hashing(engine(algorithm, seed=seed))["seed_policy"] == policy


def test_a_version_without_a_default_seed_has_a_random_one() -> None:
    older = engine()
    del older.modules[UTILS].DEFAULT_NONE_HASH_SEED

    assert hashing(older)["seed_policy"] == "random"


def test_without_prefix_caching_there_is_a_reason_instead_of_a_fingerprint(serve: Serve) -> None:
    fleet = serve(capture("llama_noprefix")).json()["fleet"]
    older = engine()
    older.config.cache_config.enable_prefix_caching = False
    no_hasher(older)

    assert fleet["engines"][0]["fingerprint"] == {"canonical": None, "engine": None, "reason": OFF}
    assert (fleet["prefix_hashing"]["seed_policy"], fleet["prefix_hashing"]["engines_agree"]) == (None, None)
    assert fingerprint(older)["reason"] == OFF


def test_a_kv_connector_makes_an_engine_hash_although_prefix_caching_is_off() -> None:
    found = fingerprint(engine(connector=True))

    assert found["engine"] == fingerprint(engine())["engine"]
    assert found["reason"] == "prefix caching is off; the KV connector makes this engine hash blocks"


@pytest.mark.parametrize("value", [(5, "tokens"), 1234567, "text"])
def test_hashes_that_are_not_bytes_have_fingerprints(value: object) -> None:
    older, same, other = engine(), engine(), engine()
    for process, constant in ((older, value), (same, value), (other, (value, 1))):
        process.modules[UTILS].hash_block_tokens = lambda *_, constant=constant: constant  # type: ignore[attr-defined]

    assert fingerprint(older) == fingerprint(same)
    assert fingerprint(older)["canonical"] != fingerprint(other)["canonical"]


@pytest.mark.parametrize("missing", ["hash_block_tokens", "NONE_HASH"])
def test_a_version_that_hashes_in_an_unknown_way_has_a_reason_instead_of_a_fingerprint(missing: str) -> None:
    newer = engine()
    delattr(newer.modules[UTILS], missing)

    assert fingerprint(newer) == {"canonical": None, "engine": None, "reason": UNKNOWN}


@pytest.mark.parametrize("lookahead", [-1, "1", 1.5, MAX_TOKENS + 1])
def test_an_invalid_lookahead_gives_no_fingerprint(lookahead: Any) -> None:
    assert fingerprint(engine(lookahead=lookahead)) == {"canonical": None, "engine": None, "reason": UNKNOWN}


@pytest.mark.parametrize("config", [{"num_hash_lookahead_tokens": None}, {}], ids=["null", "raises"])
def test_a_lookahead_that_cannot_be_read_is_not_0(config: dict[str, Any]) -> None:
    odd, gathering = engine(lookahead=0), Gathering()
    raising = {"num_hash_lookahead_tokens": property(lambda self: self.missing)}
    odd.core.vllm_config = type("VllmConfig", (), config or raising)()

    assert hashing(odd, gathering)["lookahead_tokens"] is None
    assert "fleet.prefix_hashing.lookahead_tokens" in {each["field"] for each in gathering.unavailable}


@pytest.mark.parametrize("length", [0, -16, MAX_TOKENS + 1, 10**12, "16", 16.0, True, b"sixteen"])
def test_an_invalid_block_size_gives_only_the_canonical_digest(length: Any) -> None:
    found = fingerprint(engine(length=length))

    assert (found["engine"], found["canonical"]) == (None, fingerprint(engine())["canonical"])
    assert found["reason"]


def test_an_unknown_algorithm_does_not_affect_the_rest_of_the_answer() -> None:
    newer = engine()
    newer.config.cache_config.prefix_caching_hash_algo = "blake3"
    description = newer.description()

    assert description["engine"]["fingerprint"]["engine"] is None
    assert description["engine"]["num_gpu_blocks"] == 8192
    assert description["fleet"]["prefix_hashing"]["algorithm"] == "blake3"


@given(SEEDS, LENGTHS)
def test_the_digests_reveal_neither_the_hashes_nor_the_seed(seed: str, length: int) -> None:
    process = engine(seed=seed, length=length)
    found = fingerprint(process)
    secret = [one.hex() for size in (16, length) for one in hashes(process, size)]

    for digest in (found["canonical"], found["engine"]):
        assert len(digest) == 16
        assert not any(digest in one or one in digest for one in secret)
        assert digest != hashlib.sha256(seed.encode()).hexdigest()[:16]


@given(ALGORITHMS, st.none() | SEEDS, LENGTHS, ALGORITHMS, st.none() | SEEDS, LENGTHS)
def test_digests_are_equal_if_and_only_if_hashes_are_equal(
    algorithm: str, seed: str | None, length: int, other_algorithm: str, other_seed: str | None, other_length: int
) -> None:
    one = engine(algorithm, seed=seed, length=length)
    other = engine(other_algorithm, seed=other_seed, length=other_length)
    hash_alike = hashes(one, length) == hashes(other, other_length)

    assert (fingerprint(one)["engine"] == fingerprint(other)["engine"]) is hash_alike
    assert (fingerprint(one)["canonical"] == fingerprint(other)["canonical"]) is (hashes(one, 16) == hashes(other, 16))


@pytest.mark.parametrize(("algorithm", "agree"), [("sha256", True), ("xxhash", False)])
def test_an_answer_has_whether_its_engines_agree(algorithm: str, agree: bool, serve: Serve) -> None:  # noqa: FBT001
    server = capture("llama_dp2")
    engines = [EngineProcess(server, rank, algorithm=algorithm) for rank in (0, 1)]

    assert serve(server, *engines).json()["fleet"]["prefix_hashing"]["engines_agree"] is agree
