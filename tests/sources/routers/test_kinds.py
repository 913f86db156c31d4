"""Production-stack, Dynamo, LMCache and Mooncake: their answers and their processes give facts."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.fleet import FactName
from dashboard.rules.domain import Router, Store
from dashboard.sources.routers.answers import Process
from dashboard.sources.routers.kinds import (
    KINDS,
    read_conf,
    read_dynamo_metrics,
    read_dynamo_process,
    read_master,
    read_stack_health,
    read_stack_metrics,
    read_stack_process,
    read_status,
    read_version,
)
from tests.sources.routers.fixture_files import fixture, obeys_the_law
from tests.strategies import json_named, json_values

LMCACHE = {FactName.KV_STORE: Store.LMCACHE, FactName.CHUNK_SIZE: 256}
EVENTS = {FactName.ROUTING: Router.KV_EVENTS, FactName.OWN_KEYS: False}


def metrics(*samples: str) -> bytes:
    return "\n".join(("# TYPE a gauge", *samples)).encode()


def test_metrics_of_production_stack_name_every_server_and_count_the_healthy() -> None:
    assert read_stack_metrics(fixture("production_stack_metrics.txt")) == {
        FactName.ENDPOINTS: ["http://10.0.0.11:8000", "http://10.0.0.12:8000"],
        FactName.READY: 1,
    }


def test_metrics_of_vllm_are_not_those_of_its_router() -> None:
    with pytest.raises(UnreadableError, match="without vllm:healthy_pods_total; check that production-stack's router"):
        read_stack_metrics(metrics('vllm:num_requests_running{engine="0"} 1'))


@pytest.mark.parametrize(
    ("file", "facts"),
    [
        ("production_stack_health_dynamic.json", {FactName.ROUTING: Router.APPROXIMATE}),
        ("production_stack_health.json", {}),
        ("production_stack_health_503.json", {}),
    ],
)
def test_health_of_production_stack_has_the_routing_where_a_file_sets_it(file: str, facts: dict[FactName, Any]) -> None:
    assert read_stack_health(fixture(file)) == facts


@pytest.mark.parametrize("body", [b'{"detail":"Not Found"}', b"[]", b'"healthy"'])
def test_another_health_is_a_sentence(body: bytes) -> None:
    with pytest.raises(UnreadableError, match="answers /health with JSON that has no status"):
        read_stack_health(body)


def test_the_arguments_of_production_stack_have_the_routing() -> None:
    arguments = json.loads(fixture("production_stack_router_args.json"))
    # kvaware looks up chunks of LMCache: no value of `router` is right.
    assert read_stack_process(Process(tuple(arguments), {})) == {FactName.KV_STORE: Store.LMCACHE}


@pytest.mark.parametrize(
    ("logic", "facts"),
    [
        ("roundrobin", {FactName.ROUTING: Router.NONE}),
        ("session", {FactName.ROUTING: Router.NONE}),
        ("disaggregated_prefill", {FactName.ROUTING: Router.NONE}),
        ("disaggregated_prefill_orchestrated", {FactName.ROUTING: Router.NONE}),
        ("prefixaware", {FactName.ROUTING: Router.APPROXIMATE}),
        ("new", {}),
    ],
)
def test_each_logic_is_a_routing_or_unknown(logic: str, facts: dict[FactName, Any]) -> None:
    assert read_stack_process(Process(("--routing-logic", logic), {})) == facts
    assert read_stack_process(Process((), {"ROUTING_LOGIC": logic})) == {}


def test_metrics_of_dynamo_have_the_block_size() -> None:
    assert read_dynamo_metrics(fixture("dynamo_metrics.txt")) == {FactName.BLOCK_SIZE: 16}


@pytest.mark.parametrize(
    ("samples", "facts"),
    [
        (["kv_cache_block_size{m} 16", "kv_cache_block_size{n} 16"], {FactName.BLOCK_SIZE: 16}),
        (["kv_cache_block_size{m} 16", "kv_cache_block_size{n} 32"], {}),
        (["kv_cache_block_size{m} 0"], {}),
        (["kv_cache_block_size{m} NaN", "workers{m} +Inf"], {}),
        (["workers{m} 3", "workers{n} 2"], {FactName.READY: 5}),
    ],
)
def test_models_of_dynamo_have_one_block_size_or_it_is_unknown(samples: list[str], facts: dict[FactName, Any]) -> None:
    named = (each.replace("{m}", '{model="m"}').replace("{n}", '{model="n"}') for each in samples)
    assert read_dynamo_metrics(metrics(*(f"dynamo_frontend_model_{each}" for each in named))) == facts


def test_other_metrics_than_dynamos_are_a_sentence() -> None:
    with pytest.raises(UnreadableError, match="without dynamo_frontend_model_kv_cache_block_size; check that Dynamo's"):
        read_dynamo_metrics(fixture("mooncake_metrics.txt"))


@pytest.mark.parametrize(
    ("arguments", "environment", "facts"),
    [
        ("", {}, {FactName.ROUTING: Router.NONE}),
        ("--router-mode kv", {}, EVENTS),
        ("--router-mode=kv --kv-cache-block-size=32", {}, {**EVENTS, FactName.BLOCK_SIZE: 32}),
        ("", {"DYN_ROUTER_MODE": "kv", "DYN_KV_CACHE_BLOCK_SIZE": "64"}, {**EVENTS, FactName.BLOCK_SIZE: 64}),
        ("--router-mode random", {"DYN_ROUTER_MODE": "kv"}, {FactName.ROUTING: Router.NONE}),
        ("--kv-cache-block-size 16", {"DYN_ROUTER_MODE": "new"}, {FactName.BLOCK_SIZE: 16}),
        ("--kv-cache-block-size many", {"DYN_ROUTER_MODE": "new"}, {}),
        ("--router-mode kv --no-router-kv-events", {}, {FactName.ROUTING: Router.APPROXIMATE}),
        ("--router-mode kv", {"DYN_ROUTER_USE_KV_EVENTS": "False"}, {FactName.ROUTING: Router.APPROXIMATE}),
        ("--router-mode kv", {"DYN_ROUTER_USE_KV_EVENTS": "0"}, {FactName.ROUTING: Router.APPROXIMATE}),
        ("--router-mode kv", {"DYN_ROUTER_USE_KV_EVENTS": "true"}, EVENTS),
    ],
)
def test_flags_of_dynamo_win_over_its_environment(
    arguments: str, environment: dict[str, str], facts: dict[FactName, Any]
) -> None:
    assert read_dynamo_process(Process(tuple(arguments.split()), environment)) == facts


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


NAMES = ["status", "dynamic_config", "routing_logic", "chunk_size", "pre_caching_hash_algorithm", "hash_algorithm"]
SERIES = ["vllm:healthy_pods_total", "dynamo_frontend_model_workers", "master_active_clients"]
NAMED = json_named(st.sampled_from(NAMES))
BODIES = st.one_of(
    st.binary(max_size=200),
    json_values.map(lambda value: json.dumps(value).encode()),
    NAMED.map(lambda value: json.dumps(value).encode()),
    NAMED.map(lambda value: json.dumps({"status": value, "dynamic_config": value}).encode()),
    st.tuples(st.sampled_from(SERIES), st.text(max_size=50), st.floats() | st.text(max_size=50)).map(
        lambda each: metrics(f"{each[0]}{{{each[1]}}} {each[2]}".encode(errors="replace").decode())
    ),
)


@settings(max_examples=200)
@given(BODIES)
def test_any_answer_gives_facts_or_a_sentence(body: bytes) -> None:
    assert all(obeys_the_law(reader, body) for kind in KINDS.values() for reader in kind.probes.values())


WORDS = st.sampled_from(["--router-mode", "kv", "--kv-cache-block-size", "1" * 5000, "--routing-logic", "x", "²"])


@given(st.lists(WORDS | st.text(max_size=9)))
def test_any_command_line_gives_facts(arguments: list[str]) -> None:
    process = Process(tuple(arguments), {"DYN_KV_CACHE_BLOCK_SIZE": arguments[0] if arguments else ""})
    assert obeys_the_law(lambda _: read_stack_process(process), b"")
    assert obeys_the_law(lambda _: read_dynamo_process(process), b"")
