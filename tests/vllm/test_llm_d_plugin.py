"""The newest form of llm-d's introspection plugin, by answers that are built from its source: see the fixture."""

import json
from pathlib import Path
from typing import Any

from dashboard.fleet import Basis, Reply, Snapshot, State, Target
from dashboard.vllm.reading import read
from tests.captured import AT, INFERENCE_CONFIG, MODELS, VERSION, capture, result
from tests.polled_fleets import built

FIXTURE = json.loads((Path(__file__).parent / "llm_d" / "introspection.json").read_text())
PLUGIN = "/plugins/llm-d-server-introspection"
GEMMA = capture("gemma3")
EXTRA = "kv_transfer_config.kv_connector_extra_config"


def reply_of(name: str, **transfer: Any) -> Reply:
    answer = FIXTURE[name] | ({"kv_transfer": FIXTURE[name]["kv_transfer"] | transfer} if transfer else {})
    return read(f"{PLUGIN}/{name}", json.dumps(answer).encode()).reply


def plugin_only(number: int) -> Snapshot:
    """Return a replica whose settings only the plugin reports."""
    probes = {path: result(path, GEMMA.answers[path]) for path in (VERSION, MODELS)}
    for name in ("config", "devices", "kv-cache"):
        path = f"{PLUGIN}/{name}"
        probes[path] = result(path, json.dumps(FIXTURE[name]).encode())
    return Snapshot(Target(f"http://10.0.0.{number}:8000"), AT, probes)


def test_the_fixture_says_that_it_is_built_from_source() -> None:
    assert FIXTURE["built_from_source"].startswith("Built from the public source of llm-d/llm-d-api-extensions")


def test_the_connector_has_vllms_own_settings() -> None:
    reply = reply_of("config")
    found = {path: each.value for path, each in reply.settings.items() if path.startswith("kv_transfer_config")}

    assert found == {
        "kv_transfer_config.kv_connector": '"NixlConnector"',
        "kv_transfer_config.kv_role": '"kv_both"',
        "kv_transfer_config.kv_connector_module_path": "null",
        "kv_transfer_config.kv_buffer_device": '"cpu"',
        "kv_transfer_config.kv_buffer_size": "1000000000",
        "kv_transfer_config.kv_parallel_size": "1",
        "kv_transfer_config.kv_rank": "null",
        f"{EXTRA}.backends": '"[redacted]"',
        f"{EXTRA}.num_threads": '"[redacted]"',
    }
    assert {path: each.value for path, each in reply.identity.items() if path.startswith("env")} == {
        "env.VLLM_NIXL_SIDE_CHANNEL_HOST": '"10.0.0.7"',
        "env.VLLM_NIXL_SIDE_CHANNEL_PORT": "5600",
    }


def test_a_value_that_the_plugin_redacts_equals_nothing_not_even_itself() -> None:
    settings = reply_of("config").settings
    assert {settings[f"{EXTRA}.{name}"].state for name in ("backends", "num_threads")} == {State.REDACTED}
    shown = reply_of("config", extra_config={"backends": ["UCX"]}).settings
    assert shown[f"{EXTRA}.backends"].state is State.REPORTED

    (pool,) = built(*(plugin_only(number) for number in (1, 2))).pools
    assert pool.differences == ()


def test_fields_that_an_older_plugin_lacks_and_a_side_channel_of_another_connector_are_not_reported() -> None:
    older = FIXTURE["config"] | {"kv_transfer": {"kv_connector": "P2pNcclConnector", "kv_role": "kv_both"}}
    other = reply_of("config", nixl_side_channel_host=None, nixl_side_channel_port=None)
    reply = read(f"{PLUGIN}/config", json.dumps(older).encode()).reply

    assert {path for path in reply.settings if path.startswith("kv_transfer_config")} == {
        "kv_transfer_config.kv_connector",
        "kv_transfer_config.kv_role",
    }
    assert not any(path.startswith("env") for path in {**other.settings, **other.identity})


def test_groups_by_kind_are_those_of_the_engine() -> None:
    groups = reply_of("kv-cache").kv_cache_groups
    own = read(INFERENCE_CONFIG, GEMMA.answers[INFERENCE_CONFIG]).reply.kv_cache_groups

    assert [each.spec_type for each in groups] == [*["sliding_window"] * 5, "full_attention"]
    assert [each._replace(spec_type="") for each in groups] == [each._replace(spec_type="") for each in own]
    assert reply_of("kv-cache").not_understood == ()
    assert [each.name for each in reply_of("devices").devices] == ["cpu"]


def test_tokens_of_the_plugin_are_not_used() -> None:
    """They are blocks x block_size; the formula also needs the decode context parallel size."""
    (engine,) = built(plugin_only(1)).replicas[0].engines
    assert (engine.num_gpu_blocks, engine.kv_cache_size_tokens, engine.basis) == (32_768, None, Basis.UNKNOWN)
