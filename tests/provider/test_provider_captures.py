"""The provider's answers for stand-ins of the captured servers: all proposed sections, and `fleet`."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from tests.captured import INFERENCE_CONFIG, SERVER_INFO, Capture, capture, captures, has_python_api
from tests.provider.conftest import Serve
from tests.provider.engines import ApiServer, EngineProcess, broken, thing
from tests.provider.seed_schema import DEVICE, GROUP, SEED
from tests.provider.vllm_modules import Dtype
from vllm_fleet_provider.shared.inference_config import FleetExtension, InferenceConfigReply
from vllm_fleet_provider.shared.paths import flatten

IS_NEW = captures(lambda server: server.version in {"0.32.0", "0.33.0"} and has_python_api(server))
HAS_CONFIG = captures(lambda server: INFERENCE_CONFIG in server.answers and has_python_api(server))
LLAMA = capture("llama")


@pytest.mark.parametrize("server", HAS_CONFIG)
def test_the_proposed_sections_equal_those_that_the_server_answered(server: Capture, serve: Serve) -> None:
    expected = server.json(INFERENCE_CONFIG)
    expected["scheduler"]["max_num_partial_prefills"] = None  # vLLM 0.32.0 has no such setting
    for group in expected["kv_cache"]["groups"]:
        if "mamba_type" in group:
            group["mamba_type"] = "mamba2"

    answer = serve(server).json()
    answer.pop("fleet")

    assert answer == expected


@pytest.mark.parametrize("server", IS_NEW)
def test_an_answer_has_the_fields_and_types_of_the_schema(server: Capture, serve: Serve) -> None:
    api = serve(server)
    answer, full = api.json(), api.json("?full=true")

    assert set(answer) == {*SEED, "devices", "fleet"}
    for section, fields in SEED.items():
        assert_fields(answer[section], fields)
    for device in answer["devices"]:
        assert_fields(device, DEVICE)
    for group in answer["kv_cache"]["groups"]:
        assert_fields({name: group[name] for name in GROUP}, GROUP)
    for query in ("", "?full=true"):
        read = InferenceConfigReply.model_validate_json(api.get(query).content, strict=True)
        assert read.fleet is not None
        assert read.fleet.schema_version == "1.4"
    assert set(answer["fleet"]) == set(FleetExtension.model_fields)
    assert_sections(answer["fleet"], FleetExtension)
    assert [one["field"] for one in full["fleet"]["unavailable"]] == ["scheduler.max_num_partial_prefills"]


def assert_fields(values: dict[str, Any], fields: dict[str, tuple[type, ...]]) -> None:
    assert list(values) == list(fields)
    for name, value in values.items():
        assert type(value) in fields[name], f"{name} is {value!r}"


def assert_sections(values: dict[str, Any], model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        if isinstance(values[name], dict) and isinstance(field.default_factory, type):
            assert set(values[name]) == set(field.default_factory.model_fields), name  # type: ignore[attr-defined]


@pytest.mark.parametrize("server", IS_NEW)
def test_tokens_concurrency_and_settings_equal_vllms_log_and_server_info(server: Capture, serve: Serve) -> None:
    reported = server.json(SERVER_INFO)
    fleet = serve(server).json("?full=true")["fleet"]
    engine = fleet["engines"][0]
    settings = flatten(reported["vllm_config"]) | {"cache_config.num_gpu_blocks": engine["num_gpu_blocks"]}

    assert engine["kv_cache_size_tokens"] == server.logged["kv_cache_size_tokens"][0]
    assert round(engine["max_concurrency"], 2) == server.logged["max_concurrency"][0]
    assert engine["max_model_len"] == server.logged["max_model_len"][0]
    assert (fleet["settings"], fleet["environment"]) == (settings, reported["vllm_env"])


def test_devices_have_their_parallel_ranks_capability_and_compute_units(serve: Serve) -> None:
    engine = EngineProcess(LLAMA)
    platform = engine.modules["vllm.platforms"].current_platform
    platform.get_device_capability = lambda _: thing("DeviceCapability", major=9, minor=0)
    platform.num_compute_units = lambda _: 132
    (device,) = serve(LLAMA, engine).json()["devices"]
    pair = serve(capture("llama_tp2")).json()["fleet"]["engines"][0]["devices"]

    assert (device["compute_capability"], device["num_compute_units"]) == ({"major": 9, "minor": 0}, 132)
    assert [(one["rank"], one["tensor_parallel_rank"], one["pipeline_parallel_rank"]) for one in pair] == [
        (0, 0, 0),
        (1, 1, 0),
    ]


@pytest.mark.parametrize(
    ("kind", "more"), [("TrailingWindowSpec", {"dtype": "bfloat16"}), ("FullAttentionSpec", {"sliding_window": 64})]
)
def test_an_unknown_kind_of_kv_cache_group_keeps_its_name_and_fields(
    kind: str, more: dict[str, Any], serve: Serve
) -> None:
    engine = EngineProcess(LLAMA)
    engine.kv_cache_config.kv_cache_groups[0].kv_cache_spec = thing(kind, block_size=16, page_size_bytes=64, **more)

    group = serve(LLAMA, engine).json()["kv_cache"]["groups"][0]

    assert group["spec_type"] == kind
    assert {name: group[name] for name in more} == more


def test_if_one_group_is_invalid_no_groups_are_reported(serve: Serve) -> None:
    engine = EngineProcess(capture("gemma3"))
    engine.kv_cache_config.kv_cache_groups[5].kv_cache_spec.block_size = 0
    answer = serve(capture("gemma3"), engine).json()
    reason = "its value has another type, or a size that cannot be"

    assert answer["kv_cache"]["groups"] == []
    assert {"field": "kv_cache.groups", "reason": reason} in answer["fleet"]["unavailable"]


def older_tensors(engine: EngineProcess) -> None:
    sizes = (100, 50)
    engine.kv_cache_config.kv_cache_tensors = [thing("KVCacheTensor", size=size) for size in sizes]


def strided_tensors(engine: EngineProcess) -> None:
    tensors = ((100, False), (100, False), (7000, True))
    engine.kv_cache_config.kv_cache_tensors = [
        thing("KVCacheTensor", size=size, block_stride=64, host_resident=on_host) for size, on_host in tensors
    ]


def unmeasured(engine: EngineProcess) -> None:
    engine.core.available_gpu_memory_for_kv_cache = -1  # vLLM's value before it measures


@pytest.mark.parametrize(
    ("change", "field", "expected"),
    [
        (older_tensors, "kv_cache_bytes_per_device", 150),
        (strided_tensors, "kv_cache_bytes_per_device", 100),
        (lambda _: None, "kv_cache_available_bytes", 2**31),
        (unmeasured, "kv_cache_available_bytes", None),
    ],
    ids=["one allocation per tensor", "one allocation", "measured", "not measured"],
)
def test_memory_depends_on_the_allocations_of_the_version(
    change: Callable[[EngineProcess], None], field: str, expected: int | None
) -> None:
    engine = EngineProcess(LLAMA)
    change(engine)

    assert engine.description()["engine"][field] == expected


def test_a_version_that_does_not_keep_its_capacity_computes_it_with_its_own_function() -> None:
    engine = EngineProcess(LLAMA)
    cache = engine.config.cache_config
    cache.kv_cache_size_tokens = cache.kv_cache_max_concurrency = None
    engine.modules["vllm.v1.core.kv_cache_utils"].get_max_concurrency_for_kv_cache_config = (  # type: ignore[attr-defined]
        lambda config, kv_cache: kv_cache.num_blocks * 128 / config.model_config.max_model_len
    )
    description = engine.description()

    reported = description["engine"]["kv_cache_size_tokens"], description["engine"]["max_concurrency"]
    assert reported == (1_048_576, 512.0)
    assert not [one for one in description["unavailable"] if one["field"].startswith("fleet.engines")]


def test_kv_events_and_kv_transfer_are_reported_if_enabled_and_null_otherwise(serve: Serve) -> None:
    server = capture("qwen3_kvevents")
    engine = EngineProcess(server)
    engine.config.kv_transfer_config = thing("KVTransferConfig", kv_connector="N", kv_role="kv_both", engine_id="e")
    on, off = serve(server, engine).json()["fleet"], serve(LLAMA).json()["fleet"]

    assert on["kv_events"] == {
        "enabled": True,
        "publisher": "zmq",
        "endpoint": "tcp://*:5557",
        "topic": "kv@pod-1@qwen3",
    }
    assert on["kv_transfer"] == {
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
    assert off["kv_events"] == {"enabled": False, "publisher": None, "endpoint": None, "topic": None}
    assert off["kv_transfer"] == {"connector": None, "role": None, "engine_id": None, "compatibility": None}


@pytest.mark.parametrize(
    ("case", "setting", "value", "field", "expected"),
    [
        ("llama", "cache_config.kv_offloading_size", 2.5, "kv_cache.kv_offloading_enabled", True),
        ("llama", "cache_config.kv_offloading_size", 2.5, "kv_cache.kv_offloading_backend", "native"),
        ("llama", "cache_config.kv_offloading_size", 2.5, "kv_cache.kv_offloading_size_gib", 2.5),
        ("llama", "model_config.dtype", object(), "model.dtype", None),
        ("llama_lora", "lora_config.lora_dtype", Dtype("torch.float16"), "lora.lora_dtype", "float16"),
    ],
)
def test_a_section_reports_the_setting(
    case: str, setting: str, value: Any, field: str, expected: Any, serve: Serve
) -> None:
    engine = EngineProcess(capture(case))
    above, name = setting.split(".")
    setattr(getattr(engine.config, above), name, value)
    section, reported = field.split(".")

    assert serve(capture(case), engine).json()[section][reported] == expected


def given_template(server: ApiServer) -> None:
    server.state.args.chat_template = "{{ other }}"


def older_modules(server: ApiServer) -> None:
    given_template(server)
    server.modules["vllm.entrypoints.chat_utils"] = server.modules.pop("vllm.renderers.chat_utils")


def no_tokenizer(server: ApiServer) -> None:
    server.client.renderer.tokenizer = None


def only_given_template(server: ApiServer) -> None:
    given_template(server)
    no_tokenizer(server)


def test_the_chat_template_digest_is_of_the_template_that_conversations_use(serve: Serve) -> None:
    def digest(change: Callable[[ApiServer], None]) -> Any:
        server = serve(LLAMA, started=False)
        change(server)
        server.start()
        return server.json()["fleet"]["chat"]["template_digest"]

    usual, given = digest(lambda _: None), digest(given_template)

    assert len(usual) == len(given) == 16
    assert usual != given
    assert digest(older_modules) == digest(only_given_template) == given
    assert digest(no_tokenizer) is None


def test_a_server_whose_state_is_empty_or_raises_answers_with_its_engines(serve: Serve) -> None:
    empty, raising = serve(LLAMA, started=False), serve(LLAMA, started=False)
    empty.state = thing("State", args=None)
    empty.start()
    for name in ("vllm_config", "openai_serving_models", "args"):
        broken(raising.state, name)
    raising.runner.run(raising.plugin.init_state(raising.client, raising.state, raising.client))
    answer = empty.json("?full=true")

    assert answer["kv_cache"]["num_gpu_blocks"] == raising.json()["kv_cache"]["num_gpu_blocks"] == 8192
    assert answer["model"]["served_model_names"] is None
    assert answer["fleet"]["adapters"] == []
    assert {one["field"] for one in answer["fleet"]["unavailable"]} >= {
        "model.served_model_names",
        "fleet.chat.template_digest",
        "fleet.chat.tool_call_parser",
        "fleet.adapters",
    }


def test_the_start_time_is_that_of_the_engines_process(serve: Serve) -> None:
    fleet = serve(LLAMA).json()["fleet"]

    assert fleet["started_at"] == fleet["engines"][0]["started_at"]
    assert FleetExtension.model_validate(fleet).started_at is not None
