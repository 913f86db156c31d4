"""Baseline files: written from a fleet's settings, and updated in place."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare.baseline import deviations
from dashboard.config.baseline_file import (
    LONGEST_KEY,
    BaselineUpdate,
    baseline_yaml,
    configurable,
    update_baseline,
)
from dashboard.config.baselines import read_baseline
from dashboard.errors import UnreadableError
from dashboard.fleet import Baseline, Setting, Source, State
from dashboard.vllm.canonical import FILLED_IN_LATER, setting
from tests import builders
from tests.strategies import json_values, texts
from vllm_fleet_provider.shared.redaction import redact

BEGIN = "version: 1\npool: chat\n"
EDITED = """\
# agreed on the last review
version: 1
pool: chat                     # all of them
expected:
  # blocks
  cache_config.block_size: "16"  # the router cuts 16 too: é
  cache_config.enable_prefix_caching: true

  # models
  model_config.stops:  # of the template
  - a
  - b
  # after the list
  model_config.note: |
    text

  model_config.gone: 1
tolerated:
  scheduler_config.max_num_seqs: {any_of: [128, 256]}   # either
ignored:
  - observability_config.*
# the end
"""


def write(settings: Mapping[str, Setting], pool: str = "chat", source: str = "cohort A, 3 replicas") -> str:
    return baseline_yaml(pool, settings, source=source, context_line="prod · live")


def read(text: str) -> Baseline:
    baseline, mistakes = read_baseline(text.encode(), "chat.yaml")
    assert baseline, mistakes
    return baseline


def settings_of(values: Mapping[str, Any]) -> dict[str, Setting]:
    return {path: builders.setting(value) for path, value in values.items()}


def update(text: str, values: dict[str, Any]) -> BaselineUpdate:
    """Update a baseline; afterwards nothing deviates."""
    updated = update_baseline(
        text, read(text), settings_of(values), source="cohort A, 3 replicas", context_line="prod · live"
    )
    assert deviations(read(updated.text), settings_of(values)) == ()
    return updated


def test_a_new_baseline_names_its_source_and_lists_settings_by_section() -> None:
    settings = settings_of(
        {
            "version": "0.32.0",
            "cache_config.block_size": 16,
            "cache_config.kv_offloading_size": None,
            "model_config.revision": "1.10",
            "model_config.tags": ["a", "b c", {"x": True}],
        }
    )

    assert write(settings) == (
        "# Expected settings of pool chat. Source: cohort A, 3 replicas.\n"
        "# prod · live\n"
        "# Not included: settings that vLLM derives from others (CUDA graph sizes), and build facts "
        "(env.VLLM_BUILD_*).\n"
        "# Move a value that may differ to tolerated: {any_of: [128, 256]}, {at_least: 0.9, at_most: 0.95}.\n"
        "# List globs over irrelevant settings under ignored. Comments behind a value are kept and shown.\n"
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
        '  model_config.revision: "1.10"\n'
        '  model_config.tags: [a, "b c", {x: true}]\n'
    )


def test_settings_without_a_value_and_values_that_no_reader_accepts_are_left_out() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    states = {str(state): builders.setting("x", state) for state in State}
    odd = settings_of({"a.deep": deep, "a.long": {"\u2028" * LONGEST_KEY: 1}, "\u2028" * 300: 1, "a.kept": {"b": [1]}})

    assert list(read(write({**states, **odd})).expected) == ["null", "reported", "a.kept"]


@given(
    st.dictionaries(
        st.one_of(st.sampled_from(["cache_config.block_size", "model_config.dtype", "seed"]), texts),
        json_values,
        min_size=1,
    ),
    texts,
)
def test_the_source_of_a_baseline_never_deviates_from_it(values: dict[str, Any], pool: str) -> None:
    settings = {path: each for path, value in values.items() if path and (each := normal(path, value)) is not None}
    if not settings or not pool.strip():
        return

    baseline = read(write(settings, pool, source=pool))

    known = {path for path, each in settings.items() if each.state in {State.REPORTED, State.NULL}}
    assert (baseline.pool, set(baseline.expected)) == (pool, known)
    assert deviations(baseline, settings) == ()


def normal(path: str, value: Any) -> Setting | None:
    """Return a setting as from a reply; None where that refuses it."""
    try:
        made = setting(path, redact(value, path), Source.SERVER_INFO)
    except UnreadableError:
        return None
    return None if made.state is State.REDACTED or path in FILLED_IN_LATER else made


@given(texts)
def test_any_text_about_the_source_stays_a_comment(text: str) -> None:
    made = baseline_yaml("chat", settings_of({"seed": 0}), source=text, context_line=text)

    content = {"version": 1, "pool": "chat", "tolerated": None, "ignored": None, "expected": {"seed": 0}}
    assert yaml.safe_load(made) == content


def test_derived_settings_are_not_in_a_new_baseline() -> None:
    """One wrong block size would deviate twice, the second time without an option to set."""
    values = {"cache_config.block_size": 16, "cache_config.effective_attention_block_size": 16}

    assert configurable(settings_of(values)) == {"cache_config.block_size": 16}


def test_derived_settings_are_updated_where_a_baseline_has_them() -> None:
    limit, size = "scheduler_config.max_num_batched_tokens", "scheduler_config.encoder_cache_size"
    other = "scheduler_config.max_num_encoder_input_tokens"
    values = {limit: 2048, size: 2048, other: 2048, "env.VLLM_BUILD_COMMIT": "unknown"}

    updated = update(f"{BEGIN}expected:\n  {limit}: 8192\n  {size}: 8192\n", values)

    text = f"{BEGIN}expected:\n  {limit}: 2048\n  {size}: 2048\n"
    assert updated == BaselineUpdate(text, (limit, size), (), ())


def test_an_update_changes_only_wrong_values_and_keeps_comments_and_order() -> None:
    updated = update(
        EDITED,
        {
            "cache_config.block_size": 32,
            "cache_config.enable_prefix_caching": True,
            "cache_config.new": None,
            "model_config.stops": ["a"],
            "model_config.note": "other",
            "lora_config.max_loras": 2,
            "lora_config.rank": 8,
            "scheduler_config.max_num_seqs": 256,
            "observability_config.x": 1,
        },
    )

    expected = EDITED.replace('"16"  #', "32  #")
    expected = expected.replace("prefix_caching: true\n", "prefix_caching: true\n  cache_config.new: null\n")
    expected = expected.replace("  # of the template\n  - a\n  - b\n", " [a]  # of the template\n")
    expected = expected.replace("note: |\n    text\n", "note: other\n")
    expected = expected.replace("gone: 1\n", "gone: 1\n\n  lora_config.max_loras: 2\n  lora_config.rank: 8\n")
    assert updated == BaselineUpdate(
        expected,
        changed=("cache_config.block_size", "model_config.stops", "model_config.note"),
        added=("cache_config.new", "lora_config.max_loras", "lora_config.rank"),
        not_reported=("model_config.gone",),
        commented=("cache_config.block_size", "model_config.stops"),
    )


def test_an_update_keeps_ignored_values_and_the_spelling_of_equal_ones() -> None:
    text = f"{BEGIN}expected:\n  a.x: 20 # why\n  b: 1\n  c: '16'\nignored: ['a.*']\n"

    updated = update(text, {"a.x": 5, "b": 2, "c": 16})

    assert updated == BaselineUpdate(text.replace("b: 1", "b: 2"), ("b",), (), ())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{BEGIN}expected:\n  a:\n", f"{BEGIN}expected:\n  a: 1\n  b: 2\n"),
        (f"{BEGIN}expected:\n  a: ~  # why", f"{BEGIN}expected:\n  a: 1  # why\n  b: 2"),
        (f"{BEGIN}expected:\r\n    a: 0\r\n", f"{BEGIN}expected:\r\n    a: 1\r\n    b: 2\r\n"),
        (f"{BEGIN}expected: {{a: 0}}\n", f"{BEGIN}expected: {{a: 1, b: 2}}\n"),
        (f"{BEGIN}expected: {{a: 0, }}\n", f"{BEGIN}expected: {{a: 1, b: 2, }}\n"),
        (
            f"{BEGIN}expected:  # none\ntolerated: {{c: {{at_least: 1}}}}\n",
            f"{BEGIN}expected:  # none\n  a: 1\n  b: 2\ntolerated: {{c: {{at_least: 1}}}}\n",
        ),
        (
            f"{BEGIN}expected: {{}}  # none\ntolerated: {{c: {{at_least: 1}}}}\n",
            f"{BEGIN}expected:   # none\n  a: 1\n  b: 2\ntolerated: {{c: {{at_least: 1}}}}\n",
        ),
        (
            f"{BEGIN}tolerated:\n  c: {{at_least: 1}}  # low\n",
            f"{BEGIN}tolerated:\n  c: {{at_least: 1}}  # low\nexpected:\n  a: 1\n  b: 2\n",
        ),
        (
            "{version: 1, pool: chat, tolerated: {c: {at_least: 1}}}",
            "{version: 1, pool: chat, tolerated: {c: {at_least: 1}}, expected: {a: 1, b: 2}}",
        ),
        (
            '{"version": 1, "pool": "chat", "expected": null, "tolerated": {"c": {"at_least": 1}}}',
            '{"version": 1, "pool": "chat", "expected": {a: 1, b: 2}, "tolerated": {"c": {"at_least": 1}}}',
        ),
    ],
)
def test_an_update_works_for_every_layout_of_the_file(before: str, after: str) -> None:
    assert update(before, {"a": 1, "b": 2}).text == after


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_update_names_the_new_source_where_it_changed_a_value(newline: str) -> None:
    text = write(settings_of({"a": 1})).replace("\n", newline)

    def updated(text: str, value: int) -> str:
        settings = settings_of({"a": value})
        return update_baseline(text, read(text), settings, source="replica b", context_line="prod · later").text

    new = write(settings_of({"a": 2}), source="replica b").replace("live", "later").replace("\n", newline)
    assert updated(text, 2) == new
    assert updated(text, 1) == text
    own = text.replace("# Expected settings", "# Ours, once expected settings")
    assert updated(own, 2) == own.replace("a: 1", "a: 2")


values = st.dictionaries(
    st.sampled_from(["version", "a.x", "a.y", "b.x", "b.y", "c"]),
    st.one_of(
        st.none(),
        st.integers(0, 99),
        st.booleans(),
        st.text("ab#: \n'\"", max_size=5),
        st.lists(st.integers(-(2**64), 2**64), max_size=2),  # a reply with a larger number is refused
    ),
    min_size=1,
)


@given(values, values)
def test_after_an_update_nothing_deviates_and_a_second_one_changes_nothing(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    updated = update(write(settings_of(before)), after)

    assert set(read(updated.text).expected) == before.keys() | after.keys()
    assert update(updated.text, after).text == updated.text
