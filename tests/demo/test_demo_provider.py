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
