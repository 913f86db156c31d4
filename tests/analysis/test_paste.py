"""What to paste for a group of replicas: flags, variables, the image, and values of a Helm chart."""

import shlex
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis.paste import Paste, paste
from dashboard.fleet import SettingChange, SettingValue, State
from dashboard.rules.apply_method import ApplyMethod, apply_methods
from vllm_fleet_provider.shared.spelling import canonical_text

FLAG, FOLLOWS, BY_HAND = ApplyMethod.FLAG, ApplyMethod.FOLLOWS, ApplyMethod.BY_HAND
LARGEST, BATCH = "compilation_config.max_cudagraph_capture_size", "scheduler_config.max_num_seqs"
HOSTILE = {"compilation_config.x; rm -rf /": 1, "env.X; reboot": 1, "compilation_config.$(id)": None}


def setting_value(value: Any) -> SettingValue:
    state = State.NULL if value is None else State.REPORTED
    return SettingValue(canonical_text(value), state)


def methods_of(wanted: Mapping[str, Any], *, derives_sizes: bool = True) -> Mapping[str, ApplyMethod]:
    return apply_methods({path: setting_value(value) for path, value in wanted.items()}, derives_sizes=derives_sizes)


def pasted(wanted: Mapping[str, Any]) -> Paste:
    """Return what to paste to get these values."""
    changes = [SettingChange(path, setting_value("other"), setting_value(value)) for path, value in wanted.items()]
    return paste(changes, methods_of(wanted))


def entry(text: str) -> dict[str, Any]:
    """Return the only entry of modelSpec in Helm values."""
    (found,) = yaml.safe_load(text)["servingEngineSpec"]["modelSpec"]
    return dict(found)


def test_each_flag_has_its_value_and_is_one_argument_a_word_in_the_chart() -> None:
    what = pasted({"cache_config.block_size": 16, "cache_config.enable_prefix_caching": False})

    assert what.flags == ("--block-size 16", "--no-enable-prefix-caching")
    assert entry(what.helm) == {"vllmConfig": {"extraArgs": ["--block-size", "16", "--no-enable-prefix-caching"]}}
    assert "vLLM production-stack chart" in what.helm


def test_variables_are_set_as_text_and_removed() -> None:
    what = pasted({"env.VLLM_X": True, "env.PYTHONHASHSEED": 0, "env.VLLM_OLD": None})

    assert what.environment.splitlines() == ["export VLLM_X=1", "export PYTHONHASHSEED=0", "unset VLLM_OLD"]
    assert entry(what.helm) == {"env": [{"name": "VLLM_X", "value": "1"}, {"name": "PYTHONHASHSEED", "value": "0"}]}
    assert "# Remove from its env: VLLM_OLD" in what.helm


def test_another_version_is_another_image() -> None:
    what = pasted({"version": "0.32.0"})

    assert what.image == "image: vllm/vllm-openai:v0.32.0"
    assert entry(what.helm) == {"repository": "vllm/vllm-openai", "tag": "v0.32.0"}
    assert pasted({"version": "unknown"}) == Paste()


def test_a_flag_that_the_target_does_not_set_is_removed() -> None:
    what = pasted({"cache_config.kv_offloading_size": None})

    assert what.removed == ("--kv-offloading-size",)
    assert what.helm.splitlines()[1] == "# Remove from its extraArgs: --kv-offloading-size"
    assert yaml.safe_load(what.helm) is None


@pytest.mark.parametrize(
    ("wanted", "methods", "flags", "optional"),
    [
        ({"cache_config.hash_block_size": 16, "seed_policy": "default"}, [FOLLOWS, FOLLOWS], (), ()),
        # Sizes of CUDA graphs follow from the batch limits if these change as well.
        ({BATCH: 256, LARGEST: 512}, [FLAG, FOLLOWS], ("--max-num-seqs 256",), ("--max-cudagraph-capture-size",)),
        ({LARGEST: 512}, [FLAG], ("--max-cudagraph-capture-size 512",), ()),
        (
            {"served_model_names": ["chat", "a b"], "model_config.served_model_name": "chat"},
            [FLAG, FOLLOWS],
            ("--served-model-name chat 'a b'",),
            (),
        ),
        # What is compared of an address has no host.
        ({"kv_events_config.endpoint": "tcp://{host}:5557", "kv_events_config.topic": "{pod}"}, [BY_HAND] * 2, (), ()),
        ({"model_config.model": "llama"}, [BY_HAND], (), ()),
        ({"model_config.model": "meta/llama"}, [FLAG], ("--model meta/llama",), ()),
        (
            {"compilation_config.cudagraph_mode": [2, 1]},
            [FLAG],
            ("--compilation-config.cudagraph_mode FULL_AND_PIECEWISE",),
            (),
        ),
        (HOSTILE, [BY_HAND] * 3, (), ()),  # a shell could interpret these paths
    ],
)
def test_a_setting_is_a_flag_or_follows_from_others_or_is_set_by_hand(
    wanted: Any, methods: list[ApplyMethod], flags: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    what = pasted(wanted)

    assert list(methods_of(wanted).values()) == methods
    assert (what.flags, what.optional, what.is_empty) == (flags, optional, not flags)


def test_sizes_of_graphs_that_nothing_explains_are_flags() -> None:
    assert set(methods_of({BATCH: 256, LARGEST: 512}, derives_sizes=False).values()) == {FLAG}


@given(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"])),
        st.sampled_from(["$(POD_IP)", "a: b", "- x", "'", '"', "\x7f", "{}"]),
    )
)
def test_the_chart_contains_the_words_of_the_command_line_without_references_to_variables(value: str) -> None:
    what = pasted({"model_config.tokenizer": f"org/{value}", "env.VLLM_X": value})
    found = entry(what.helm)

    assert found["vllmConfig"]["extraArgs"] == [each.replace("$(", "$$(") for each in shlex.split(" ".join(what.flags))]
    assert found["env"] == [{"name": "VLLM_X", "value": value.replace("$(", "$$(")}]
    assert shlex.split(what.environment) == ["export", f"VLLM_X={value}"]
