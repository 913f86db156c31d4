"""What to change on a group of replicas, for a shell, for kubectl and for two Helm charts."""

import shlex
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis.patch import (
    Patch,
    Variable,
    kubectl_texts,
    kubectl_warning,
    llm_d_values,
    patch_of,
    production_stack_values,
)
from dashboard.fleet import Role, SettingChange, SettingValue, State
from dashboard.rules.apply_method import ApplyMethod, apply_methods
from tests.builders import replica
from vllm_fleet_provider.shared.spelling import canonical_text

FLAG, FOLLOWS, BY_HAND = ApplyMethod.FLAG, ApplyMethod.FOLLOWS, ApplyMethod.BY_HAND
LARGEST, BATCH = "compilation_config.max_cudagraph_capture_size", "scheduler_config.max_num_seqs"
HOSTILE = {"compilation_config.x; rm -rf /": 1, "env.X; reboot": 1, "compilation_config.$(id)": None}


def setting_value(value: Any) -> SettingValue:
    state = State.NULL if value is None else State.REPORTED
    return SettingValue(canonical_text(value), state)


def methods_of(wanted: Mapping[str, Any], *, derives_sizes: bool = True) -> Mapping[str, ApplyMethod]:
    return apply_methods({path: setting_value(value) for path, value in wanted.items()}, derives_sizes=derives_sizes)


def patched(wanted: Mapping[str, Any]) -> Patch:
    """Return what to change to get these values."""
    changes = [SettingChange(path, setting_value("other"), setting_value(value)) for path, value in wanted.items()]
    return patch_of(changes, methods_of(wanted))


def entry(patch: Patch) -> dict[str, Any]:
    """Return the only entry of modelSpec in the values of the production-stack chart."""
    (found,) = yaml.safe_load(production_stack_values(patch))["servingEngineSpec"]["modelSpec"]
    return dict(found)


def containers(patch: Patch, **labels: str) -> tuple[dict[str, Any], list[str]]:
    """Return the container of the strategic merge patch for one pod, and the commands."""
    written, commands = kubectl_texts(patch, [replica("chat-1", labels=labels)])
    (found,) = yaml.safe_load(written)["spec"]["template"]["spec"]["containers"]
    return dict(found), commands.splitlines()


def test_each_flag_has_its_value_and_is_one_argument_a_word_in_the_charts() -> None:
    what = patched({"cache_config.block_size": 16, "cache_config.enable_prefix_caching": False})
    words = ["--block-size", "16", "--no-enable-prefix-caching"]

    assert what.flags == (("--block-size", "16"), ("--no-enable-prefix-caching",))
    assert entry(what) == {"vllmConfig": {"extraArgs": words}}
    assert containers(what)[0] == {"name": "CONTAINER", "args": ["CURRENT_ARGS", *words]}


def test_variables_are_set_as_text_and_removed() -> None:
    what = patched({"env.PYTHONHASHSEED": 0, "env.VLLM_X": True, "env.VLLM_OLD": None})
    added = [{"name": "PYTHONHASHSEED", "value": "0"}, {"name": "VLLM_X", "value": "1"}]

    assert what.variables[-1] == Variable("VLLM_OLD")
    assert what.environment == ("export PYTHONHASHSEED=0", "export VLLM_X=1", "unset VLLM_OLD")
    assert entry(what) == {"env": added}
    assert "# Remove from env: VLLM_OLD" in production_stack_values(what)
    assert containers(what)[0]["env"] == [*added, {"name": "VLLM_OLD", "$patch": "delete"}]


def test_another_version_is_another_image_and_the_rest_comes_after_it() -> None:
    what = patched({"version": "0.32.0", "cache_config.block_size": 16})

    assert what == Patch(image="vllm/vllm-openai:v0.32.0")
    assert entry(what) == {"repository": "vllm/vllm-openai", "tag": "v0.32.0"}
    assert containers(what)[0]["image"] == "vllm/vllm-openai:v0.32.0"
    assert patched({"version": "unknown"}) == Patch()


def test_a_flag_that_is_not_set_elsewhere_is_removed() -> None:
    what = patched({"cache_config.kv_offloading_size": None})

    assert what.removed == ("--kv-offloading-size",)
    assert production_stack_values(what).splitlines()[1] == "# Remove from extraArgs: --kv-offloading-size"
    assert llm_d_values(what, [replica("chat-1")]).splitlines()[1] == "# Remove from args: --kv-offloading-size"
    assert kubectl_texts(what, [])[0].splitlines()[1].endswith("current ones without --kv-offloading-size.")


def test_nothing_to_paste_is_no_text_in_any_format() -> None:
    assert [production_stack_values(Patch()), llm_d_values(Patch(), [])] == ["", ""]
    assert kubectl_texts(Patch(), []) == ()


def test_the_workload_is_that_of_the_pods_and_a_placeholder_where_it_is_not_reported() -> None:
    what = patched({"cache_config.block_size": 16})
    known = {"namespace": "prod", "owner": "StatefulSet/chat", "image_vllm": "sha256:1", "image_proxy": "sha256:2"}
    container, commands = containers(what, **known)

    assert (container["name"], commands) == (
        "vllm",
        ["kubectl -n prod patch statefulset/chat --patch-file patch.yaml"],
    )
    placeholder = ["kubectl -n NAMESPACE patch deployment/NAME --patch-file patch.yaml"]
    assert containers(what)[1] == placeholder
    assert containers(what, owner="Deployment/x; reboot", namespace="$(id)", image_A="1") == (
        {"name": "CONTAINER", "args": ["CURRENT_ARGS", "--block-size", "16"]},
        placeholder,
    )
    assert containers(what, owner="LeaderWorkerSet/chat")[1] == placeholder


def test_each_workload_has_a_command_once() -> None:
    pods = [replica(f"{name}-{each}", labels={"owner": f"Deployment/{name}"}) for name in "ab" for each in (1, 2)]
    commands = kubectl_texts(patched({"cache_config.block_size": 16}), pods)[1].splitlines()

    assert [each.split()[4] for each in commands] == ["deployment/a", "deployment/b"]


def test_a_patch_replaces_present_flags_and_restarts_all_pods_of_its_workload() -> None:
    what, pod = patched({"cache_config.block_size": 16}), replica("chat-1", labels={"owner": "StatefulSet/chat"})

    assert "without --block-size." in kubectl_texts(what, [pod])[0]
    assert kubectl_warning(what, [pod]) == "Replace --block-size where set. A StatefulSet restarts all its pods."
    assert kubectl_warning(patched({"version": "0.32.0"}), []) == "A Deployment restarts all its pods."


def test_llm_d_has_prefill_and_decode_apart() -> None:
    pods = [replica(f"chat-{role}", role=role) for role in (Role.PREFILL, Role.DECODE, Role.BOTH)]
    values = yaml.safe_load(llm_d_values(patched({"cache_config.block_size": 16}), pods))
    container = {"name": "vllm", "args": ["--block-size", "16"]}

    assert values == {"decode": {"containers": [container]}, "prefill": {"containers": [container]}}


@pytest.mark.parametrize(
    ("wanted", "methods", "flags", "optional"),
    [
        ({"cache_config.hash_block_size": 16, "seed_policy": "default"}, [FOLLOWS, FOLLOWS], (), ()),
        # Sizes of CUDA graphs follow from the batch limits if these change as well.
        ({BATCH: 256, LARGEST: 512}, [FLAG, FOLLOWS], (("--max-num-seqs", "256"),), ("--max-cudagraph-capture-size",)),
        ({LARGEST: 512}, [FLAG], (("--max-cudagraph-capture-size", "512"),), ()),
        (
            {"served_model_names": ["chat", "a b"], "model_config.served_model_name": "chat"},
            [FLAG, FOLLOWS],
            (("--served-model-name", "chat", "a b"),),
            (),
        ),
        # What is compared of an address has no host.
        ({"kv_events_config.endpoint": "tcp://{host}:5557", "kv_events_config.topic": "{pod}"}, [BY_HAND] * 2, (), ()),
        ({"model_config.model": "llama"}, [BY_HAND], (), ()),
        ({"model_config.model": "meta/llama"}, [FLAG], (("--model", "meta/llama"),), ()),
        (
            {"compilation_config.cudagraph_mode": [2, 1]},
            [FLAG],
            (("--compilation-config.cudagraph_mode", "FULL_AND_PIECEWISE"),),
            (),
        ),
        (HOSTILE, [BY_HAND] * 3, (), ()),  # a shell could interpret these paths
    ],
)
def test_a_setting_is_a_flag_or_follows_from_others_or_is_set_by_hand(
    wanted: Any, methods: list[ApplyMethod], flags: tuple[tuple[str, ...], ...], optional: tuple[str, ...]
) -> None:
    what = patched(wanted)

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
def test_every_format_has_the_words_of_the_command_line_without_references_to_variables(value: str) -> None:
    what = patched({"model_config.tokenizer": f"org/{value}", "env.VLLM_X": value})
    words = [word.replace("$(", "$$(") for word in ("--tokenizer", f"org/{value}")]
    variable = {"name": "VLLM_X", "value": value.replace("$(", "$$(")}

    assert entry(what) == {"vllmConfig": {"extraArgs": words}, "env": [variable]}
    assert containers(what)[0] == {"name": "CONTAINER", "args": ["CURRENT_ARGS", *words], "env": [variable]}
    assert shlex.split(what.environment[0]) == ["export", f"VLLM_X={value}"]
