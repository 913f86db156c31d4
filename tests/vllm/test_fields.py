"""From foreign fields and the nested VllmConfig to settings."""

import json
from typing import Any

import pytest

from dashboard.errors import UnreadableError
from dashboard.fleet import Source, State
from dashboard.vllm.fields import MAX_SETTINGS, read_config, settings_of
from tests.captured import SERVER_INFO, Capture, capture, captures, has_python_api
from vllm_fleet_provider.shared.paths import MAX_PATH, OBJECTS, flatten


def flat(config: dict[str, Any], environment: dict[str, Any] | None = None) -> tuple[dict[str, str], dict[str, str]]:
    settings, identity = read_config(flatten(config), environment or {}, Source.SERVER_INFO)
    return {path: each.value for path, each in settings.items()}, {path: each.value for path, each in identity.items()}


def test_environment_variables_are_settings_or_identity() -> None:
    settings, identity = flat(
        {}, {"VLLM_USE_V1": "1", "VLLM_PORT": 5, "VLLM_LOGGING_LEVEL": "INFO", "PYTHONHASHSEED": None}
    )

    assert settings == {"env.VLLM_USE_V1": '"1"', "env.PYTHONHASHSEED": "null"}
    assert identity == {"env.VLLM_PORT": "5", "env.VLLM_LOGGING_LEVEL": '"INFO"'}


def test_a_section_of_identity_settings_only_stays_without_settings() -> None:
    extra = {"child": {"host": "a"}, "kind": "redis"}
    settings, identity = flat(
        {
            "cache_config": {"num_gpu_blocks": 7, "block_size": 16},
            "load_config": {"download_dir": "/mnt"},
            "kv_transfer_config": {"kv_connector_extra_config": extra},
        }
    )

    assert settings == {
        "cache_config.block_size": "16",
        "load_config": "{}",
        "kv_transfer_config.kv_connector_extra_config.kind": '"redis"',
        "kv_transfer_config.kv_connector_extra_config.child": "{}",
    }
    assert len(identity) == 3


def test_copies_inside_the_speculative_section_are_left_out_except_for_the_drafts_length() -> None:
    config = {
        "speculative_config": {
            "method": "eagle",
            "target_model_config": {"dtype": "float16"},
            "draft_model_config": {"dtype": "float16", "max_model_len": 2048},
            "draft_parallel_config": {"rank": 1},
            "draft_tensor_parallel_size": 2,
        }
    }

    settings, identity = flat(config)

    assert settings == {
        "speculative_config.method": '"eagle"',
        "speculative_config.draft_model_config.max_model_len": "2048",
        "speculative_config.draft_tensor_parallel_size": "2",
    }
    assert identity == {}


@pytest.mark.parametrize(
    "config",
    [{"a": dict.fromkeys(map(str, range(MAX_SETTINGS + 1)))}, {"_a": dict.fromkeys(map(str, range(MAX_SETTINGS + 1)))}],
)
def test_the_number_of_settings_is_limited(config: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError, match="more than the 20,000 settings"):
        flat(config)


@pytest.mark.parametrize("config", [{"a" * MAX_PATH: {"b": 1}}, {"a": {"_" * (MAX_PATH + 1): 1}}])
def test_the_length_of_a_path_is_limited(config: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError, match="a setting's path has more than 400 characters"):
        flat(config)


def test_memory_addresses_are_not_compared() -> None:
    """vLLM 0.33 reports a function as the draft model's `hf_overrides`: with its memory address."""
    first = capture("llama_eagle", "0.33.0").json(SERVER_INFO)["vllm_config"]
    second = json.loads(json.dumps(first).replace("0x7f1319a9ede0", "0x7fd401aa6f20"))
    for config in (first, second):
        config["model_config"]["hf_overrides"] = config["speculative_config"]["draft_model_config"]["hf_overrides"]

    one, other = (read_config(flatten(config), {}, Source.SERVER_INFO)[0] for config in (first, second))

    assert first != second
    assert "hf_config_override" in one["model_config.hf_overrides"].value
    assert one == other


@pytest.mark.parametrize("server", captures(has_python_api))
def test_every_leaf_of_a_captured_configuration_is_a_setting_or_identity(server: Capture) -> None:
    """Except for copies inside the speculative section and free-form options."""
    config = server.json(SERVER_INFO)["vllm_config"]
    settings, identity = read_config(flatten(config), {}, Source.SERVER_INFO)

    def leaves(prefix: str, value: Any) -> set[str]:
        if not isinstance(value, dict) or not value or prefix in OBJECTS:
            return {prefix}
        return {path for key, item in value.items() for path in leaves(f"{prefix}.{key}" if prefix else key, item)}

    copies = ("speculative_config.target_", "speculative_config.draft_")
    expected = {path for path in leaves("", config) if not path.startswith(copies)}
    assert expected - settings.keys() - identity.keys() == set()
    assert not [path for path, each in settings.items() if each.state is State.REDACTED]


def test_a_tokenizer_in_a_hub_snapshot_has_its_commit() -> None:
    folder = "/hub/models--org--name/snapshots/abc"
    settings, _ = settings_of({"fleet": {"model": {"tokenizer": folder}}}, Source.PROVIDER)

    assert settings["tokenizer_snapshot"].value == '"abc"'
