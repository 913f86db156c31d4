"""A baseline made of what replicas tell is one that these replicas keep to."""

from collections.abc import Mapping
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare.baseline import deviations
from dashboard.config.baseline_file import LONGEST_KEY, agreeable, baseline_yaml
from dashboard.config.baselines import read_baseline
from dashboard.errors import UnreadableError
from dashboard.fleet import Baseline, Setting, Source, State
from dashboard.vllm.canonical import FILLED_IN_LATER, setting
from dashboard.vllm.redaction import redact
from tests import builders
from tests.strategies import json_values, texts

MADE = {"made_of": "cohort A, 3 replicas", "context_line": "prod · not frozen"}


def written(settings: Mapping[str, Setting], pool: str = "chat") -> str:
    return baseline_yaml(pool, settings, **MADE)


def read(text: str) -> Baseline:
    baseline, mistakes = read_baseline(text.encode(), "chat.yaml")
    assert baseline, mistakes
    return baseline


def told(values: Mapping[str, Any]) -> dict[str, Setting]:
    return {path: builders.setting(value) for path, value in values.items()}


def test_it_says_what_it_was_made_of_and_stands_in_sections() -> None:
    settings = told(
        {
            "scheduler_config.max_num_seqs": 256,
            "version": "0.32.0",
            "cache_config.block_size": 16,
            "cache_config.kv_offloading_size": None,
            "model_config.dtype": "bfloat16",
            "model_config.revision": "1.10",
            "model_config.tags": ["a", "b c", {"x": True}],
        }
    )

    assert written(settings) == (
        "# What the replicas of the pool chat should tell. Made of cohort A, 3 replicas.\n"
        "# prod · not frozen\n"
        "# Left out: what vLLM derives from other settings (sizes of CUDA graphs) and facts of a build "
        "(env.VLLM_BUILD_*).\n"
        "# A value that may differ goes from expected to tolerated: "
        "{any_of: [128, 256]}, {at_least: 0.9, at_most: 0.95}.\n"
        "# Globs over settings that do not matter go under ignored. What stands behind a # is kept and shown.\n"
        "version: 1\n"
        "pool: chat\n"
        "tolerated:\n"
        "  # cache_config.block_size: {any_of: [16, 32]}\n"
        "ignored:\n"
        "  # - observability_config.*\n"
        "expected:\n"
        "  version: 0.32.0\n"
        "\n"
        "  cache_config.block_size: 16\n"
        "  cache_config.kv_offloading_size: null\n"
        "\n"
        "  model_config.dtype: bfloat16\n"
        '  model_config.revision: "1.10"\n'
        '  model_config.tags: [a, "b c", {x: true}]\n'
        "\n"
        "  scheduler_config.max_num_seqs: 256\n"
    )


def test_what_has_no_value_is_left_out() -> None:
    states = {str(state): builders.setting("x", state) for state in State}

    assert list(read(written(states)).expected) == ["null", "reported"]


def test_a_value_that_no_reader_could_read_is_left_out() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    odd = told({"a.deep": deep, "a.long": {"\u2028" * LONGEST_KEY: 1}, "\u2028" * 300: 1, "a.kept": {"b": [1]}})

    assert list(read(written(odd)).expected) == ["a.kept"]


@given(
    st.dictionaries(
        st.one_of(st.sampled_from(["cache_config.block_size", "model_config.dtype", "seed"]), texts),
        json_values,
        min_size=1,
    ),
    texts,
)
def test_who_it_was_made_of_keeps_to_it_whatever_they_tell(values: dict[str, Any], pool: str) -> None:
    settings = {path: each for path, value in values.items() if path and (each := normal(path, value)) is not None}
    if not settings or not pool.strip():
        return

    baseline = read(written(settings, pool))

    assert baseline.pool == pool
    assert deviations(baseline, settings) == ()
    assert set(baseline.expected) == {
        path for path, each in settings.items() if each.state in {State.REPORTED, State.NULL}
    }


def normal(path: str, value: Any) -> Setting | None:
    """A setting as a reply gives it; None for what is refused there."""
    try:
        made = setting(path, redact(value, path), Source.SERVER_INFO)
    except UnreadableError:
        return None
    return None if made.state is State.REDACTED or path in FILLED_IN_LATER else made


@given(texts)
def test_whatever_the_context_says_it_stays_a_comment(text: str) -> None:
    made = baseline_yaml("chat", told({"seed": 0}), made_of=text, context_line=text)

    assert read(made).expected == {"seed": "0"}
    assert yaml.safe_load(made) == {
        "version": 1,
        "pool": "chat",
        "tolerated": None,
        "ignored": None,
        "expected": {"seed": 0},
    }


def test_what_only_follows_from_other_settings_is_not_agreed_on() -> None:
    """One wrong block size would else deviate twice, the second time with nothing to type."""
    told = {
        path: Setting("16", State.REPORTED, Source.SERVER_INFO)
        for path in ("cache_config.block_size", "cache_config.effective_attention_block_size")
    }

    assert agreeable(told) == {"cache_config.block_size": 16}


LIMITS = {"scheduler_config.max_num_seqs": 64, "scheduler_config.max_num_batched_tokens": 2048}
DERIVED = {
    "compilation_config.cudagraph_capture_sizes": [1, 2, 4, *range(8, 129, 8)],
    "compilation_config.max_cudagraph_capture_size": 128,
    "compilation_config.compile_ranges_endpoints": [2048],
    "scheduler_config.max_num_scheduled_tokens": 2048,
    "scheduler_config.max_num_encoder_input_tokens": 2048,
    "scheduler_config.encoder_cache_size": 2048,
}
