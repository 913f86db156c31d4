"""A baseline is brought up to what replicas tell, and what people wrote in it stays."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare.baseline import deviations
from dashboard.config.baseline_file import Update, baseline_yaml, updated
from dashboard.config.baselines import read_baseline
from dashboard.fleet import Baseline
from tests import builders

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
  # behind the list
  model_config.note: |
    text

  model_config.gone: 1
tolerated:
  scheduler_config.max_num_seqs: {any_of: [128, 256]}   # either
ignored:
  - observability_config.*
# the end
"""


def read(text: str) -> Baseline:
    baseline, mistakes = read_baseline(text.encode(), "chat.yaml")
    assert baseline, mistakes
    return baseline


def brought_up(text: str, told: dict[str, Any]) -> Update:
    settings = {path: builders.setting(value) for path, value in told.items()}
    update = updated(text, read(text), settings)
    assert deviations(read(update.text), settings) == ()
    return update


def test_only_what_is_no_longer_true_changes_and_comments_stay_where_they_are() -> None:
    update = brought_up(
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
    assert update.text == expected
    assert update.changed == ("cache_config.block_size", "model_config.stops", "model_config.note")
    assert update.added == ("cache_config.new", "lora_config.max_loras", "lora_config.rank")
    assert update.not_told == ("model_config.gone",)


def test_what_is_ignored_keeps_the_value_that_people_wrote() -> None:
    text = f"{BEGIN}expected:\n  a.x: 20 # why\n  b: 1\nignored: ['a.*']\n"

    update = brought_up(text, {"a.x": 5, "b": 2})

    assert update.text == text.replace("b: 1", "b: 2")
    assert (update.changed, update.remarked) == (("b",), ())


def test_what_is_still_true_keeps_its_spelling() -> None:
    told = {"cache_config.block_size": 16, "cache_config.enable_prefix_caching": True}

    assert brought_up(EDITED, told).text == EDITED


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
def test_it_finds_its_way_however_the_file_is_laid_out(before: str, after: str) -> None:
    assert brought_up(before, {"a": 1, "b": 2}).text == after


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
def test_after_it_the_replicas_keep_to_the_baseline_whatever_it_said(
    before: dict[str, Any], told: dict[str, Any]
) -> None:
    made = baseline_yaml(
        "chat", {path: builders.setting(value) for path, value in before.items()}, made_of="A", context_line="then"
    )

    update = brought_up(made, told)

    assert set(read(update.text).expected) == before.keys() | told.keys()
    assert brought_up(update.text, told).text == update.text


def test_what_vllm_derives_is_not_added_but_brought_up_where_people_pin_it() -> None:
    limit, size = "scheduler_config.max_num_batched_tokens", "scheduler_config.encoder_cache_size"
    other = "scheduler_config.max_num_encoder_input_tokens"
    told = {limit: 2048, size: 2048, other: 2048, "env.VLLM_BUILD_COMMIT": "unknown"}

    update = brought_up(f"{BEGIN}expected:\n  {limit}: 8192\n  {size}: 8192\n", told)

    assert update.text == f"{BEGIN}expected:\n  {limit}: 2048\n  {size}: 2048\n"
    assert (update.changed, update.added, update.not_told) == ((limit, size), (), ())
