"""From the nested VllmConfig to paths: what is compared, what identifies, what is left out."""

import json
from typing import Any

import pytest

from dashboard.errors import UnreadableError
from dashboard.fleet import Source, State
from dashboard.vllm.fields import MAX_SETTINGS, flatten_config, settings_of
from dashboard.vllm.schemas.paths import MAX_PATH, OBJECTS
from tests.captured import SERVER_INFO, Capture, capture, captures, has_python_api


def flat(config: dict[str, Any], environment: dict[str, Any] | None = None) -> tuple[dict[str, str], dict[str, str]]:
    settings, identity = flatten_config(config, environment or {}, Source.SERVER_INFO)
    return {path: told.value for path, told in settings.items()}, {path: told.value for path, told in identity.items()}


def test_environment_variables_are_settings_and_some_identify() -> None:
    settings, identity = flat(
        {}, {"VLLM_USE_V1": "1", "VLLM_PORT": 5, "VLLM_LOGGING_LEVEL": "INFO", "PYTHONHASHSEED": None}
    )

    assert settings == {"env.VLLM_USE_V1": '"1"', "env.PYTHONHASHSEED": "null"}
    assert identity == {"env.VLLM_PORT": "5", "env.VLLM_LOGGING_LEVEL": '"INFO"'}


def test_copies_inside_the_speculative_section_are_left_out() -> None:
    config = {
        "speculative_config": {
            "method": "eagle",
            "target_model_config": {"dtype": "float16"},
            "draft_parallel_config": {"rank": 1},
            "draft_tensor_parallel_size": 2,
        }
    }

    settings, identity = flat(config)

    assert settings == {"speculative_config.method": '"eagle"', "speculative_config.draft_tensor_parallel_size": "2"}
    assert identity == {}


def test_replicas_that_say_the_same_share_one_mapping() -> None:
    def told(instance: str) -> Any:
        return flatten_config({"instance_id": instance, "cache_config": {"block_size": 16}}, {}, Source.SERVER_INFO)

    assert told("1")[0] is told("2")[0]
    assert told("1")[1] != told("2")[1]


@pytest.mark.parametrize(
    "config",
    [{"a": dict.fromkeys(map(str, range(MAX_SETTINGS + 1)))}, {"_a": dict.fromkeys(map(str, range(MAX_SETTINGS + 1)))}],
)
def test_more_settings_than_any_version_has_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError, match="more than the 20,000 settings"):
        flat(config)


@pytest.mark.parametrize("config", [{"a" * MAX_PATH: {"b": 1}}, {"a": {"_" * (MAX_PATH + 1): 1}}])
def test_a_path_longer_than_any_version_has_is_refused(config: dict[str, Any]) -> None:
    """Else a long name above many short ones would take their product in memory."""
    with pytest.raises(UnreadableError, match="a setting's path has more than 400 characters"):
        flat(config)


def test_two_starts_of_one_command_differ_in_no_setting() -> None:
    """vLLM 0.33 reports a function as the draft model's `hf_overrides`: with its memory address."""
    first = capture("llama_eagle", "0.33.0").json(SERVER_INFO)["vllm_config"]
    second = json.loads(json.dumps(first).replace("0x7f1319a9ede0", "0x7fd401aa6f20"))
    for config in (first, second):
        config["model_config"]["hf_overrides"] = config["speculative_config"]["draft_model_config"]["hf_overrides"]

    one, other = (flatten_config(config, {}, Source.SERVER_INFO)[0] for config in (first, second))

    assert first != second
    assert "hf_config_override" in one["model_config.hf_overrides"].value
    assert one == other


@pytest.mark.parametrize("server", captures(has_python_api))
def test_nothing_of_a_captured_configuration_is_lost(server: Capture) -> None:
    """Every leaf is a setting or identity, copies inside the speculative section and free-form options apart."""
    config = server.json(SERVER_INFO)["vllm_config"]
    settings, identity = flatten_config(config, {}, Source.SERVER_INFO)

    def leaves(prefix: str, value: Any) -> set[str]:
        if not isinstance(value, dict) or not value or prefix in OBJECTS:
            return {prefix}
        return {path for key, item in value.items() for path in leaves(f"{prefix}.{key}" if prefix else key, item)}

    copies = ("speculative_config.target_", "speculative_config.draft_")
    expected = {path for path in leaves("", config) if not path.startswith(copies)}
    assert expected - settings.keys() - identity.keys() == set()
    assert not [path for path, told in settings.items() if told.state is State.REDACTED]


def test_a_tokenizer_in_a_folder_of_the_hub_also_names_its_commit() -> None:
    folder = "/hub/models--org--name/snapshots/abc"
    settings, _ = settings_of({"fleet": {"model": {"tokenizer": folder}}}, Source.PROVIDER)

    assert settings["tokenizer_snapshot"].value == '"abc"'
