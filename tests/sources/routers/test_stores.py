"""LMCache and Mooncake: what they answer gives facts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.fleet import FactName
from dashboard.rules.domain import Store
from dashboard.sources.routers.kinds import read_conf, read_master, read_status, read_version
from tests.sources.routers.fixture_files import fixture, obeys_the_law
from tests.strategies import json_named

LMCACHE = {FactName.KV_STORE: Store.LMCACHE, FactName.CHUNK_SIZE: 256}


@pytest.mark.parametrize(
    ("file", "algorithm"), [("lmcache_conf_names.txt", "builtin"), ("lmcache_conf.txt", "sha256_cbor")]
)
def test_conf_has_the_size_of_a_chunk_and_the_hash_algorithm(file: str, algorithm: str) -> None:
    assert read_conf(fixture(file)) == {**LMCACHE, FactName.KEY_ALGORITHM: algorithm}


def test_status_of_the_multiprocess_server_has_what_is_in_force() -> None:
    assert read_status(fixture("lmcache_mp_status.json")) == {**LMCACHE, FactName.KEY_ALGORITHM: "blake3"}
    assert read_status(b'{"chunk_size": 256, "hash_algorithm": null}') == LMCACHE


@pytest.mark.parametrize("body", [fixture("lmcache_conf_unknown_names.txt"), b"[]", b'{"chunk_size": "256"}'])
def test_an_answer_without_chunk_size_is_a_sentence(body: bytes) -> None:
    with pytest.raises(UnreadableError, match="answers /conf without a chunk_size; check that LMCache's API server"):
        read_conf(body)
    with pytest.raises(UnreadableError, match="answers /status without a chunk_size; check that LMCache is there"):
        read_status(body)


@pytest.mark.parametrize(
    ("body", "facts"),
    [
        (fixture("lmcache_version.json"), {FactName.VERSION: "0.5.6-g3e11e108"}),
        (b'"0.5.6"', {FactName.VERSION: "0.5.6"}),
        (b'""', {}),
        (b"[1]", {}),
    ],
)
def test_the_version_is_a_string(body: bytes, facts: dict[FactName, Any]) -> None:
    assert read_version(body) == facts


def test_a_mooncake_master_counts_its_clients() -> None:
    assert read_master(fixture("mooncake_metrics.txt")) == {FactName.KV_STORE: Store.MOONCAKE, FactName.CLIENTS: 2}
    odd = b"# TYPE master_active_clients gauge\nmaster_active_clients NaN"
    assert read_master(odd) == {FactName.KV_STORE: Store.MOONCAKE, FactName.CLIENTS: 0}


def test_other_metrics_than_mooncakes_are_a_sentence() -> None:
    with pytest.raises(UnreadableError, match="without master_active_clients; check that Mooncake's master is there"):
        read_master(fixture("dynamo_metrics.txt"))


NAMES = st.sampled_from(["chunk_size", "pre_caching_hash_algorithm", "hash_algorithm", "other"])
BODIES = st.one_of(
    st.binary(max_size=200),
    json_named(NAMES).map(lambda value: json.dumps(value).encode()),
    st.text(max_size=50).map(
        lambda each: f"# TYPE a gauge\nmaster_active_clients{{{each}}} {each}".encode(errors="replace")
    ),
)


@given(BODIES)
def test_any_answer_gives_facts_or_a_sentence(body: bytes) -> None:
    assert all(obeys_the_law(each, body) for each in (read_conf, read_status, read_version, read_master))
