"""The smaller JSON answers: version, models, KV events, /server_info and the public plugins."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from dashboard.vllm.schemas.endpoints import (
    KVCacheReply,
    KVEventSourcesReply,
    PluginConfigReply,
    PluginDevicesReply,
    ServedModelsReply,
    ServerInfoReply,
    VersionReply,
)
from tests.captured import KV_EVENTS, MODELS, PLUGIN, SERVER_INFO, VERSION, Capture, capture, captures

SCHEMAS: dict[str, type[BaseModel]] = {
    VERSION: VersionReply,
    MODELS: ServedModelsReply,
    KV_EVENTS: KVEventSourcesReply,
    SERVER_INFO: ServerInfoReply,
    f"{PLUGIN}/config": PluginConfigReply,
    f"{PLUGIN}/devices": PluginDevicesReply,
    f"{PLUGIN}/kv-cache": KVCacheReply,
}
OTHER_SHAPES: list[Any] = [None, 5, "text", [], {"detail": "Not Found"}, {"error": {"message": "no"}}, [[]]]


@pytest.mark.parametrize("server", captures())
def test_every_captured_answer_is_read(server: Capture) -> None:
    read = {path: SCHEMAS[path].model_validate(server.json(path)) for path in SCHEMAS if path in server.answers}

    assert {VERSION, MODELS, SERVER_INFO} <= set(read)


@pytest.mark.parametrize("path", SCHEMAS)
@pytest.mark.parametrize("told", OTHER_SHAPES, ids=str)
def test_json_of_another_shape_is_refused(path: str, told: object) -> None:
    with pytest.raises(ValidationError):
        SCHEMAS[path].model_validate(told)


def test_models_are_cards_of_which_adapters_have_a_parent() -> None:
    read = ServedModelsReply.model_validate({"data": [{"id": "chat", "root": None}, {"id": "sql", "parent": "chat"}]})

    assert [(card.id, card.parent) for card in read.data] == [("chat", None), ("sql", "chat")]


def test_a_card_without_a_name_is_refused() -> None:
    with pytest.raises(ValidationError):
        ServedModelsReply.model_validate({"data": [{"root": "chat"}]})


def test_kv_events_that_are_off_are_an_empty_object() -> None:
    assert KVEventSourcesReply.model_validate({}).root == {}


def test_a_rank_of_kv_events_is_a_number_also_as_text() -> None:
    assert list(KVEventSourcesReply.model_validate({"1": {}, "0": {"topic": None}}).root) == [1, 0]
    with pytest.raises(ValidationError):
        KVEventSourcesReply.model_validate({"-1": {}})


def test_the_text_form_of_server_info_is_refused_with_a_sentence() -> None:
    with pytest.raises(ValidationError, match="this version answers with text; only the JSON form is read"):
        ServerInfoReply.model_validate({"vllm_config": "model='x', dtype=torch.bfloat16"})


def test_server_info_of_an_old_version_has_no_environment() -> None:
    assert ServerInfoReply.model_validate({"vllm_config": {"cache_config": {}}}).vllm_env == {}


def test_a_plugin_may_leave_everything_out_but_the_model() -> None:
    read = PluginConfigReply.model_validate({"model": {}})

    assert read.model.served_names == ()
    assert read.kv_transfer is None
    assert read.features.hma is None


def test_a_plugin_tells_its_connector() -> None:
    read = PluginConfigReply.model_validate(
        {"model": {}, "kv_transfer": {"kv_role": "kv_producer", "extra_config": {"a": 1}}}
    )

    assert read.kv_transfer is not None
    assert (read.kv_transfer.kv_role, read.kv_transfer.extra_config) == ("kv_producer", {"a": 1})


def test_kv_cache_sizes_are_read_and_blocks_must_be_named() -> None:
    read = KVCacheReply.model_validate(capture("gemma3_plugin").json(f"{PLUGIN}/kv-cache"))

    assert (read.num_gpu_blocks, read.groups) == (32768, ())
    assert KVCacheReply.model_validate({"num_gpu_blocks": None}).num_gpu_blocks is None
