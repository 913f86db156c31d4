"""Messages of vllm.Control as JSON: against protoc, and what real servers sent."""

import json
from functools import cache
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc_tools
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_tools import protoc
from hypothesis import given
from hypothesis import strategies as st

import dashboard.vllm
from dashboard.errors import UnreadableError
from dashboard.fleet import EngineReport, Reply, Source
from dashboard.vllm import control
from dashboard.vllm.reading import read
from tests.captured import SERVER_INFO, capture

FOLDER = Path(dashboard.vllm.__file__).parent
RUST, RUST_DP2 = capture("llama_rust_grpc", "0.33.0"), capture("llama_rust_grpc_dp2", "0.33.0")
ANSWERS = {
    control.SERVER_INFO: "ServerInfo",
    control.MODEL_INFO: "ModelInfo",
    control.LORAS: "Loras",
    control.KV_EVENT_SOURCES: "KvEventSources",
}
SIZES = st.integers(1, 2**32 - 1)
COUNTS = st.integers(1, 2**64 - 1)
TEXTS = st.text(min_size=1, max_size=20)
SERVER = st.fixed_dictionaries(
    {},
    optional={
        "engine_version": TEXTS,
        "instance_id": TEXTS,
        "parallelism": st.fixed_dictionaries({"tensor_parallel_size": SIZES}, optional={"world_size": COUNTS}),
        "kv_block_size": SIZES,
        "total_kv_blocks": COUNTS,
        "effective_attention_block_size": COUNTS,
    },
)
LORAS = st.fixed_dictionaries(
    {"adapters": st.lists(st.fixed_dictionaries({"lora_name": TEXTS}, optional={"source_path": TEXTS}), min_size=1)}
)


@cache
def compiled() -> Any:
    """Return the classes of all messages by name, as protoc understands control.proto."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        include = resources.files(grpc_tools) / "_proto"
        assert protoc.main(["", f"-I{FOLDER}", f"-I{include}", f"--descriptor_set_out={out}", "control.proto"]) == 0
        (file,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    (service,) = file.service
    assert [f"{control.PREFIX}{each.name}" for each in service.method] == list(control.PATHS)
    assert [each.output_type for each in service.method] == [f".vllm.{ANSWERS[path]}" for path in control.PATHS]
    return {
        each.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"vllm.{each.name}"))
        for each in file.message_type
    }


def sent(path: str, fields: dict[str, Any]) -> bytes:
    found: bytes = json_format.ParseDict(fields, compiled()[ANSWERS[path]]()).SerializeToString()
    return found


def values(reply: Reply) -> dict[str, str]:
    return {path: each.value for path, each in reply.settings.items()}


@given(SERVER)
def test_what_protoc_would_send_is_read_field_by_field(fields: dict[str, Any]) -> None:
    body = sent(control.SERVER_INFO, fields)
    assert json.loads(control.as_json(control.SERVER_INFO, body)) == fields


@given(LORAS)
def test_repeated_messages_are_lists(fields: dict[str, Any]) -> None:
    assert json.loads(control.as_json(control.LORAS, sent(control.LORAS, fields))) == fields


@given(st.sampled_from(control.PATHS), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_a_sentence(path: str, body: bytes) -> None:
    failed = []
    try:
        read(path, body)
    except UnreadableError as error:
        failed.append((error.kind, error.detail.isprintable()))
    assert {*failed} <= {(kind, True) for kind in ("decode", "schema", "too_large")}


@pytest.mark.parametrize("body", [b"{", b"{" + b'"a":[' * 5_000, b'{"engine_version":5}', b'{"total_kv_blocks":-1}'])
def test_broken_json_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableError, match="something that is not its message"):
        read(control.SERVER_INFO, body)


def test_json_that_was_saved_is_read_by_us_and_as_grpcurl_writes_it() -> None:
    ours = control.as_json(control.SERVER_INFO, RUST_DP2.answers[control.SERVER_INFO])
    message = compiled()["ServerInfo"].FromString(RUST_DP2.answers[control.SERVER_INFO])
    message.DiscardUnknownFields()
    theirs = json_format.MessageToJson(message).encode()

    assert b'"totalKvBlocks": "16384"' in theirs
    assert read(control.SERVER_INFO, ours).reply == read(control.SERVER_INFO, theirs).reply


def test_server_info_has_the_settings_of_the_engines() -> None:
    one = read(control.SERVER_INFO, RUST.answers[control.SERVER_INFO]).reply
    two = read(control.SERVER_INFO, RUST_DP2.answers[control.SERVER_INFO]).reply

    assert values(one) == {
        "version": '"0.33.0+cpu"',
        "parallel_config.tensor_parallel_size": "1",
        "parallel_config.pipeline_parallel_size": "1",
        "parallel_config.data_parallel_size": "1",
        "parallel_config.world_size": "1",
        "parallel_config.decode_context_parallel_size": "1",
        "model_config.max_model_len": "2048",
        "cache_config.block_size": "128",
        "cache_config.effective_attention_block_size": "128",
        "scheduler_config.max_num_seqs": "128",
        "scheduler_config.max_num_batched_tokens": "2048",
    }
    assert (one.source, one.version) == (Source.GRPC, "0.33.0+cpu")
    assert one.engines == (EngineReport(0, 8_192),)
    changed = {path: value for path, value in values(two).items() if value != values(one).get(path)}
    assert changed == {"parallel_config.data_parallel_size": "2", "lora_config.max_loras": "2"}
    assert two.engines == (EngineReport(0, blocks_of_all=16_384), EngineReport(1, blocks_of_all=16_384))


def test_model_info_has_names_and_whether_lora_is_on() -> None:
    off = read(control.MODEL_INFO, RUST.answers[control.MODEL_INFO]).reply
    on = read(control.MODEL_INFO, RUST_DP2.answers[control.MODEL_INFO]).reply

    assert values(off)["lora_config"] == "null"
    assert "lora_config" not in values(on)
    assert on.served_model_names == ("chat", "chat-alias")
    assert values(on)["model_config.model"] == '"llama_tokenizer"'


def test_adapters_and_event_sources_are_those_of_the_http_endpoints() -> None:
    adapters = read(control.LORAS, RUST_DP2.answers[control.LORAS]).reply.adapters
    events = values(read(control.KV_EVENT_SOURCES, RUST_DP2.answers[control.KV_EVENT_SOURCES]).reply)

    assert adapters == read("/v1/models", RUST_DP2.answers["/v1/models"]).reply.adapters == {"sql": "/models/sql"}
    assert events == values(read("/kv_event_sources", RUST_DP2.answers["/kv_event_sources"]).reply)
    assert values(read(control.KV_EVENT_SOURCES, b"").reply) == {"kv_events_config": "null"}


@pytest.mark.parametrize("server", [RUST, RUST_DP2], ids=["one engine", "two"])
def test_what_http_reports_too_is_equal(server: Any) -> None:
    mine: dict[str, str] = {}
    for path in control.PATHS:
        if path in server.answers:
            mine |= values(read(path, server.answers[path]).reply)
    compared = 0
    for path in ("/version", "/v1/models", "/kv_event_sources", SERVER_INFO):
        for name, value in values(read(path, server.answers[path]).reply).items():
            assert mine.get(name, value) == value, (path, name)
            compared += name in mine
    assert compared >= 5


def test_a_message_with_more_entries_than_are_read_is_refused_with_their_name() -> None:
    most = ["alias"] * control.MAX_REPEATED
    written = {"served_model_aliases": most}

    assert json.loads(control.as_json(control.MODEL_INFO, json.dumps(written).encode())) == written
    with pytest.raises(UnreadableError, match="more than 10,000 served_model_aliases"):
        control.as_json(control.MODEL_INFO, json.dumps({"served_model_aliases": [*most, "alias"]}).encode())
