"""The reply of each endpoint."""

import json
from typing import Any

import pytest

from dashboard.fleet import Device, EngineReport, Reply, Source
from dashboard.vllm.fields import settings_of
from dashboard.vllm.reading import read
from tests.captured import INFERENCE_CONFIG, KV_EVENTS, MODELS, PLUGIN, SERVER_INFO, VERSION, capture


def read_json(path: str, value: Any) -> Reply:
    return read(path, json.dumps(value).encode()).reply


def values(reply: Reply) -> dict[str, str]:
    return {path: each.value for path, each in reply.settings.items()}


def test_the_rust_frontend_is_reported_by_its_own_version() -> None:
    server = capture("llama_rust", "0.33.0")

    assert values(read_json(VERSION, server.json(VERSION))) == {
        "version": '"0.33.0+cpu"',
        "rust_frontend_version": '"0.33.0"',
    }


def test_server_info_of_the_rust_frontend_has_few_comparable_fields() -> None:
    reply = read_json(SERVER_INFO, capture("llama_rust", "0.33.0").json(SERVER_INFO))

    assert values(reply) == {
        "model_config.model": '"llama_tokenizer"',
        "model_config.revision": "null",
        "model_config.hf_overrides": "{}",
        "model_config.generation_config": '"auto"',
        "chat_template_content_format": '"auto"',
        "parallel_config.data_parallel_size": "1",
    }
    assert reply.engines == ()


def test_models_have_names_folder_length_and_adapters() -> None:
    cards = [
        {"id": "chat", "root": "/mnt/7/llama", "max_model_len": 2048},
        {"id": "chat-alias", "root": "/mnt/7/llama"},
        {"id": "sql-adapter", "parent": "chat", "root": "/adapters/sql", "max_model_len": None},
        {"id": "law-adapter", "parent": "chat"},
    ]

    reply = read_json(MODELS, {"data": cards})

    assert reply.served_model_names == ("chat", "chat-alias")
    assert reply.adapters == {"sql-adapter": "/adapters/sql", "law-adapter": None}
    assert values(reply) == {
        "served_model_names": '["chat","chat-alias"]',
        "model_config.served_model_name": '"chat"',
        "model_config.model": '"llama"',
        "model_config.max_model_len": "2048",
    }
    assert reply.identity["model_config.model"].value == '"/mnt/7/llama"'


def test_loading_an_adapter_changes_no_setting() -> None:
    base = {"id": "chat", "root": "org/llama", "max_model_len": 2048}

    assert (
        read_json(MODELS, {"data": [base]}).settings
        is read_json(MODELS, {"data": [base, {"id": "a", "parent": "chat"}]}).settings
    )


def test_kv_events_are_those_of_the_first_rank_without_addresses() -> None:
    source = {"enable_kv_cache_events": True, "publisher": "zmq", "topic": "kv@pod-1@qwen3"}
    reply = read_json(KV_EVENTS, {"1": {**source, "endpoint": "tcp://b:2"}, "0": {**source, "endpoint": "tcp://a:1"}})

    assert values(reply) == {
        "kv_events_config.enable_kv_cache_events": "true",
        "kv_events_config.publisher": '"zmq"',
        "kv_events_config.topic": '"kv@{pod}@qwen3"',
    }
    assert reply.identity["kv_events_config.topic"].value == '"kv@pod-1@qwen3"'
    assert values(read_json(KV_EVENTS, {})) == {"kv_events_config": "null"}


def test_the_configuration_api_has_settings_engine_devices_and_groups() -> None:
    reply = read_json(INFERENCE_CONFIG, capture("gemma3").json(INFERENCE_CONFIG))

    assert reply.engines == (EngineReport(0, 32768),)
    assert reply.devices == (Device(0, 0, "cpu", 25276510208, None, compute_units=1),)
    assert [(group.group_id, group.spec_type, group.layers) for group in reply.kv_cache_groups] == [
        *((number, "SlidingWindowSpec", 1) for number in range(5)),
        (5, "FullAttentionSpec", 1),
    ]
    assert (reply.kv_cache_groups[0].sliding_window, reply.kv_cache_groups[0].extra_retained_tokens) == (512, 0)
    assert values(reply)["scheduler_config.disable_hybrid_kv_cache_manager"] == "false"
    assert values(reply)["speculative_config"] == "null"
    assert values(reply)["lora_config"] == "null"
    assert not [path for path in values(reply) if "num_gpu_blocks" in path or path.startswith("lora_config.")]
    assert reply.identity["parallel_config.data_parallel_rank"].value == "0"


def test_devices_have_a_capability_and_groups_count_layers() -> None:
    config = {
        "model": {},
        "parallelism": {"data_parallel_rank": 4},
        "devices": [{"rank": 0, "name": "H100", "compute_capability": {"major": 9, "minor": 0}}],
        "kv_cache": {
            "groups": [
                {"group_id": 0, "kind": "mamba", "block_size": 1, "layer_count": 7},
                {"group_id": 1, "kind": "y" * 500, "block_size": 1},
                {"group_id": 2, "kind": "x", "block_size": 1},
                {"group_id": 3, "kind": "x", "block_size": 1},
            ]
        },
    }

    reply = read_json(INFERENCE_CONFIG, config)

    assert reply.devices == (Device(4, 0, "H100", None, "9.0"),)
    assert [(group.dp_rank, group.layers) for group in reply.kv_cache_groups] == [(4, 7), (4, 0), (4, 0), (4, 0)]
    assert reply.not_understood == ("KV cache group kind x", f"KV cache group kind {'y' * 100}")


def test_tokens_of_a_plugin_have_its_source() -> None:
    """Blocks x block_size: 4,194,304 where 664,444 fit."""
    reply = read_json(f"{PLUGIN}/kv-cache", capture("gemma3_plugin").json(f"{PLUGIN}/kv-cache"))

    assert reply.engines == (EngineReport(0, 32768, 4_194_304),)
    assert reply.source is Source.PLUGIN


@pytest.mark.parametrize(
    ("source", "reply"),
    [
        *(
            (source, {"kv_cache": {"num_gpu_blocks": 8, "num_cpu_blocks": 8, "kv_offloading_backend": "native"}})
            for source in (Source.CONFIG_API, Source.PROVIDER)
        ),
        (Source.PLUGIN, {"model": {"name": "chat"}, "kv_cache": {"dtype": "fp8"}}),
        (Source.KV_EVENT_SOURCES, {"endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558"}),
        (Source.SERVER_INFO, {"tokenizer": "org/llama", "max_logprobs": 20}),
    ],
)
def test_a_foreign_field_with_another_meaning_is_no_setting(source: Source, reply: dict[str, Any]) -> None:
    assert settings_of(reply, source) == ({}, {})


@pytest.mark.parametrize(
    ("parallel", "ranks"),
    [
        ({"data_parallel_size": 2}, [0, 1]),
        ({"data_parallel_size": 2, "data_parallel_external_lb": True, "data_parallel_rank": 1}, [1]),
        (
            {
                "data_parallel_size": 8,
                "data_parallel_hybrid_lb": True,
                "data_parallel_size_local": 2,
                "data_parallel_rank": 4,
            },
            [4, 5],
        ),
        ({"data_parallel_size": 8, "data_parallel_hybrid_lb": True}, [0]),
        ({"data_parallel_size": 2, "data_parallel_rank": 1}, [1]),
        ({"data_parallel_size": 1}, [0]),
        ({"data_parallel_size": 10**9}, [0]),
        ({}, [0]),
    ],
)
def test_server_info_has_the_engines_of_its_api_server(parallel: dict[str, Any], ranks: list[int]) -> None:
    config = {"parallel_config": parallel, "cache_config": {"num_gpu_blocks": 100, "kv_cache_size_tokens": 800}}
    reply = read_json(SERVER_INFO, {"vllm_config": config, "vllm_env": {}})

    assert [each.dp_rank for each in reply.engines] == ranks
    assert [each.kv_cache_size_tokens for each in reply.engines] == [800] + [None] * (len(ranks) - 1)
    if len(ranks) > 1:
        assert {(each.num_gpu_blocks, each.blocks_of_all) for each in reply.engines} == {(None, 100)}


def test_models_without_cards_or_details_have_no_such_settings() -> None:
    assert read_json(MODELS, {"data": []}) == Reply(Source.MODELS)
    assert set(values(read_json(MODELS, {"data": [{"id": "x"}]}))) == {
        "served_model_names",
        "model_config.served_model_name",
    }


def test_server_info_without_capacity_is_an_engine_of_which_nothing_is_read_json() -> None:
    assert read_json(SERVER_INFO, {"vllm_config": {}}).engines == (EngineReport(0),)
    assert read_json(SERVER_INFO, {"vllm_config": {"cache_config": {"kv_cache_size_tokens": "16"}}}).engines == (
        EngineReport(0),
    )


def test_a_section_of_another_type_and_a_null_that_cannot_be_negated_are_no_settings() -> None:
    assert settings_of({"model": None, "kv_cache": 5, "hma": {"enabled": None}}, Source.CONFIG_API) == ({}, {})
