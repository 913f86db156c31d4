"""The simulated answers have the keys, types and series of real ones."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboard.demo.describe import Speaks
from tests.demo.conftest import FLEET, NOW, answer_of, process_of

CAPTURES = Path(__file__).parents[1] / "captures"
PLUGIN = "/plugins/llm-d-server-introspection"

# A replica, a different version for it, the path, the capture with an equal answer.
JSON_ANSWERS = [
    ("qwen3-8b-01", None, "/server_info", "0.32.0/llama_noprefix/server_info.json"),
    ("chat-70b-01", None, "/server_info", "0.32.0/qwen3_kvevents/server_info.json"),
    ("gemma-27b-01", None, "/server_info", "0.32.0/llama_apikey/server_info.json"),
    ("qwen3-8b-05", None, "/server_info", "0.20.2/llama/server_info.json"),
    ("qwen3-8b-05", "0.12.0.post2", "/server_info", "0.12.0/llama/server_info.json"),
    ("chat-70b-05", None, "/inference/v1/config", "0.32.0/llama_tp2/inference_config.json"),
    ("chat-70b-05", None, "/v1/config", "0.32.0/llama_tp2/inference_config.json"),
    ("gemma-27b-01", None, "/inference/v1/config", "0.32.0/gemma3/inference_config.json"),
    ("deepseek-v3-decode-1", None, "/inference/v1/config", "0.32.0/deepseek_mla/inference_config.json"),
    ("gemma-27b-05", None, f"{PLUGIN}/config", "0.32.0/gemma3_plugin/plg_config.json"),
    ("gemma-27b-05", None, f"{PLUGIN}/devices", "0.32.0/gemma3_plugin/plg_devices.json"),
    ("gemma-27b-05", None, f"{PLUGIN}/kv-cache", "0.32.0/gemma3_plugin/plg_kv_cache.json"),
    ("qwen3-8b-01", None, "/v1/models", "0.32.0/llama/models.json"),
    ("qwen3-8b-05", None, "/v1/models", "0.20.2/llama/models.json"),
    ("qwen3-8b-05", "0.12.0.post2", "/v1/models", "0.12.0/llama/models.json"),
    ("qwen3-8b-01", None, "/version", "0.32.0/llama/version.json"),
    ("qwen3-8b-01", None, "/load", "0.32.0/llama/load.json"),
    ("chat-70b-01", None, "/kv_event_sources", "0.32.0/qwen3_kvevents/kv_event_sources.json"),
    ("qwen3-8b-01", None, "/kv_event_sources", "0.32.0/llama/kv_event_sources.json"),
]


def _answer(name: str, version: str | None, path: str) -> bytes:
    replica = FLEET[name]
    if version:
        replica = replace(replica, configuration=replace(replica.configuration, version=version))
    speaks = frozenset(endpoint for endpoint in Speaks if path.startswith(endpoint))
    return answer_of(process_of(replica, speaks), path).body


@pytest.mark.parametrize(("name", "version", "path", "capture"), JSON_ANSWERS)
def test_an_answer_has_the_keys_and_types_of_a_real_one(
    name: str, version: str | None, path: str, capture: str
) -> None:
    real = json.loads((CAPTURES / capture).read_text())
    assert list(unlike(json.loads(_answer(name, version, path)), real)) == []


@pytest.mark.parametrize(
    ("name", "version", "capture"),
    [
        ("chat-70b-01", None, "0.32.0/llama"),
        ("deepseek-v3-decode-3", None, "0.32.0/deepseek_mla"),
        ("qwen3-8b-05", None, "0.20.2/llama"),
        ("qwen3-8b-05", "0.12.0.post2", "0.12.0/llama"),
    ],
)
def test_metrics_have_the_series_of_a_real_server(name: str, version: str | None, capture: str) -> None:
    """And every label of `vllm:cache_config_info`."""
    simulated = _answer(name, version, "/metrics").decode()
    real = (CAPTURES / capture / "metrics.txt").read_text()
    assert _series(simulated) == _series(real)
    assert simulated.count("\n") == real.count("\n")


def _series(page: str) -> list[tuple[str, list[str]]]:
    lines = [re.match(r"([^{ #]+)(?:{(.*)})? [0-9.e+-]+$", line) for line in page.splitlines() if line[0] != "#"]
    return [(line[1], re.findall(r'(\w+)="', line[2] or "")) for line in lines if line]


@pytest.mark.parametrize("name", sorted(FLEET))
def test_no_slot_is_left_open(name: str) -> None:
    process = process_of(FLEET[name])
    slots = {**process.slots, **process.counters(NOW)}
    bodies = {path: page.body(slots) for path, page in process.rendered.pages.items()}
    assert not [path for path, body in bodies.items() if b"<<" in body]


def test_server_info_and_metrics_report_the_same_cache_configuration() -> None:
    cache = json.loads(_answer("chat-70b-01", None, "/server_info"))["vllm_config"]["cache_config"]
    page = _answer("chat-70b-01", None, "/metrics").decode()
    line = next(line for line in page.splitlines() if line.startswith("vllm:cache_config_info{"))
    labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
    assert labels == {name: str(value) for name, value in cache.items()} | {"engine": "0"}


def unlike(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yield the paths with different keys or types. Null and empty values match everything."""
    if one in (None, [], {}) or other in (None, [], {}):
        return
    if type(one) is not type(other):
        yield path
    elif isinstance(one, dict):
        yield from (f"{path}.{key}" for key in one.keys() ^ other.keys())
        for key in one.keys() & other.keys():
            yield from unlike(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list):
        yield from unlike(_item(one), _item(other), f"{path}[]")


def _item(values: list[Any]) -> Any:
    """Return one item with the keys of all."""
    return {key: value for item in values for key, value in item.items()} if isinstance(values[0], dict) else values[0]
