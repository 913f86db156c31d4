"""llm-d-router: the plugins' state, /metrics and EndpointPickerConfig give facts."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.fleet import FactName
from dashboard.rules.domain import Router
from dashboard.sources.routers.answers import LONGEST_LINE, MAX_SAMPLES, Process
from dashboard.sources.routers.llm_d import (
    MAX_NODES,
    read_config,
    read_metrics,
    read_process,
    read_state,
)
from tests.sources.routers.fixture_files import fixture, obeys_the_law
from tests.strategies import json_named

SCORER = "prefix-cache-scorer"
APPROXIMATE = "approx-prefix-cache-producer"
PRECISE = "precise-prefix-cache-producer"
PRECISE_SCORER = "precise-prefix-cache-scorer"
KV_EVENTS = {
    FactName.ROUTING: Router.KV_EVENTS,
    FactName.BLOCK_SIZE: 16,
    FactName.OWN_KEYS: True,
    FactName.KEY_ALGORITHM: "cbor-fnv",
    FactName.KEY_SEED: "",
    FactName.EVENT_PORT: 5557,
    FactName.PODS_PER_KEY: 10,
}
TUNED = {FactName.ROUTING: Router.APPROXIMATE, FactName.LEAST_BLOCK_SIZE: 64}


def without(found: dict[FactName, Any], *names: FactName, **more: Any) -> dict[FactName, Any]:
    return {name: value for name, value in found.items() if name not in names} | {
        FactName[name]: value for name, value in more.items()
    }


def state(**plugins: Any) -> bytes:
    """Return a state with a plugin of each type."""
    every = {name.replace("_", "-"): {"type": name.replace("_", "-"), "state": own} for name, own in plugins.items()}
    return json.dumps({"plugins": every}).encode()


def config(*plugins: dict[str, Any], used: list[str] | None = None) -> bytes:
    """Return an EndpointPickerConfig with one profile, which has the scorers unless it says otherwise."""
    names = [each.get("name", each["type"]) for each in plugins]
    chosen = [each for each in names if not each.endswith("producer")] if used is None else used
    profiles = [{"name": "default", "plugins": [{"pluginRef": each} for each in chosen]}]
    whole = {"kind": "EndpointPickerConfig", "plugins": [*plugins], "schedulingProfiles": profiles}
    return yaml.safe_dump(whole).encode()


@pytest.mark.parametrize(
    ("file", "facts"),
    [
        (
            "precise",
            {
                FactName.ROUTING: Router.KV_EVENTS,
                FactName.BLOCK_SIZE: 64,
                FactName.OWN_KEYS: True,
                FactName.SUBSCRIBERS: [f"llm-d/ms-decode-{number}-rank-0" for number in range(3)],
                FactName.SUBSCRIBED: 3,
            },
        ),
        (
            "precise_no_subscribers",
            {
                FactName.ROUTING: Router.KV_EVENTS,
                FactName.BLOCK_SIZE: 16,
                FactName.OWN_KEYS: True,
                FactName.SUBSCRIBERS: [],
                FactName.SUBSCRIBED: 0,
            },
        ),
        ("approx", {FactName.ROUTING: Router.APPROXIMATE}),
        ("v0.9", {FactName.ROUTING: Router.APPROXIMATE}),
        ("legacy_scorer", {FactName.ROUTING: Router.KV_EVENTS}),
        ("errors", {FactName.ROUTING: Router.NONE}),
    ],
)
def test_the_state_of_the_plugins_gives_facts(file: str, facts: dict[FactName, Any]) -> None:
    assert read_state(fixture(f"llmd_plugins_state_{file}.json")) == facts


def test_of_many_subscribers_the_first_100_have_names() -> None:
    found = read_state(fixture("llmd_plugins_state_precise_truncated.json"))
    names = found[FactName.SUBSCRIBERS]
    assert {**found, FactName.SUBSCRIBERS: len(names)} == {
        FactName.ROUTING: Router.KV_EVENTS,
        FactName.BLOCK_SIZE: 16,
        FactName.OWN_KEYS: True,
        FactName.SUBSCRIBERS: 100,
        FactName.SUBSCRIBED: 105,
    }
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("plugins", "routing"),
    [
        ({}, None),
        ({"max_score_picker": None}, Router.NONE),
        ({"prefix_cache_scorer": None}, None),  # its producer is missing
        ({"burst_prefix_cache_producer": None, "prefix_cache_scorer": None}, None),
        ({"multicluster_prefix_cache_scorer": None}, None),
        ({"approx_prefix_cache_producer": {}, "precise_prefix_cache_producer": {}}, None),
        ({"precise_prefix_cache_producer": {}, "precise_prefix_cache_scorer": None}, Router.KV_EVENTS),
    ],
)
def test_the_routing_is_unknown_where_the_types_of_the_plugins_leave_it_open(
    plugins: dict[str, Any], routing: Router | None
) -> None:
    assert read_state(state(**plugins)) == ({FactName.ROUTING: routing} if routing else {})


def test_a_state_with_values_of_another_type_has_fewer_facts() -> None:
    odd = {"subscribers": ["a", 7, None], "totalSubscribers": "many", "blockSizeTokens": True}
    assert read_state(state(precise_prefix_cache_producer=odd)) == {
        FactName.ROUTING: Router.KV_EVENTS,
        FactName.SUBSCRIBERS: ["a"],
        FactName.SUBSCRIBED: 3,
    }


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"[]", "answers /debug/plugins/state with JSON that has no plugins"),
        (b'{"plugins": []}', "answers /debug/plugins/state with JSON that has no plugins"),
        (b"<html>", "answers with something that is not JSON"),
        (b"[" + b"0," * MAX_NODES + b"0]", "answers with more than 50,000 JSON nodes"),
    ],
)
def test_another_answer_than_a_state_is_a_sentence(body: bytes, sentence: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_state(body)
    assert caught.value.detail == sentence


def test_metrics_give_the_replicas_that_the_router_knows_and_its_version() -> None:
    assert read_metrics(fixture("llmd_metrics.txt")) == {
        FactName.READY: 2,
        FactName.VERSION: "v0.10.0",
        FactName.ENDPOINTS: ["ms-decode-0-rank-0", "ms-decode-1-rank-0"],
    }


def test_metrics_of_earlier_versions_have_other_names() -> None:
    lines = fixture("llmd_metrics.txt").splitlines()
    assert read_metrics(b"\n".join(each for each in lines if b"llm_d_epp" not in each)) == read_metrics(
        fixture("llmd_metrics.txt")
    )


@pytest.mark.parametrize(
    ("sample", "facts"),
    [
        (b'llm_d_epp_ready_endpoints{name="a"} NaN', {FactName.READY: 0}),
        (b'llm_d_epp_ready_endpoints{name="a"} 3 1787390000000', {FactName.READY: 3}),
        (b"llm_d_epp_ready_endpoints 4", {FactName.READY: 4}),
        (b'llm_d_epp_info{commit="a"} 1', {}),
        (b'llm_d_epp_info{build_ref="v1",commit="a } {b"} 1', {FactName.VERSION: "v1"}),
        (b'llm_d_epp_info{build_ref="' + b"v" * LONGEST_LINE + b'"} 1', {}),
        (b'llm_d_epp_per_endpoint_queue_size{name="a"} 1', {}),
    ],
)
def test_samples_without_what_is_looked_for_give_nothing(sample: bytes, facts: dict[FactName, Any]) -> None:
    assert read_metrics(b"# TYPE a gauge\n" + sample) == facts


def test_samples_are_read_up_to_a_number() -> None:
    lines = (
        b'llm_d_epp_per_endpoint_queue_size{model_server_endpoint="%d"} 0' % each for each in range(MAX_SAMPLES + 9)
    )
    assert len(read_metrics(b"# TYPE a gauge\n" + b"\n".join(lines))[FactName.ENDPOINTS]) == MAX_SAMPLES


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"# TYPE a gauge\nllm_d_epp_ready_endpoints",
        b"# TYPE a gauge\nllm_d_epp_ready_endpoints two",
        b'# TYPE a gauge\nllm_d_epp_ready_endpoints{name="a"}',
    ],
)
def test_a_page_of_another_format_is_a_sentence(body: bytes) -> None:
    with pytest.raises(UnreadableError, match="answers /metrics with a page that is not of Prometheus' text format"):
        read_metrics(body)


@pytest.mark.parametrize(
    ("file", "facts"),
    [
        ("precise", without(KV_EVENTS, BLOCK_SIZE=64)),
        ("precise_global_socket", without(KV_EVENTS, FactName.EVENT_PORT)),  # replicas connect to the router
        ("default_producer", TUNED),
        ("pd_approx", TUNED),
        ("burst", {}),  # it keeps no picture of caches: no value of `router` is right
        ("all_parameters", without(KV_EVENTS, KEY_ALGORITHM="xxh64", KEY_SEED="42")),
        ("old_gie", {FactName.ROUTING: Router.APPROXIMATE, FactName.BLOCKS_PER_REPLICA: 31_250}),  # characters
    ],
)
def test_a_configuration_gives_facts(file: str, facts: dict[FactName, Any]) -> None:
    assert read_config(fixture(f"epp_config_{file}.yaml")) == facts


@pytest.mark.parametrize(
    ("parameters", "facts"),
    [
        ({}, {}),
        ({"tokenProcessorConfig": {"blockSizeTokens": 0, "blockSize": 32}}, {"BLOCK_SIZE": 32}),
        ({"tokenProcessorConfig": {"blockSizeTokens": 0, "blockSize": 0}}, {}),
        ({"tokenProcessorConfig": {"blockSizeTokens": "1" * 5000}}, {}),
        ({"kvEventsConfig": {"podDiscoveryConfig": {"socketPort": 5600}}}, {"EVENT_PORT": 5600}),
        ({"indexerConfig": {"kvBlockIndexConfig": {"inMemoryConfig": {"podCacheSize": 64}}}}, {"PODS_PER_KEY": 64}),
    ],
)
def test_a_precise_producer_has_defaults(parameters: dict[str, Any], facts: dict[str, Any]) -> None:
    scorer = {"type": SCORER, "parameters": {"prefixMatchInfoProducerName": PRECISE}}
    assert read_config(config({"type": PRECISE, "parameters": parameters}, scorer)) == without(KV_EVENTS, **facts)
    assert read_config(config({"type": PRECISE_SCORER, "parameters": parameters})) == without(KV_EVENTS, **facts)


@pytest.mark.parametrize("index", ["redisConfig", "costAwareMemoryConfig"])
def test_an_index_in_redis_or_by_cost_does_not_bound_the_entries_of_a_key(index: str) -> None:
    own = {"indexerConfig": {"kvBlockIndexConfig": {index: {}, "inMemoryConfig": {"podCacheSize": 10}}}}
    found = read_config(config({"type": PRECISE_SCORER, "parameters": own}))
    assert found == without(KV_EVENTS, FactName.PODS_PER_KEY)


@pytest.mark.parametrize(
    ("parameters", "block", "blocks"),
    [
        ({}, 64, 31_250),
        ({"blockSizeTokens": 16}, 64, 31_250),
        ({"blockSizeTokens": 63}, 64, 31_250),
        ({"blockSizeTokens": 64}, 64, 31_250),
        ({"blockSizeTokens": 65}, 65, 31_250),
        ({"blockSizeTokens": 256, "blockSize": 512}, 256, 31_250),
        ({"blockSizeTokens": 16, "blockSize": 512}, 512, 31_250),
        ({"blockSize": 128, "lruCapacityPerServer": 9}, 128, 9),
    ],
)
def test_an_approximate_producer_that_does_not_tune_itself_uses_64_tokens_at_least(
    parameters: dict[str, Any], block: int, blocks: int
) -> None:
    producer = {"type": APPROXIMATE, "parameters": {**parameters, "autoTune": False}}
    assert read_config(config(producer, {"type": SCORER})) == {
        FactName.ROUTING: Router.APPROXIMATE,
        FactName.BLOCK_SIZE: block,
        FactName.BLOCKS_PER_REPLICA: blocks,
    }


def test_a_producer_that_tunes_itself_takes_block_size_and_capacity_from_a_replica() -> None:
    producer = {"type": APPROXIMATE, "parameters": {"autoTune": True, "blockSizeTokens": 256}}
    assert read_config(config(producer, {"type": SCORER})) == TUNED


def test_a_scorer_reads_the_producer_that_it_names_and_no_other() -> None:
    precise = {"type": PRECISE, "name": "exact-producer"}
    named = {"type": SCORER, "parameters": {"prefixMatchInfoProducerName": "exact-producer"}}
    unknown = {"type": SCORER, "parameters": {"prefixMatchInfoProducerName": "none"}}
    assert read_config(config(precise, named)) == KV_EVENTS
    assert read_config(config(precise, {"type": SCORER})) == TUNED
    assert read_config(config(precise, unknown)) == TUNED


@pytest.mark.parametrize(
    ("plugins", "facts"),
    [
        ([{"type": "max-score-picker"}], {FactName.ROUTING: Router.NONE}),
        ([{"type": "prefix-cache-affinity-filter"}], {}),
        ([{"type": "multicluster-prefix-cache-scorer"}], {}),
    ],
)
def test_without_scorer_of_prefixes_they_are_ignored_or_used_in_another_way(
    plugins: list[dict[str, Any]], facts: dict[FactName, Any]
) -> None:
    assert read_config(config(*plugins)) == facts


def test_a_scorer_that_no_profile_uses_has_no_effect_unless_there_is_no_profile() -> None:
    plugins = [{"type": SCORER}, {"type": "max-score-picker"}]
    assert read_config(config(*plugins, used=["max-score-picker"])) == {FactName.ROUTING: Router.NONE}
    assert read_config(config(*plugins, used=[])) == TUNED


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "has no EndpointPickerConfig"),
        (b"kind: Deployment", "has no EndpointPickerConfig"),
        (b"- a", "has no EndpointPickerConfig"),
        (b"kind: EndpointPickerConfig\nplugins: [", "line 2: not YAML: did not find expected node content"),
        (b"kind: a\nkind: EndpointPickerConfig", "line 2: kind: duplicate of line 1; keep one"),
        (b"\xff", "line 1: not UTF-8; save the file as UTF-8"),
    ],
)
def test_another_file_than_a_configuration_is_a_sentence(raw: bytes, sentence: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_config(raw)
    assert caught.value.detail == sentence


def test_a_configuration_can_be_written_into_the_command_line() -> None:
    written = fixture("epp_config_all_parameters.yaml").decode()
    expected = without(KV_EVENTS, KEY_ALGORITHM="xxh64", KEY_SEED="42")
    assert read_process(Process(("/epp", "--config-text", written), {})) == expected
    assert read_process(Process((f"--config-text={written}", "--v=1"), {})) == expected
    assert read_process(Process(("--config-file", "/config/a.yaml"), {})) == {}


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ([], None),
        (["--port"], ""),
        (["--port", "--host"], ""),
        (["--port", "1"], "1"),
        (["--port=1"], "1"),
        (["--port=", "1"], ""),
        (["--port", "1", "--port=2"], "2"),
        (["-port", "1", "--ports", "2"], None),
    ],
)
def test_an_option_is_read_from_a_command_line(arguments: list[str], value: str | None) -> None:
    assert Process(tuple(arguments), {}).option("port") == value


KEYS = st.sampled_from(
    [
        *("kind", "plugins", "type", "name", "state", "subscribers", "totalSubscribers", "blockSizeTokens"),
        "blockSize",
        *("parameters", "schedulingProfiles", "pluginRef", "prefixMatchInfoProducerName", "tokenProcessorConfig"),
        *("indexerConfig", "kvBlockIndexConfig", "inMemoryConfig", "podCacheSize", "kvEventsConfig", "autoTune"),
    ]
)
TYPES = st.sampled_from([SCORER, APPROXIMATE, PRECISE, PRECISE_SCORER, "burst-prefix-cache-producer"])
PLUGIN = st.fixed_dictionaries({"type": TYPES, "parameters": json_named(KEYS), "state": json_named(KEYS)})
MATERIAL = st.one_of(
    st.binary(max_size=200),
    json_named(KEYS).map(lambda value: json.dumps(value).encode()),
    st.lists(PLUGIN, max_size=4).map(
        lambda each: json.dumps({"kind": "EndpointPickerConfig", "plugins": each}).encode()
    ),
    st.dictionaries(st.text(max_size=3), PLUGIN, max_size=4).map(lambda each: json.dumps({"plugins": each}).encode()),
    st.text(max_size=99).map(lambda each: f"# TYPE a gauge\nllm_d_epp_info{{{each}}} {each}".encode(errors="replace")),
)


@given(MATERIAL)
def test_any_answer_gives_facts_or_a_sentence(body: bytes) -> None:
    assert all(obeys_the_law(each, body) for each in (read_state, read_metrics, read_config))
