"""What the provider answers on stand-ins of the captured servers: the seed's schema, field by field, and `fleet`."""

from typing import Any

import pytest
from pydantic import BaseModel

from dashboard.vllm.schemas.inference_config import FleetExtension, InferenceConfigReply
from dashboard.vllm.schemas.paths import leaves
from tests.captured import INFERENCE_CONFIG, SERVER_INFO, Capture, capture, captures, has_python_api
from tests.provider.conftest import Serve
from tests.provider.engines import EngineProcess, broken, thing
from tests.provider.seed_schema import DEVICE, GROUP, SEED
from tests.provider.vllm_modules import Dtype

IS_NEW = captures(lambda server: server.version in {"0.32.0", "0.33.0"} and has_python_api(server))
ASKED = captures(lambda server: INFERENCE_CONFIG in server.answers and has_python_api(server))
LATER = [("TrailingWindowSpec", {"dtype": "bfloat16"}), ("FullAttentionSpec", {"sliding_window": 64})]


@pytest.mark.parametrize("server", ASKED)
def test_every_field_of_the_seed_is_what_the_server_itself_told(server: Capture, serve: Serve) -> None:
    expected = server.json(INFERENCE_CONFIG)
    expected["scheduler"]["max_num_partial_prefills"] = None  # vLLM 0.32.0 has no such setting
    for group in expected["kv_cache"]["groups"]:
        if "mamba_type" in group:
            group["mamba_type"] = "mamba2"

    told = serve(server).told()
    told.pop("fleet")

    assert told == expected


@pytest.mark.parametrize("server", IS_NEW)
def test_the_answer_has_the_seeds_names_and_types_and_nothing_else_but_fleet(server: Capture, serve: Serve) -> None:
    told = serve(server).told()

    assert set(told) == {*SEED, "devices", "fleet"}
    for section, fields in SEED.items():
        has_only(told[section], fields)
    for device in told["devices"]:
        has_only(device, DEVICE)
    for group in told["kv_cache"]["groups"]:
        has_only({name: group[name] for name in GROUP}, GROUP)


def has_only(told: dict[str, Any], fields: dict[str, tuple[type, ...]]) -> None:
    assert list(told) == list(fields)
    for name, value in told.items():
        assert type(value) in fields[name], f"{name} is {value!r}"


@pytest.mark.parametrize("query", ["", "?full=true"])
@pytest.mark.parametrize("server", IS_NEW)
def test_the_answer_is_what_our_own_schema_reads(server: Capture, query: str, serve: Serve) -> None:
    body = serve(server).get(query).content
    read = InferenceConfigReply.model_validate_json(body, strict=True)

    assert read.fleet is not None
    assert read.fleet.schema_version == "1.1"


@pytest.mark.parametrize("server", IS_NEW)
def test_the_extension_has_every_field_that_it_is_described_with_and_no_other(server: Capture, serve: Serve) -> None:
    told = serve(server).told()["fleet"]

    assert set(told) == set(FleetExtension.model_fields)
    has_all(told, FleetExtension)


def has_all(told: dict[str, Any], model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        if isinstance(told[name], dict) and isinstance(field.default_factory, type):
            assert set(told[name]) == set(field.default_factory.model_fields), name  # type: ignore[attr-defined]


@pytest.mark.parametrize("server", IS_NEW)
def test_tokens_and_concurrency_are_those_of_vllms_own_log(server: Capture, serve: Serve) -> None:
    engine = serve(server).told()["fleet"]["engines"][0]

    assert engine["kv_cache_size_tokens"] == server.logged["kv_cache_size_tokens"][0]
    assert round(engine["max_concurrency"], 2) == server.logged["max_concurrency"][0]
    assert engine["max_model_len"] == server.logged["max_model_len"][0]


@pytest.mark.parametrize("server", IS_NEW)
def test_nothing_is_missing_on_the_version_that_it_is_made_for_but_what_that_version_lacks(
    server: Capture, serve: Serve
) -> None:
    assert [one["field"] for one in serve(server).told("?full=true")["fleet"]["unavailable"]] == [
        "scheduler.max_num_partial_prefills"
    ]


@pytest.mark.parametrize("server", IS_NEW)
def test_the_settings_are_all_that_server_info_tells_by_path(server: Capture, serve: Serve) -> None:
    expected = server.json(SERVER_INFO)
    told = serve(server, *[EngineProcess(server)]).told("?full=true")["fleet"]
    settings = dict(leaves(expected["vllm_config"]))
    settings["cache_config.num_gpu_blocks"] = told["engines"][0]["num_gpu_blocks"]

    assert told["settings"] == settings
    assert told["environment"] == expected["vllm_env"]


def test_without_full_there_are_no_settings_and_no_environment(serve: Serve) -> None:
    told = serve(capture("llama")).told()["fleet"]

    assert (told["settings"], told["environment"]) == (None, None)


def test_an_engine_of_two_devices_tells_where_each_of_them_stands(serve: Serve) -> None:
    devices = serve(capture("llama_tp2")).told()["fleet"]["engines"][0]["devices"]

    assert [(one["rank"], one["tensor_parallel_rank"], one["pipeline_parallel_rank"]) for one in devices] == [
        (0, 0, 0),
        (1, 1, 0),
    ]


def test_a_gpu_tells_its_capability_and_its_compute_units(serve: Serve) -> None:
    process = EngineProcess(capture("llama"))
    platform = process.modules["vllm.platforms"].current_platform
    platform.get_device_capability = lambda _: thing("DeviceCapability", major=9, minor=0)
    platform.num_compute_units = lambda _: 132

    device = serve(capture("llama"), process).told()["devices"][0]

    assert device["compute_capability"] == {"major": 9, "minor": 0}
    assert device["num_compute_units"] == 132


@pytest.mark.parametrize(("kind", "more"), LATER)
def test_a_kind_of_group_that_came_later_goes_by_its_own_name(kind: str, more: dict[str, Any], serve: Serve) -> None:
    process = EngineProcess(capture("llama"))
    process.kv_cache_config.kv_cache_groups[0].kv_cache_spec = thing(kind, block_size=16, page_size_bytes=64, **more)

    group = serve(capture("llama"), process).told()["kv_cache"]["groups"][0]

    assert group["spec_type"] == kind
    assert {name: group[name] for name in more} == more


def test_a_group_that_cannot_be_read_takes_all_of_them_along(serve: Serve) -> None:
    process = EngineProcess(capture("gemma3"))
    process.kv_cache_config.kv_cache_groups[5].kv_cache_spec.block_size = 0
    told = serve(capture("gemma3"), process).told()

    assert told["kv_cache"]["groups"] == []
    assert {"field": "kv_cache.groups", "reason": "its value has another type, or a size that cannot be"} in told[
        "fleet"
    ]["unavailable"]


def test_memory_is_one_allocation_where_blocks_have_a_stride_and_a_sum_before() -> None:
    newer, older = EngineProcess(capture("llama")), EngineProcess(capture("llama"))
    older.kv_cache_config.kv_cache_tensors = [thing("KVCacheTensor", size=100), thing("KVCacheTensor", size=50)]
    newer.kv_cache_config.kv_cache_tensors = [
        thing("KVCacheTensor", size=100, block_stride=64, host_resident=False),
        thing("KVCacheTensor", size=100, block_stride=64, host_resident=False),
        thing("KVCacheTensor", size=7000, block_stride=64, host_resident=True),
    ]

    assert older.description()["engine"]["kv_cache_bytes_per_device"] == 150
    assert newer.description()["engine"]["kv_cache_bytes_per_device"] == 100


def test_memory_that_was_available_at_the_start_is_null_where_the_engine_did_not_measure_it() -> None:
    measured, unmeasured = EngineProcess(capture("llama")), EngineProcess(capture("llama"))
    unmeasured.core.available_gpu_memory_for_kv_cache = -1  # vLLM's value before it measures

    assert measured.description()["engine"]["kv_cache_available_bytes"] == 2**31
    assert unmeasured.description()["engine"]["kv_cache_available_bytes"] is None


def test_a_version_that_forgets_its_capacity_has_it_computed_by_its_own_function() -> None:
    older = EngineProcess(capture("llama"))
    cache = older.config.cache_config
    cache.kv_cache_size_tokens = cache.kv_cache_max_concurrency = None
    older.modules["vllm.v1.core.kv_cache_utils"].get_max_concurrency_for_kv_cache_config = (  # type: ignore[attr-defined]
        lambda config, held: held.num_blocks * 128 / config.model_config.max_model_len
    )
    told = older.description()

    assert (told["engine"]["kv_cache_size_tokens"], told["engine"]["max_concurrency"]) == (1_048_576, 512.0)
    assert not [one for one in told["unavailable"] if one["field"].startswith("fleet.engines")]


def test_what_the_engine_is_wired_to_is_told(serve: Serve) -> None:
    server = capture("qwen3_kvevents")
    process = EngineProcess(server)
    process.config.kv_transfer_config = thing("KVTransferConfig", kv_connector="N", kv_role="kv_both", engine_id="e")
    told = serve(server, process).told()["fleet"]

    assert told["kv_events"] == {
        "enabled": True,
        "publisher": "zmq",
        "endpoint": "tcp://*:5557",
        "topic": "kv@pod-1@qwen3",
    }
    assert told["kv_transfer"] == {
        "connector": "N",
        "role": "kv_both",
        "engine_id": "e",
        "compatibility": {
            "model": "./qwen3",
            "dtype": "bfloat16",
            "cache_dtype": "auto",
            "attention_backend": None,
            "hybrid_kv_cache_manager": True,
            "kv_cache_layout": None,
            "num_kv_heads": 2,
            "head_size": 32,
            "num_hidden_layers": 4,
        },
    }


def test_what_is_off_is_null_throughout_and_named_nowhere(serve: Serve) -> None:
    told = serve(capture("llama")).told()["fleet"]

    assert told["kv_events"] == {"enabled": False, "publisher": None, "endpoint": None, "topic": None}
    assert told["kv_transfer"] == {"connector": None, "role": None, "engine_id": None, "compatibility": None}


def test_a_backend_of_offloading_is_told_where_offloading_is_on(serve: Serve) -> None:
    process = EngineProcess(capture("llama"))
    process.config.cache_config.kv_offloading_size = 2.5
    told = serve(capture("llama"), process).told()["kv_cache"]

    assert (told["kv_offloading_enabled"], told["kv_offloading_backend"], told["kv_offloading_size_gib"]) == (
        True,
        "native",
        2.5,
    )


def test_the_type_of_the_model_is_never_an_objects_text(serve: Serve) -> None:
    process = EngineProcess(capture("llama"))
    process.config.model_config.dtype = object()

    assert serve(capture("llama"), process).told()["model"]["dtype"] is None


def test_the_types_of_a_draft_and_of_adapters_are_told_as_the_models_is(serve: Serve) -> None:
    process = EngineProcess(capture("llama_lora"))
    process.config.lora_config.lora_dtype = Dtype("torch.float16")

    assert serve(capture("llama_lora"), process).told()["lora"]["lora_dtype"] == "float16"


def test_the_digest_of_the_chat_template_is_of_the_text_that_conversations_go_through(serve: Serve) -> None:
    usual, same, given = (serve(capture("llama"), started=False) for _ in range(3))
    given.state.args.chat_template = "{{ other }}"
    for server in (usual, same, given):
        server.start()
    digests = [server.told()["fleet"]["chat"]["template_digest"] for server in (usual, same, given)]

    assert digests[0] == digests[1] != digests[2]
    assert all(len(digest) == 16 for digest in digests)


@pytest.mark.parametrize("template", [None, "{{ given }}"])
def test_without_a_tokenizer_only_the_given_template_counts(template: str | None, serve: Serve) -> None:
    server = serve(capture("llama"), started=False)
    server.client.renderer.tokenizer = None
    server.state.args.chat_template = template
    server.start()

    assert (server.told()["fleet"]["chat"]["template_digest"] is None) is (template is None)


def test_a_version_that_keeps_templates_elsewhere_is_asked_there(serve: Serve) -> None:
    newer, older = serve(capture("llama"), started=False), serve(capture("llama"), started=False)
    older.modules["vllm.entrypoints.chat_utils"] = older.modules.pop("vllm.renderers.chat_utils")
    for server in (newer, older):
        server.state.args.chat_template = "{{ given }}"
        server.start()

    assert newer.told()["fleet"]["chat"] == older.told()["fleet"]["chat"]


def test_a_server_whose_state_tells_nothing_still_answers_with_its_engines(serve: Serve) -> None:
    server = serve(capture("llama"), started=False)
    server.state = thing("State", args=None)
    server.start()
    told = server.told("?full=true")

    assert told["kv_cache"]["num_gpu_blocks"] == 8192
    assert told["model"]["served_model_names"] is None
    assert told["fleet"]["adapters"] == []
    assert {one["field"] for one in told["fleet"]["unavailable"]} >= {
        "model.served_model_names",
        "fleet.chat.template_digest",
        "fleet.chat.tool_call_parser",
        "fleet.adapters",
    }


def test_a_state_that_raises_is_like_one_that_tells_nothing(serve: Serve) -> None:
    server = serve(capture("llama"), started=False)
    for name in ("vllm_config", "openai_serving_models", "args"):
        broken(server.state, name)
    server.runner.run(server.plugin.init_state(server.client, server.state, server.client))

    assert server.told()["kv_cache"]["num_gpu_blocks"] == 8192


def test_the_time_of_the_start_is_that_of_the_engines_process(serve: Serve) -> None:
    told = serve(capture("llama")).told()["fleet"]

    assert told["started_at"] == told["engines"][0]["started_at"]
    assert FleetExtension.model_validate(told).started_at is not None
