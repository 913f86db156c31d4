"""What to type for a setting is what vLLM itself would take."""

import json
from typing import Any

import pytest

from dashboard.fleet import SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.findings import Remedy, Snippet


def told(value: Any) -> SettingValue:
    return SettingValue(json.dumps(value), State.REPORTED)


@pytest.mark.parametrize(
    ("path", "value", "kind", "text"),
    [
        ("cache_config.block_size", 16, "flag", "--block-size 16"),
        ("cache_config.cache_dtype", "fp8_e4m3", "flag", "--kv-cache-dtype fp8_e4m3"),
        ("cache_config.enable_prefix_caching", True, "flag", "--enable-prefix-caching"),
        ("cache_config.enable_prefix_caching", False, "flag", "--no-enable-prefix-caching"),
        ("scheduler_config.policy", "fcfs", "flag", "--scheduling-policy fcfs"),
        ("compilation_config.cudagraph_capture_sizes", [1, 2, 4], "flag", "--cudagraph-capture-sizes 1 2 4"),
        ("kv_events_config.topic", "kv@a b", "flag", "--kv-events-config.topic 'kv@a b'"),
        (
            "kv_events_config.enable_kv_cache_events",
            True,
            "flag",
            "--kv-events-config.enable_kv_cache_events true",
        ),
        ("served_model_names", ["chat", "it's"], "flag", """--served-model-name chat 'it'"'"'s'"""),
        ("env.PYTHONHASHSEED", "0", "env", "export PYTHONHASHSEED=0"),
        ("env.VLLM_X", "a;rm -rf /", "env", "export VLLM_X='a;rm -rf /'"),
        ("version", "0.32.0", "yaml", "image: vllm/vllm-openai:v0.32.0"),
    ],
)
def test_a_value_is_pasted_as_a_shell_needs_it(path: str, value: Any, kind: str, text: str) -> None:
    assert remedy.pasteable(path, told(value)) == Snippet(kind, text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("cache_config.block_size", SettingValue("null", State.NULL)),
        ("env.VLLM_X", SettingValue("null", State.UNKNOWN)),
        ("cache_config.no_such_setting", told(1)),
        ("device", told("cuda")),
        ("version", told("nightly")),
    ],
)
def test_what_no_command_line_can_set_is_not_pasted(path: str, value: SettingValue) -> None:
    assert remedy.pasteable(path, value) is None


def test_flags_stand_on_one_line_and_what_is_no_flag_on_its_own() -> None:
    wanted = [("cache_config.block_size", told(16)), ("env.A", told("1")), ("scheduler_config.max_num_seqs", told(64))]

    assert remedy.set_to(wanted, "Do it.") == Remedy(
        "Do it.",
        (Snippet("flag", "--block-size 16 --max-num-seqs 64"), Snippet("env", "export A=1")),
    )


def test_what_sets_a_path_is_its_flag_its_variable_or_the_path() -> None:
    assert remedy.lever("cache_config.kv_offloading_size") == "--kv-offloading-size"
    assert remedy.lever("env.VLLM_X") == "VLLM_X"
    assert remedy.lever("nowhere") == "nowhere"


def test_a_variable_that_is_not_set_is_unset_by_pasting() -> None:
    assert remedy.pasteable("env.VLLM_X", SettingValue("null", State.NULL)) == Snippet("env", "unset VLLM_X")
