"""The simulated provider: it holds to the contract, agrees with what else the replica says, and tells the story."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboard.demo.answers import Answer, Process
from dashboard.demo.describe import Behaviour, DemoReplica, Speaks
from dashboard.demo.pages import render
from dashboard.demo.story import default_fleet
from dashboard.vllm.schemas.inference_config import InferenceConfigReply
from dashboard.vllm.schemas.paths import leaves

CAPTURES = Path(__file__).parents[1] / "captures" / "0.32.0"
NOW = 1_795_000_000.0
FLEET = {replica.name: replica for replica in default_fleet()}
# Who sends a whole answer, and who would if it were not slow: the slow one only takes longer.
HAVING = [name for name, replica in FLEET.items() if Speaks.PROVIDER in replica.speaks]
PATH = "/inference/v1/config"
PREFILL = "deepseek-v3-prefill-1"


def _process(replica: DemoReplica, at: float | None = None) -> Process:
    replica = replace(replica, behaviour=Behaviour.NORMAL)
    started = NOW - replica.uptime_seconds if at is None else at
    return Process.start(replica, render(replica.configuration, replica.speaks), started)


def _answer(name: str, query: str = "", path: str = PATH) -> Answer:
    return _process(FLEET[name]).answer("GET", path, None, NOW, query)


def _told(name: str, query: str = "", path: str = PATH) -> Any:
    answer = _answer(name, query, path)
    assert answer.status == 200
    return json.loads(answer.body)


def _labels(name: str) -> list[dict[str, str]]:
    """Return the labels of the series of `vllm:cache_config_info`."""
    page = _answer(name, path="/metrics").body.decode()
    lines = [line for line in page.splitlines() if line.startswith("vllm:cache_config_info{")]
    return [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in lines]


def _digests(name: str) -> list[tuple[str | None, str | None]]:
    """Return (canonical, engine) of each engine of a replica."""
    prints = [engine["fingerprint"] for engine in _told(name)["fleet"]["engines"]]
    return [(each["canonical"], each["engine"]) for each in prints]


def _shape(value: Any) -> Any:
    """Return a value's keys and types; null, text and numbers of any type are one: which it is, the models check."""
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return [_shape(item) for item in value] if isinstance(value, list) else None


@pytest.mark.parametrize("name", HAVING)
@pytest.mark.parametrize("query", ["", "full=true"])
def test_fleet_has_every_field_of_the_contract_and_no_other(name: str, query: str) -> None:
    """Groups apart: these have only the fields of their kind."""
    told = _told(name, query)
    read = InferenceConfigReply.model_validate(told).model_dump(mode="json")
    for answer in (told, read):
        for engine in answer["fleet"]["engines"]:
            engine["groups"] = len(engine["groups"])
    assert _shape(read["fleet"]) == _shape(told["fleet"])
    assert read["fleet"]["engines"] == told["fleet"]["engines"]


@pytest.mark.parametrize(
    ("name", "case"), [("chat-70b-01", "llama_tp2"), ("gemma-27b-05", "gemma3"), (PREFILL, "deepseek_mla")]
)
def test_beside_fleet_the_answer_has_the_fields_of_the_seed(name: str, case: str) -> None:
    real = json.loads((CAPTURES / case / "inference_config.json").read_text())
    told = _told(name)
    assert told.keys() - real.keys() == {"fleet"}
    for section in real.keys() - {"devices"}:
        assert told[section].keys() == real[section].keys()
    assert told["devices"][0].keys() == real["devices"][0].keys()
    for kinds in (
        {group["spec_type"]: group.keys() for group in answer["kv_cache"]["groups"]} for answer in (told, real)
    ):
        assert kinds == {group["spec_type"]: group.keys() for group in real["kv_cache"]["groups"]}


def test_a_field_that_this_vllm_lacks_is_null_and_named() -> None:
    told = _told("chat-70b-01")
    assert told["scheduler"]["max_num_partial_prefills"] is None
    assert [one["field"] for one in told["fleet"]["unavailable"]] == ["scheduler.max_num_partial_prefills"]


@pytest.mark.parametrize("query", ["", "full=true", "full=1", "full=false", "full=&data_parallel_rank=0"])
def test_both_paths_answer_alike_and_settings_only_where_they_are_asked_for(query: str) -> None:
    told = _told("chat-70b-01", query)
    assert told == _told("chat-70b-01", query, "/v1/config")
    is_full = query in {"full=true", "full=1"}
    assert (told["fleet"]["settings"] is not None, told["fleet"]["environment"] is not None) == (is_full, is_full)


@pytest.mark.parametrize(
    "query", ["full=please", "data_parallel_rank=2", "data_parallel_rank=-1", "data_parallel_rank=x"]
)
def test_a_wrong_parameter_is_refused(query: str) -> None:
    assert _answer(PREFILL, query).status == 400


@pytest.mark.parametrize("name", ["chat-70b-11", "gemma-27b-03", PREFILL])
def test_all_settings_are_those_of_server_info(name: str) -> None:
    """Where two engines are behind it, /server_info has their blocks' sum, and no local rank."""
    server, fleet = _told(name, path="/server_info"), _told(name, "full=true")["fleet"]
    flat = dict(leaves(server["vllm_config"]))
    differ = {path for path, value in flat.items() if fleet["settings"][path] != value}
    own = {"cache_config.num_gpu_blocks", "parallel_config.data_parallel_rank_local"}
    assert differ == (own if name == PREFILL else set())
    assert fleet["settings"].keys() == flat.keys()
    assert fleet["environment"] == server["vllm_env"]


def test_the_environment_names_the_plugins_and_says_whether_development_mode_is_on() -> None:
    told = {}
    for name in ("chat-70b-01", "chat-70b-11", "gemma-27b-03"):
        environment = _told(name, "full=true")["fleet"]["environment"]
        told[name] = environment["VLLM_PLUGINS"], environment["VLLM_SERVER_DEV_MODE"]
    assert told == {
        "chat-70b-01": (["lora_filesystem_resolver", "fleet_config"], False),
        "chat-70b-11": (["lora_filesystem_resolver", "fleet_config"], True),
        "gemma-27b-03": (["llm-d-server-introspection", "lora_filesystem_resolver", "fleet_config"], True),
    }


@pytest.mark.parametrize("name", HAVING)
def test_what_the_open_endpoints_say_is_what_the_provider_says(name: str) -> None:
    told, labels = _told(name), _labels(name)
    engines, hashing = told["fleet"]["engines"], told["fleet"]["prefix_hashing"]
    assert [label["engine"] for label in labels] == [str(engine["data_parallel_rank"]) for engine in engines]
    for label in labels:
        assert int(label["num_gpu_blocks"]) == sum(engine["num_gpu_blocks"] for engine in engines)
        assert int(label["kv_cache_size_tokens"]) == engines[0]["kv_cache_size_tokens"]
        assert label["enable_prefix_caching"] == str(hashing["enabled"])
        assert label["prefix_caching_hash_algo"] == hashing["algorithm"]
        assert int(label["block_size"]) == hashing["hash_block_size"]
    model = _told(name, path="/v1/models")["data"][0]
    assert told["model"]["served_model_names"] == [model["id"]]
    assert (told["fleet"]["model"]["tokenizer"], told["model"]["max_model_len"]) == (
        model["root"],
        model["max_model_len"],
    )
    assert told["fleet"]["vllm_version"] == _told(name, path="/version")["version"]


def test_events_are_published_where_kv_event_sources_says() -> None:
    source = _told("chat-70b-01", path="/kv_event_sources")["0"]
    events = _told("chat-70b-01")["fleet"]["kv_events"]
    assert events == {
        "enabled": True,
        "publisher": source["publisher"],
        "endpoint": source["endpoint"],
        "topic": source["topic"],
    }
    assert _told(PREFILL)["fleet"]["kv_events"]["enabled"] is False
    assert _told(PREFILL, path="/kv_event_sources") == {}


def test_both_sides_of_a_transfer_name_their_connector_and_agree_in_what_it_demands() -> None:
    sides = [_told(name)["fleet"]["kv_transfer"] for name in (PREFILL, "deepseek-v3-decode-0")]
    assert [(side["connector"], side["role"]) for side in sides] == [
        ("NixlConnector", "kv_producer"),
        ("NixlConnector", "kv_consumer"),
    ]
    assert sides[0]["compatibility"] == sides[1]["compatibility"]
    assert sides[0]["engine_id"] != sides[1]["engine_id"]


@pytest.mark.parametrize("name", HAVING)
def test_bytes_of_a_device_are_its_blocks_and_fit_its_memory(name: str) -> None:
    for engine in _told(name)["fleet"]["engines"]:
        page = max(group["page_size_bytes"] * len(group["layer_names"]) for group in engine["groups"])
        assert engine["kv_cache_bytes_per_device"] == engine["num_gpu_blocks"] * page
        for device in engine["devices"]:
            assert 0.1 < engine["kv_cache_bytes_per_device"] / device["total_memory_bytes"] < 0.8
        requests = engine["kv_cache_size_tokens"] / engine["max_model_len"]
        assert engine["max_concurrency"] == pytest.approx(requests, rel=1e-4)


def test_devices_stand_in_the_order_of_their_tensor_parallel_ranks() -> None:
    devices = _told("chat-70b-01")["fleet"]["engines"][0]["devices"]
    ranks = [(one["rank"], one["tensor_parallel_rank"], one["pipeline_parallel_rank"]) for one in devices]
    assert ranks == [(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 3, 0)]


def test_each_rank_of_a_server_is_answered_for_and_its_blocks_are_its_own() -> None:
    """The first one by default; the settings are those of the engine, where the API server has the sum."""
    engines = _told(PREFILL)["fleet"]["engines"]
    assert engines[0]["num_gpu_blocks"] != engines[1]["num_gpu_blocks"]
    assert _told(PREFILL) == _told(PREFILL, "data_parallel_rank=0")
    for rank in (0, 1):
        told = _told(PREFILL, f"full=true&data_parallel_rank={rank}")
        blocks = engines[rank]["num_gpu_blocks"]
        assert told["fleet"]["data_parallel_rank"] == told["parallelism"]["data_parallel_rank"] == rank
        assert told["kv_cache"]["num_gpu_blocks"] == told["fleet"]["settings"]["cache_config.num_gpu_blocks"] == blocks
        assert told["fleet"]["engines"] == engines


def test_a_rank_behind_an_address_of_its_own_answers_for_itself_alone() -> None:
    told = _told("deepseek-v3-decode-3")
    assert [engine["data_parallel_rank"] for engine in told["fleet"]["engines"]] == [3]
    assert told == _told("deepseek-v3-decode-3", "data_parallel_rank=3")
    assert _answer("deepseek-v3-decode-3", "data_parallel_rank=0").status == 400


def test_every_series_of_an_engine_is_there_for_both_ranks() -> None:
    page = _answer(PREFILL, path="/metrics").body.decode()
    of_engine = {rank: re.findall(rf'^(.*)engine="{rank}"', page, re.MULTILINE) for rank in (0, 1)}
    assert of_engine[0] == of_engine[1] != []


def test_replicas_with_equal_settings_hash_alike_with_sha256() -> None:
    """All of the largest pool but number 4, which cuts other blocks, and number 11, which has another algorithm."""
    usual = _digests("chat-70b-01")
    pool = {name: _digests(name) for name in HAVING if name.startswith("chat-70b")}
    assert {name for name, digests in pool.items() if digests != usual} == {"chat-70b-04", "chat-70b-11"}


def test_another_block_size_changes_the_engines_digest_and_not_the_canonical_one() -> None:
    [(canonical, engine)], [(usual_canonical, usual)] = _digests("chat-70b-04"), _digests("chat-70b-01")
    assert canonical == usual_canonical
    assert engine != usual


def test_another_algorithm_changes_both_digests() -> None:
    [(canonical, engine)], [(usual_canonical, usual)] = _digests("chat-70b-11"), _digests("chat-70b-01")
    assert canonical != usual_canonical
    assert engine != usual


def test_two_algorithms_of_one_root_and_block_size_hash_differently() -> None:
    cbor, pickled = (_told(name)["fleet"]["prefix_hashing"] for name in ("chat-70b-01", "gemma-27b-05"))
    assert {name for name in cbor if cbor[name] != pickled[name]} == {"algorithm"}
    assert set(_digests("chat-70b-01")[0]).isdisjoint(_digests("gemma-27b-05")[0])


def test_with_xxhash_no_two_ranks_hash_alike_though_their_settings_are_equal() -> None:
    """Neither those of one replica, nor those of replicas that were started with one command line."""
    digests = [digest for name in HAVING if name.startswith("deepseek") for digest in _digests(name)]
    assert len(digests) == 2 * 2 + 8
    assert len({engine for _, engine in digests}) == len({canonical for canonical, _ in digests}) == len(digests)
    assert {FLEET[f"deepseek-v3-decode-{rank}"].configuration for rank in range(8)} == {
        FLEET["deepseek-v3-decode-0"].configuration
    }
    for name, agree in ((PREFILL, False), ("deepseek-v3-decode-0", True), ("chat-70b-01", True)):
        assert _told(name)["fleet"]["prefix_hashing"]["engines_agree"] is agree


def test_two_versions_hash_alike() -> None:
    assert _told("gemma-27b-04")["fleet"]["vllm_version"] != _told("gemma-27b-05")["fleet"]["vllm_version"]
    assert _digests("gemma-27b-04") == _digests("gemma-27b-05") != [(None, None)]


def test_without_prefix_cache_there_is_no_digest_and_the_reason_is_told() -> None:
    fleet = _told("gemma-27b-03")["fleet"]
    assert fleet["engines"][0]["fingerprint"] == {
        "canonical": None,
        "engine": None,
        "reason": "prefix caching is off, so this engine hashes no blocks",
    }
    assert (fleet["prefix_hashing"]["seed_policy"], fleet["prefix_hashing"]["engines_agree"]) == (None, None)


def test_where_roots_come_from_is_said_and_never_the_root() -> None:
    policies = {name: _told(name)["fleet"]["prefix_hashing"]["seed_policy"] for name in HAVING}
    random = {name for name, policy in policies.items() if policy == "random"}
    assert random == {name for name in HAVING if name.startswith("deepseek")} | {"chat-70b-11"}
    assert set(policies.values()) == {"default", "random", None}


def test_beside_a_public_plugin_the_provider_tells_four_times_less() -> None:
    """The plugin says blocks times block size, which a hybrid model does not hold."""
    plugin = _told("gemma-27b-03", path="/plugins/llm-d-server-introspection/kv-cache")
    true = _told("gemma-27b-03")["fleet"]["engines"][0]
    assert plugin["num_gpu_blocks"] == true["num_gpu_blocks"]
    assert plugin["kv_cache_size_tokens"] > 4 * true["kv_cache_size_tokens"]


@pytest.mark.parametrize(("name", "changes"), [("deepseek-v3-decode-0", True), ("chat-70b-01", False)])
def test_a_restart_makes_up_a_new_root_with_xxhash_only(name: str, *, changes: bool) -> None:
    prints = [
        json.loads(_process(FLEET[name], at).answer("GET", PATH, None, NOW).body)["fleet"]["engines"][0]["fingerprint"]
        for at in (NOW - 100, NOW)
    ]
    assert (prints[0] != prints[1]) is changes


def test_a_version_without_endpoint_plugins_answers_nothing_of_it() -> None:
    old = replace(FLEET["qwen3-8b-05"], speaks=frozenset({Speaks.PROVIDER}))
    assert not [name for name in render(old.configuration, old.speaks).pages if name.startswith(PATH)]
