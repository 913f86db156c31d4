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


def test_kv_cache_sizes_are_read_and_blocks_must_be_named() -> None:
    read = KVCacheReply.model_validate(capture("gemma3_plugin").json(f"{PLUGIN}/kv-cache"))

    assert (read.num_gpu_blocks, read.groups) == (32768, ())
    assert KVCacheReply.model_validate({"num_gpu_blocks": None}).num_gpu_blocks is None
