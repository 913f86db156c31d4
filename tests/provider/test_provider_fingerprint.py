"""The fingerprint: equal where equal tokens give equal block hashes, and nowhere else."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.provider.gathering import Gathering
from dashboard.provider.hashing import MAX_TOKENS, fingerprint_of, hashing_of
from tests.captured import capture
from tests.provider.conftest import Serve
from tests.provider.engines import EngineProcess, broken, thing
from tests.provider.vllm_modules import HASH_FUNCTIONS
from tests.tools import config_api

LLAMA = capture("llama")
UTILS, CORE = "vllm.v1.core.kv_cache_utils", "vllm.v1.engine.core"
# The stand-ins of the other algorithms hash in another way than vLLM.
AS_VLLM = [row for row in config_api.vectors(config_api.PAGE.read_text()) if row.algorithm == "sha256"]
SEEDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
LENGTHS = st.integers(1, 300)


def engine(
    algorithm: str = "sha256",
    *,
    seed: str | None = None,
    length: int = 16,
    connector: bool = False,
    lookahead: int | None = None,
) -> EngineProcess:
    """A newly started engine process; of a vLLM before 0.33 where no `lookahead` is given."""
    found = EngineProcess(LLAMA, environ={} if seed is None else {"PYTHONHASHSEED": seed}, algorithm=algorithm)
    found.kv_cache_config.hash_block_size = length
    if lookahead is not None:
        found.config.num_hash_lookahead_tokens = lookahead
    if connector:
        found.config.cache_config.enable_prefix_caching = False
        with found.inside():
            found.begin_hashing(for_connector=True)
    return found


def fingerprint(found: EngineProcess) -> dict[str, Any]:
    with found.inside():
        return fingerprint_of(found.core, Gathering())


def policy(found: EngineProcess) -> Any:
    with found.inside():
        return hashing_of(found.core, Gathering())["seed_policy"]


def lookahead_of(found: EngineProcess) -> Any:
    with found.inside():
        return hashing_of(found.core, Gathering())["lookahead_tokens"]


def hashes(found: EngineProcess, length: int, blocks: int = 2) -> list[bytes]:
    """What the engine itself hashes the first tokens to, block upon block."""
    utils, function = found.modules[UTILS], HASH_FUNCTIONS[found.config.cache_config.prefix_caching_hash_algo]
    made: list[bytes] = []
    for number in range(blocks):
        tokens = range(number * length, (number + 1) * length)
        made.append(utils.hash_block_tokens(function, made[-1] if made else None, tokens, None))
    return made


@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor"])
def test_two_processes_with_the_same_settings_have_equal_fingerprints(algorithm: str) -> None:
    assert fingerprint(engine(algorithm)) == fingerprint(engine(algorithm))
    assert fingerprint(engine(algorithm))["reason"] is None


def test_the_fingerprint_is_the_one_that_vllm_0_32_0_itself_gives_with_its_default_hash() -> None:
    """Measured in its own process; when the way of digesting changes, so must DOMAIN."""
    assert fingerprint(engine(length=128)) == {
        "canonical": "f44dae44beeb7c51",
        "engine": "f30f3014fbe54354",
        "reason": None,
    }


@pytest.mark.parametrize("ahead", [None, 0])
def test_without_lookahead_the_fingerprint_is_what_it_was_before_vllm_0_33(ahead: int | None) -> None:
    """Digests of provider 1.0, which did not know of lookahead."""
    assert fingerprint(engine(length=128, lookahead=ahead))["engine"] == "f30f3014fbe54354"
    assert fingerprint(engine(length=16, lookahead=ahead, seed="42"))["engine"] == "5c13ec9b218cea06"


@pytest.mark.parametrize(
    ("ahead", "canonical", "own"),
    [(1, "99f2fbfbafda28a8", "32991f86b5c8a2d6"), (3, "c17b616106358c1b", "9cffe4ec340eefdd")],
)
def test_with_lookahead_the_fingerprint_digests_what_vllm_0_33_0_itself_hashes_requests_to(
    ahead: int, canonical: str, own: str
) -> None:
    """Computed with its get_request_block_hasher, of a request of the tokens 0, 1, 2, ..."""
    assert fingerprint(engine(length=128, lookahead=ahead)) == {"canonical": canonical, "engine": own, "reason": None}


def test_lookahead_is_reported_and_0_where_a_version_has_none() -> None:
    assert [lookahead_of(engine(lookahead=ahead)) for ahead in (None, 0, 1, 5)] == [0, 0, 1, 5]


@pytest.mark.parametrize("value", [-1, "1", None, 1.5, MAX_TOKENS + 1])
def test_a_lookahead_that_cannot_be_leaves_no_fingerprint(value: Any) -> None:
    odd = engine()
    odd.config.num_hash_lookahead_tokens = value

    assert fingerprint(odd)["engine"] is None
    assert fingerprint(odd)["reason"] == "this vLLM hashes blocks in a way that the provider does not know"


def test_a_lookahead_that_cannot_be_computed_is_not_taken_for_none() -> None:
    odd = engine(lookahead=0)
    odd.core.vllm_config = type("VllmConfig", (), {"num_hash_lookahead_tokens": property(lambda self: self.missing)})()
    gathering = Gathering()

    with odd.inside():
        told = hashing_of(odd.core, gathering)

    assert told["lookahead_tokens"] is None
    assert "fleet.prefix_hashing.lookahead_tokens" in {each["field"] for each in gathering.unavailable}


@pytest.mark.parametrize("row", AS_VLLM, ids=lambda row: row.seed or "default")
def test_the_digests_that_the_documentation_gives_are_the_provider_s(row: config_api.Vector) -> None:
    """Each was computed with the functions of vLLM 0.32.0: a router's author holds other code against them."""
    told = {length: fingerprint(engine(seed=row.seed, length=length)) for length in row.digests}

    assert {length: one["engine"] for length, one in told.items()} == row.digests
    assert {one["canonical"] for one in told.values()} == {row.digests[16]}


def test_the_documentation_gives_digests_of_every_algorithm() -> None:
    rows = config_api.vectors(config_api.PAGE.read_text())

    assert {row.algorithm for row in rows} == {"sha256", "sha256_cbor", "xxhash", "xxhash_cbor"}
    assert [row.seed for row in AS_VLLM] == [None, "42"]


def test_a_seed_that_equals_the_default_changes_nothing_but_the_policy() -> None:
    default, given_it = engine(), engine(seed="vllm-none-hash")

    assert fingerprint(default) == fingerprint(given_it)
    assert (policy(default), policy(given_it)) == ("default", "environment")


@pytest.mark.parametrize(
    "other",
    [engine("sha256_cbor"), engine("xxhash", seed="1"), engine(seed="42"), engine(seed=""), engine(seed="0")],
    ids=["another algorithm", "a shorter hash", "a seed", "an empty seed", "a seed of zero"],
)
def test_engines_that_hash_otherwise_differ_in_both_digests(other: EngineProcess) -> None:
    ours, theirs = fingerprint(engine()), fingerprint(other)

    assert ours["canonical"] != theirs["canonical"]
    assert ours["engine"] != theirs["engine"]


def test_an_empty_seed_is_a_seed() -> None:
    assert policy(engine(seed="")) == "environment"


def test_a_random_root_makes_every_process_differ() -> None:
    one, another = engine("xxhash"), engine("xxhash")

    assert fingerprint(one)["canonical"] != fingerprint(another)["canonical"]
    assert fingerprint(one)["engine"] != fingerprint(another)["engine"]
    assert policy(one) == "random"


def test_a_common_seed_makes_xxhash_equal_everywhere() -> None:
    assert fingerprint(engine("xxhash", seed="7")) == fingerprint(engine("xxhash", seed="7"))


def test_a_version_that_hashes_blocks_in_another_way_differs() -> None:
    newer = engine()
    usual = newer.modules[UTILS].hash_block_tokens
    newer.modules[UTILS].hash_block_tokens = lambda *told: usual(*told[:3], ("newer",))  # type: ignore[attr-defined]

    assert fingerprint(newer)["canonical"] != fingerprint(engine())["canonical"]


def test_another_block_length_differs_in_the_engines_digest_only() -> None:
    short, long = fingerprint(engine(length=16)), fingerprint(engine(length=128))

    assert short["canonical"] == long["canonical"]
    assert short["engine"] != long["engine"]


def test_at_the_canonical_length_both_digests_are_one() -> None:
    told = fingerprint(engine(length=16))

    assert told["canonical"] == told["engine"]


def test_without_prefix_caching_there_is_none_and_the_reason_says_so(serve: Serve) -> None:
    told = serve(capture("llama_noprefix")).told()["fleet"]

    assert told["engines"][0]["fingerprint"] == {
        "canonical": None,
        "engine": None,
        "reason": "prefix caching is off, so this engine hashes no blocks",
    }
    assert told["prefix_hashing"]["seed_policy"] is None
    assert told["prefix_hashing"]["engines_agree"] is None


def test_a_kv_connector_makes_an_engine_hash_although_prefix_caching_is_off() -> None:
    told = fingerprint(engine(connector=True))

    assert told["engine"] == fingerprint(engine())["engine"]
    assert told["reason"] == "prefix caching is off; the KV connector makes this engine hash blocks"


def test_where_a_version_keeps_its_hasher_elsewhere_prefix_caching_tells_whether_there_are_hashes() -> None:
    on, off = engine(), engine()
    del on.core.request_block_hasher, off.core.request_block_hasher
    off.config.cache_config.enable_prefix_caching = False

    assert fingerprint(on) == fingerprint(engine())
    assert fingerprint(off)["reason"] == "prefix caching is off, so this engine hashes no blocks"


def test_a_version_whose_scheduler_knows_the_length_of_its_hashes_is_asked_there() -> None:
    older = engine()
    older.kv_cache_config.hash_block_size = None
    older.core.scheduler.hash_block_size = 32

    assert fingerprint(older) == fingerprint(engine(length=32))


def test_a_version_without_the_length_of_its_hashes_hashes_whole_blocks() -> None:
    older = engine()
    del older.kv_cache_config.hash_block_size

    assert fingerprint(older) == fingerprint(engine(length=128)), "the captured server's blocks have 128 tokens"


def test_a_version_with_nothing_but_a_root_has_a_random_one() -> None:
    older = engine()
    del older.modules[UTILS].DEFAULT_NONE_HASH_SEED

    assert policy(older) == "random"


@pytest.mark.parametrize("value", [(5, "tokens"), 1234567, "text"])
def test_hashes_that_are_no_bytes_are_digested_too(value: object) -> None:
    older, same, other = engine(), engine(), engine()
    for found, told in ((older, value), (same, value), (other, (value, 1))):
        found.modules[UTILS].hash_block_tokens = lambda *_, told=told: told  # type: ignore[attr-defined]

    assert fingerprint(older) == fingerprint(same)
    assert fingerprint(older)["canonical"] != fingerprint(other)["canonical"]


@pytest.mark.parametrize("missing", ["hash_block_tokens", "NONE_HASH"])
def test_a_version_that_hashes_in_an_unknown_way_has_none_and_says_why(missing: str) -> None:
    newer = engine()
    delattr(newer.modules[UTILS], missing)

    assert fingerprint(newer) == {
        "canonical": None,
        "engine": None,
        "reason": "this vLLM hashes blocks in a way that the provider does not know",
    }


@pytest.mark.parametrize("length", [0, -16, MAX_TOKENS + 1, 10**12, "16", 16.0, True, b"sixteen"])
def test_a_block_length_that_cannot_be_gives_the_canonical_digest_alone(length: Any) -> None:
    told = fingerprint(engine(length=length))

    assert told["engine"] is None
    assert told["canonical"] == fingerprint(engine())["canonical"]
    assert told["reason"]


def test_an_algorithm_of_another_version_leaves_the_rest_of_the_answer_alone() -> None:
    newer = engine()
    newer.config.cache_config.prefix_caching_hash_algo = "blake3"
    told = newer.description()

    assert told["engine"]["fingerprint"]["engine"] is None
    assert told["engine"]["num_gpu_blocks"] == 8192
    assert told["fleet"]["prefix_hashing"]["algorithm"] == "blake3"


def test_a_hasher_that_cannot_be_looked_at_is_judged_by_prefix_caching() -> None:
    odd = engine()
    odd.core = thing("EngineCore", vllm_config=odd.config, scheduler=odd.core.scheduler)
    broken(odd.core, "request_block_hasher")

    assert fingerprint(odd) == fingerprint(engine())


@given(SEEDS, LENGTHS)
def test_the_digests_are_not_the_hashes_nor_the_seed(seed: str, length: int) -> None:
    found = engine(seed=seed, length=length)
    told = fingerprint(found)
    secret = [one.hex() for size in (16, length) for one in hashes(found, size)]

    for digest in (told["canonical"], told["engine"]):
        assert len(digest) == 16
        assert not any(digest in one or one in digest for one in secret)
        assert digest != hashlib.sha256(seed.encode()).hexdigest()[:16]


@given(
    st.sampled_from(["sha256", "sha256_cbor"]),
    st.none() | SEEDS,
    LENGTHS,
    st.sampled_from(["sha256", "sha256_cbor"]),
    st.none() | SEEDS,
    LENGTHS,
)
def test_digests_are_equal_where_hashes_are_equal_and_nowhere_else(
    algorithm: str, seed: str | None, length: int, other_algorithm: str, other_seed: str | None, other_length: int
) -> None:
    one = engine(algorithm, seed=seed, length=length)
    other = engine(other_algorithm, seed=other_seed, length=other_length)
    hash_alike = hashes(one, length) == hashes(other, other_length)

    assert (fingerprint(one)["engine"] == fingerprint(other)["engine"]) is hash_alike
    assert (fingerprint(one)["canonical"] == fingerprint(other)["canonical"]) is (hashes(one, 16) == hashes(other, 16))


def test_engines_of_one_server_agree_or_differ(serve: Serve) -> None:
    server = capture("llama_dp2")
    agreeing = serve(server, EngineProcess(server, 0), EngineProcess(server, 1))
    differing = serve(server, *(EngineProcess(server, rank, algorithm="xxhash") for rank in (0, 1)))

    assert agreeing.told()["fleet"]["prefix_hashing"]["engines_agree"] is True
    assert differing.told()["fleet"]["prefix_hashing"]["engines_agree"] is False
