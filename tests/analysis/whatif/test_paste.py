"""What to paste for a group of replicas: flags, variables, the image, and values of a Helm chart."""

import shlex
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis.whatif import ApplyMethod, Paste
from dashboard.analysis.whatif.paste import paste, planned_changes
from dashboard.fleet import SettingChange, SettingValue, State
from dashboard.vllm.canonical import canonical_text

NOT_SET = SettingValue("null", State.NULL)


def told(value: Any) -> SettingValue:
    """Return a value as it is told."""
    return NOT_SET if value is None else SettingValue(canonical_text(value), State.REPORTED)


def pasted(wanted: dict[str, Any], *, derives_sizes: bool = True) -> Paste:
    """Return what to paste so that settings get these values."""
    return paste(planned_changes(contrasts(wanted), derives_sizes=derives_sizes))


def ways(wanted: dict[str, Any], *, derives_sizes: bool = True) -> list[ApplyMethod]:
    """Return how settings get these values."""
    return [each.how for each in planned_changes(contrasts(wanted), derives_sizes=derives_sizes)]


def contrasts(wanted: dict[str, Any]) -> tuple[SettingChange, ...]:
    """Return settings that are otherwise now."""
    return tuple(SettingChange(path, told("other"), told(value)) for path, value in wanted.items())


def entry(text: str) -> dict[str, Any]:
    """Return the one entry of modelSpec that Helm values hold."""
    (found,) = yaml.safe_load(text)["servingEngineSpec"]["modelSpec"]
    return dict(found)


def test_each_flag_has_its_value_and_the_chart_has_them_as_arguments() -> None:
    """The chart passes each word on as an argument of its own: servingEngineSpec.modelSpec[].vllmConfig.extraArgs."""
    what = pasted({"cache_config.block_size": 16, "cache_config.enable_prefix_caching": False})

    assert what.flags == ("--block-size 16", "--no-enable-prefix-caching")
    assert entry(what.helm) == {"vllmConfig": {"extraArgs": ["--block-size", "16", "--no-enable-prefix-caching"]}}
    assert "vLLM production-stack chart" in what.helm


def test_variables_are_set_and_taken_away() -> None:
    """Values are text in YAML: Kubernetes takes nothing else."""
    what = pasted({"env.VLLM_X": True, "env.PYTHONHASHSEED": 0, "env.VLLM_OLD": None})

    assert what.environment.splitlines() == ["export VLLM_X=1", "export PYTHONHASHSEED=0", "unset VLLM_OLD"]
    assert entry(what.helm) == {"env": [{"name": "VLLM_X", "value": "1"}, {"name": "PYTHONHASHSEED", "value": "0"}]}
    assert "# Remove from its env: VLLM_OLD" in what.helm


def test_another_version_is_another_image() -> None:
    """No flag changes the version."""
    what = pasted({"version": "0.32.0"})

    assert what.image == "image: vllm/vllm-openai:v0.32.0"
    assert entry(what.helm) == {"repository": "vllm/vllm-openai", "tag": "v0.32.0"}
    assert pasted({"version": "unknown"}) == Paste()


def test_a_flag_that_the_target_does_not_set_is_taken_away() -> None:
    """There is nothing to put into the values then, only something to take out."""
    what = pasted({"cache_config.kv_offloading_size": None})

    assert what.removed == ("--kv-offloading-size",)
    assert what.helm.splitlines()[1] == "# Remove from its extraArgs: --kv-offloading-size"
    assert yaml.safe_load(what.helm) is None


def test_what_no_flag_sets_follows() -> None:
    """Nothing is pasted for what the engine resolves by itself."""
    assert ways({"cache_config.hash_block_size": 16, "seed_policy": "default"}) == [
        ApplyMethod.FOLLOWS,
        ApplyMethod.FOLLOWS,
    ]
    assert pasted({"cache_config.hash_block_size": 16}) == Paste()
    assert Paste().is_empty


def test_sizes_of_graphs_follow_from_the_batch_limits_unless_they_were_set() -> None:
    """A list of fifty sizes is pasted only where somebody chose it, or where nothing else explains it."""
    both = {"scheduler_config.max_num_seqs": 256, "compilation_config.max_cudagraph_capture_size": 512}

    assert ways(both) == [ApplyMethod.FLAG, ApplyMethod.FOLLOWS]
    assert pasted(both).optional == ("--max-cudagraph-capture-size",)
    assert ways(both, derives_sizes=False) == [ApplyMethod.FLAG, ApplyMethod.FLAG]
    assert ways({"compilation_config.max_cudagraph_capture_size": 512}) == [ApplyMethod.FLAG]


def test_the_first_served_name_is_one_of_all() -> None:
    """The flag is given once, with all names."""
    what = pasted({"served_model_names": ["chat", "a b"], "model_config.served_model_name": "chat"})

    assert what.flags == ("--served-model-name chat 'a b'",)
    assert what.optional == ()


def test_a_value_that_holds_what_is_each_replicas_own_is_set_by_hand() -> None:
    """What is compared of an address has no host: pasted, it would be no address."""
    assert (
        ways(
            {
                "kv_events_config.endpoint": "tcp://{host}:5557",
                "kv_events_config.topic": "kv@{pod}@chat",
                "model_config.model": "llama",
            }
        )
        == [ApplyMethod.BY_HAND] * 3
    )
    assert (
        ways({"model_config.model": "meta/llama", "kv_events_config.endpoint": "tcp://*:5557"})
        == [ApplyMethod.FLAG] * 2
    )


def test_the_mode_of_graphs_is_pasted_by_its_name() -> None:
    """A configuration tells numbers, a command line takes names."""
    assert pasted({"compilation_config.cudagraph_mode": [2, 1]}).flags == (
        "--compilation-config.cudagraph_mode FULL_AND_PIECEWISE",
    )


def test_names_from_strangers_never_reach_a_command_line() -> None:
    """A path that a shell could read as more than a name is left to people."""
    hostile = {"compilation_config.x; rm -rf /": 1, "env.X; reboot": 1, "compilation_config.$(id)": None}

    assert ways(hostile) == [ApplyMethod.BY_HAND] * 3
    assert pasted(hostile) == Paste()


hostile = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(["$(POD_IP)", "a: b", "- x", "'", '"', "\x7f", "{}"]),
)


@given(hostile)
def test_values_of_the_chart_parse_and_say_what_the_command_line_says(value: str) -> None:
    """Whatever a replica tells: the same words, but that Kubernetes puts no variable in."""
    what = pasted({"model_config.tokenizer": f"org/{value}", "env.VLLM_X": value})
    found = entry(what.helm)

    assert found["vllmConfig"]["extraArgs"] == [each.replace("$(", "$$(") for each in shlex.split(" ".join(what.flags))]
    assert found["env"] == [{"name": "VLLM_X", "value": value.replace("$(", "$$(")}]
    assert shlex.split(what.environment) == ["export", f"VLLM_X={value}"]
