"""The simulated provider has the schema of the real one and agrees with the replica's other endpoints."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dashboard.demo import DemoServer, default_fleet
from dashboard.demo.describe import Behaviour, Speaks
from dashboard.vllm.metrics import parse_metrics
from tests.demo.conftest import FLEET, NOW, answer_of, process_of
from vllm_fleet_provider.shared.digests import digest_answer
from vllm_fleet_provider.shared.inference_config import InferenceConfigReply
from vllm_fleet_provider.shared.paths import flatten

CAPTURES = Path(__file__).parents[1] / "captures" / "0.32.0"
# Including the slow replica.
WITH_PROVIDER = [name for name, replica in FLEET.items() if Speaks.PROVIDER in replica.speaks]
PATH = "/inference/v1/config"
PREFILL = "deepseek-v3-prefill-1"


def _json(name: str, query: str = "", path: str = PATH) -> Any:
    return json.loads(answer_of(process_of(FLEET[name]), path, query).body)


def _labels(name: str) -> list[dict[str, str]]:
    """Return the labels of the series of `vllm:cache_config_info`."""
    page = answer_of(process_of(FLEET[name]), "/metrics").body.decode()
    lines = [line for line in page.splitlines() if line.startswith("vllm:cache_config_info{")]
    return [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in lines]


def _shape(value: Any) -> Any:
    """Return the keys and lists of a value; the models check the types of the rest."""
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return [_shape(item) for item in value] if isinstance(value, list) else None


@pytest.mark.parametrize("name", WITH_PROVIDER)
@pytest.mark.parametrize("query", ["", "full=true"])
def test_fleet_has_exactly_the_fields_of_the_schema(name: str, query: str) -> None:
    """Except groups, which have only the fields of their kind."""
    answer = _json(name, query)
    read = InferenceConfigReply.model_validate(answer).model_dump(mode="json")
    for each in (answer, read):
        for engine in each["fleet"]["engines"]:
            engine["groups"] = len(engine["groups"])
    assert _shape(read["fleet"]) == _shape(answer["fleet"])
    assert read["fleet"]["engines"] == answer["fleet"]["engines"]


@pytest.mark.parametrize(
    ("name", "case"), [("chat-70b-01", "llama_tp2"), ("gemma-27b-05", "gemma3"), (PREFILL, "deepseek_mla")]
)
def test_the_other_sections_have_the_fields_of_a_real_answer(name: str, case: str) -> None:
    real = json.loads((CAPTURES / case / "inference_config.json").read_text())
    answer = _json(name)
    assert answer.keys() - real.keys() == {"fleet"}
    for section in real.keys() - {"devices"}:
        assert answer[section].keys() == real[section].keys()
    assert answer["devices"][0].keys() == real["devices"][0].keys()
    for kinds in (
        {group["spec_type"]: group.keys() for group in each["kv_cache"]["groups"]} for each in (answer, real)
    ):
        assert kinds == {group["spec_type"]: group.keys() for group in real["kv_cache"]["groups"]}


def test_a_field_that_this_vllm_lacks_is_null_and_listed() -> None:
    answer = _json("chat-70b-01")
    assert answer["scheduler"]["max_num_partial_prefills"] is None
    assert [one["field"] for one in answer["fleet"]["unavailable"]] == ["scheduler.max_num_partial_prefills"]


@pytest.mark.parametrize("name", ["chat-70b-11", "gemma-27b-03", PREFILL])
def test_all_settings_are_those_of_server_info(name: str) -> None:
    """Except the layout, which workers choose. With two engines it has the sum of their blocks, and no local rank."""
    server, fleet = _json(name, path="/server_info"), _json(name, "full=true")["fleet"]
    flat = flatten(server["vllm_config"])
    differ = {path for path, value in flat.items() if fleet["settings"][path] != value}
    own = {"cache_config.num_gpu_blocks", "parallel_config.data_parallel_rank_local"}
    assert differ == (own if name == PREFILL else set()) | {"cache_config.kv_cache_layout"}
    assert fleet["settings"].keys() == flat.keys()
    assert fleet["environment"] == server["vllm_env"]


@pytest.mark.parametrize("name", WITH_PROVIDER)
def test_the_open_endpoints_and_the_provider_agree(name: str) -> None:
    answer, labels = _json(name), _labels(name)
    engines, hashing = answer["fleet"]["engines"], answer["fleet"]["prefix_hashing"]
    assert [label["engine"] for label in labels] == [str(engine["data_parallel_rank"]) for engine in engines]
    for label in labels:
        assert int(label["num_gpu_blocks"]) == sum(engine["num_gpu_blocks"] for engine in engines)
        assert int(label["kv_cache_size_tokens"]) == engines[0]["kv_cache_size_tokens"]
        assert label["enable_prefix_caching"] == str(hashing["enabled"])
        assert label["prefix_caching_hash_algo"] == hashing["algorithm"]
        assert int(label["block_size"]) == hashing["hash_block_size"]
    model = _json(name, path="/v1/models")["data"][0]
    assert answer["model"]["served_model_names"] == [model["id"]]
    assert (answer["fleet"]["model"]["tokenizer"], answer["model"]["max_model_len"]) == (
        model["root"],
        model["max_model_len"],
    )
    assert answer["fleet"]["vllm_version"] == _json(name, path="/version")["version"]


def test_each_rank_has_an_answer_with_its_own_blocks() -> None:
    """The first rank is the default. The settings are the engine's, not the API server's sum."""
    engines = _json(PREFILL)["fleet"]["engines"]
    assert engines[0]["num_gpu_blocks"] != engines[1]["num_gpu_blocks"]
    assert _json(PREFILL) == _json(PREFILL, "data_parallel_rank=0")
    for rank in (0, 1):
        answer = _json(PREFILL, f"full=true&data_parallel_rank={rank}")
        blocks = engines[rank]["num_gpu_blocks"]
        assert answer["fleet"]["data_parallel_rank"] == answer["parallelism"]["data_parallel_rank"] == rank
        assert (
            answer["kv_cache"]["num_gpu_blocks"] == answer["fleet"]["settings"]["cache_config.num_gpu_blocks"] == blocks
        )
        assert answer["fleet"]["engines"] == engines


def test_metrics_export_the_digests_of_each_answer_and_equal_replicas_have_equal_ones() -> None:
    documents: dict[tuple[str, int], str | None] = {}
    fleet = [replica for replica in default_fleet() if replica.behaviour is Behaviour.NORMAL]
    for process in DemoServer(fleet, clock=lambda: NOW)._processes.values():
        digests = parse_metrics(answer_of(process, "/metrics").body).digests
        asked = [f"full=true&data_parallel_rank={each.engine}" for each in digests]
        answers = [InferenceConfigReply.model_validate_json(answer_of(process, PATH, query).body) for query in asked]

        assert digests == tuple(map(digest_answer, answers))
        assert bool(digests) is (Speaks.PROVIDER in process.replica.speaks)
        documents |= {(process.replica.name, each.engine): each.document for each in digests}

    assert documents["chat-70b-01", 0] == documents["chat-70b-02", 0]
    assert documents[PREFILL, 0] == documents[PREFILL, 1]
    assert None not in documents.values()


@pytest.mark.parametrize("name", WITH_PROVIDER)
def test_development_mode_is_an_argument_of_the_environment(name: str) -> None:
    fleet = _json(name, "full=true")["fleet"]
    given = {"argument": "VLLM_SERVER_DEV_MODE", "source": "environment"} in fleet["set_arguments"]

    assert given is fleet["environment"]["VLLM_SERVER_DEV_MODE"]
