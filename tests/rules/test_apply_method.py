"""How a setting gets its value, and what is typed for it."""

import json
from typing import Any

import pytest

from dashboard.fleet import Baseline, Setting, SettingValue, Source, State, Tolerance
from dashboard.rules import remedy
from dashboard.rules.apply_method import (
    ApplyMethod,
    apply_methods,
    assignment_for,
    derived_paths,
    is_misfit,
    manual_methods,
)
from dashboard.rules.findings import Remedy, Snippet, Way
from vllm_fleet_provider.shared.spelling import canonical_text

UNSET = SettingValue("null", State.NULL)


def value(native: Any) -> SettingValue:
    return SettingValue(canonical_text(native), State.REPORTED)


@pytest.mark.parametrize(
    ("path", "native", "kind", "text"),
    [
        ("cache_config.block_size", 16, "flag", "--block-size 16"),
        ("cache_config.cache_dtype", "fp8_e4m3", "flag", "--kv-cache-dtype fp8_e4m3"),
        ("cache_config.enable_prefix_caching", True, "flag", "--enable-prefix-caching"),
        ("cache_config.enable_prefix_caching", False, "flag", "--no-enable-prefix-caching"),
        ("scheduler_config.policy", "fcfs", "flag", "--scheduling-policy fcfs"),
        ("compilation_config.cudagraph_capture_sizes", [1, 2, 4], "flag", "--cudagraph-capture-sizes 1 2 4"),
        ("kv_events_config.topic", "kv@a b", "flag", "--kv-events-config.topic 'kv@a b'"),
        ("kv_events_config.enable_kv_cache_events", True, "flag", "--kv-events-config.enable_kv_cache_events true"),
        ("served_model_names", ["chat", "it's"], "flag", """--served-model-name chat 'it'"'"'s'"""),
        ("env.PYTHONHASHSEED", "0", "env", "export PYTHONHASHSEED=0"),
        ("env.VLLM_X", "a;rm -rf /", "env", "export VLLM_X='a;rm -rf /'"),
        ("env.VLLM_X", None, "env", "unset VLLM_X"),
        ("env.VLLM_X", False, "env", "export VLLM_X=0"),
        *(
            pytest.param("env.VLLM_SERVER_DEV_MODE", off, "env", "unset VLLM_SERVER_DEV_MODE", id=f"off: {off!r}")
            for off in (False, 0, "0")
        ),
        ("env.VLLM_PLUGINS", ["b", "a"], "env", "export VLLM_PLUGINS=a,b"),
        ("env.VLLM_OTHER", ["b", "a"], "env", "export VLLM_OTHER=b,a"),
        ("version", "0.32.0", "yaml", "image: vllm/vllm-openai:v0.32.0"),
    ],
)
def test_a_snippet_sets_a_value_as_a_shell_and_vllm_accept_it(path: str, native: Any, kind: str, text: str) -> None:
    assert remedy.pasteable(path, UNSET if native is None else value(native)) == Snippet(kind, text)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("cache_config.block_size", UNSET),
        ("env.VLLM_X", SettingValue("null", State.UNKNOWN)),
        ("cache_config.no_such_setting", value(1)),
        ("device", value("cuda")),
        ("version", value("nightly")),
        ("version", value("0.0.0")),
        ("version", value("0.1.dev5+g3f2a1bc")),
    ],
)
def test_a_value_that_no_command_line_can_set_has_no_snippet(path: str, wanted: SettingValue) -> None:
    assert remedy.pasteable(path, wanted) is None


def test_flags_are_one_snippet_and_variables_are_their_own() -> None:
    wanted = {"cache_config.block_size": value(16), "env.A": value("1"), "scheduler_config.max_num_seqs": value(64)}

    assert remedy.set_to(wanted.items(), "Do it.") == Remedy(
        "Do it.",
        (Snippet("flag", "--block-size 16 --max-num-seqs 64"), Snippet("env", "export A=1")),
        ways=(Way(tuple(wanted.items())),),
    )


def test_a_cuda_graph_mode_is_pasted_by_name() -> None:
    found = assignment_for("compilation_config.cudagraph_mode", value([2, 1]))

    assert found
    assert found.snippet == Snippet("flag", "--compilation-config.cudagraph_mode FULL_AND_PIECEWISE")


def test_the_lever_of_a_path_is_its_flag_its_variable_or_the_path() -> None:
    paths = ("cache_config.kv_offloading_size", "env.VLLM_X", "nowhere")

    assert [remedy.lever(each) for each in paths] == ["--kv-offloading-size", "VLLM_X", "nowhere"]


@pytest.mark.parametrize(
    ("path", "wanted", "others", "expected"),
    [
        ("cache_config.block_size", '"sixteen"', ("16", "32"), True),
        ("cache_config.block_size", "true", ("16",), True),
        ("cache_config.enable_prefix_caching", '"yes"', ("true", "false"), True),
        ("cache_config.block_size", "64", ("16",), False),
        ("model_config.dtype", '"half"', ('"auto"',), False),
        ("a.b", '"auto"', ("1", '"auto"'), False),
        ("a.b", '"x"', (), False),
        ("compilation_config.cudagraph_mode", '"FULL"', ("2",), False),
        ("compilation_config.pass", '"x"', ("[1]",), False),
    ],
)
def test_text_is_a_misfit_where_all_replicas_report_a_number_or_a_switch(
    path: str, wanted: str, others: tuple[str, ...], *, expected: bool
) -> None:
    known = [value(json.loads(each)) for each in others]

    assert is_misfit(path, value(json.loads(wanted)), known) is expected
    assert not is_misfit(path, UNSET, known)


def test_ranges_without_a_usual_value_and_misfits_need_a_decision() -> None:
    baseline = Baseline(
        "agreed",
        "chat",
        {"a.size": '"sixteen"', "a.seed": "1"},
        {"a.low": Tolerance((), 1, 2), "a.high": Tolerance((), 1, 2), "a.set": Tolerance(("1", "2"))},
    )
    paths = [*baseline.expected, *baseline.tolerated, "other.inner"]

    assert manual_methods(baseline, {"a.high": value(2)}, lambda _: [value(16)], paths) == {
        "a.size": ApplyMethod.MISFIT,
        "a.low": ApplyMethod.CHOICE,
    }


SEQS, TOKENS = "scheduler_config.max_num_seqs", "scheduler_config.max_num_batched_tokens"
SIZES, LARGEST = "compilation_config.cudagraph_capture_sizes", "compilation_config.max_cudagraph_capture_size"
RANGES, SCHEDULED = "compilation_config.compile_ranges_endpoints", "scheduler_config.max_num_scheduled_tokens"
DERIVED = canonical_text([1, 2, 4, *range(8, 257, 8)])  # vLLM's sizes for 128 requests
TWO = Tolerance(("64", "128"))


@pytest.mark.parametrize(
    ("expected", "tolerated", "ignored", "seqs", "open_paths"),
    [
        *(
            ({SIZES: DERIVED, LARGEST: "256", TOKENS: "8192"}, {SEQS: tolerance}, (), 64, {SIZES, LARGEST})
            for tolerance in (TWO, Tolerance((), 64, 128), Tolerance((), 128), Tolerance((), None, 128))
        ),
        ({SIZES: DERIVED, SEQS: "128"}, {}, ("scheduler_*",), 64, {SIZES}),
        ({SIZES: DERIVED}, {}, (SEQS,), 128, {SIZES}),
        ({SIZES: DERIVED}, {SEQS: Tolerance((), 1, float("inf"))}, (), 128, {SIZES}),
        ({SIZES: "[1,2,4]", LARGEST: "4"}, {SEQS: TWO}, (), 64, set()),
        ({SIZES: DERIVED, SEQS: "128"}, {}, (), 64, set()),
        ({RANGES: "[4096]", SCHEDULED: "100"}, {TOKENS: Tolerance(("4096", "8192"))}, (), 64, {RANGES}),
    ],
)
def test_a_value_that_follows_from_a_limit_with_several_allowed_values_is_open(
    expected: dict[str, str],
    tolerated: dict[str, Tolerance],
    ignored: tuple[str, ...],
    seqs: int,
    open_paths: set[str],
) -> None:
    baseline = Baseline("agreed", "chat", expected, tolerated, ignored)
    pool = {SEQS: [value(seqs)], TOKENS: [value(8192)]}
    methods = manual_methods(baseline, {}, lambda path: pool.get(path, []), list(expected))

    assert {path for path, method in methods.items() if method is ApplyMethod.OPEN} == open_paths


@pytest.mark.parametrize(
    ("path", "native", "method"),
    [
        ("version", "0.32.0", ApplyMethod.IMAGE),
        ("cache_config.block_size", 16, ApplyMethod.FLAG),
        ("cache_config.block_size", None, ApplyMethod.NO_FLAG),
        ("env.VLLM_X", 1, ApplyMethod.VARIABLE),
        ("env.VLLM_X", None, ApplyMethod.NO_VARIABLE),
        ("env.VLLM X", 1, ApplyMethod.BY_HAND),
        ("kv_events_config.endpoint", "tcp://{host}:5557", ApplyMethod.BY_HAND),
        ("model_config.model", "llama", ApplyMethod.BY_HAND),
        ("a.b", 1, ApplyMethod.FOLLOWS),
    ],
)
def test_a_setting_is_changed_by_flag_variable_image_or_hand(path: str, native: Any, method: ApplyMethod) -> None:
    wanted = UNSET if native is None else value(native)

    assert apply_methods({path: wanted}, derives_sizes=True) == {path: method}


def test_a_manual_method_overrides_a_derived_one_for_wanted_paths_only() -> None:
    wanted = {"cache_config.block_size": value(16), "env.VLLM_SERVER_DEV_MODE": value(False)}
    off = {"env.VLLM_SERVER_DEV_MODE": ApplyMethod.NO_VARIABLE}
    left = {"cache_config.block_size": ApplyMethod.CHOICE, "seed": ApplyMethod.MISFIT}

    assert apply_methods(wanted, derives_sizes=True) == {"cache_config.block_size": ApplyMethod.FLAG, **off}
    assert apply_methods(wanted, derives_sizes=True, left=left) == {
        "cache_config.block_size": ApplyMethod.CHOICE,
        **off,
    }


@pytest.mark.parametrize(("name", "expected"), [("chat", {"model_config.served_model_name"}), ("gpt", set())])
def test_the_first_served_name_is_derived_from_the_list_of_names(name: str, expected: set[str]) -> None:
    settings = {"served_model_names": ["chat", "gpt"], "model_config.served_model_name": name}
    document = {path: Setting(*value(each), Source.SERVER_INFO) for path, each in settings.items()}

    assert derived_paths(document) == expected
