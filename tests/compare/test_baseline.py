"""The settings of one replica compared with the baseline of its pool."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare.baseline import (
    agreed_paths,
    agreed_settings,
    deviations,
    is_expected,
    is_ignored,
    usual_values,
)
from dashboard.compare.encoding import lookup_value
from dashboard.fleet import Baseline, Setting, SettingValue, State, Tolerance
from tests.compare.pools import PATHS, VALUES, setting

BLOCK = "cache_config.block_size"
NOT_SET, ONE, TWO = SettingValue("null", State.NULL), *(SettingValue(text, State.REPORTED) for text in "12")
RANGE = Tolerance((), 0.9, 0.95)


def settings(values: Mapping[str, Any]) -> dict[str, Setting]:
    return {path: setting(value) for path, value in values.items()}


def baseline(expected: Mapping[str, str] | None = None, **more: Any) -> Baseline:
    return Baseline("chat", "chat", expected or {}, **more)


def test_a_deviation_has_the_reported_and_the_nearest_allowed_value_and_the_comment() -> None:
    agreed = baseline({"a": "16"}, tolerated={"b": RANGE}, comments={"a": "why"})
    first, second = deviations(agreed, settings({"a": 32, "b": 1}))

    assert (first.path, first.own.value, first.agreed.value) == ("a", "32", "16")
    assert (first.tolerance, first.comment, first.allowed_text) == (None, "why", "16")
    assert (second.agreed.value, second.tolerance, second.allowed_text) == ("0.95", RANGE, "0.9 to 0.95")


def test_settings_that_decide_block_hashes_are_first_then_the_order_of_the_file() -> None:
    agreed = baseline({"z": "0", "a": "0", BLOCK: "16", "version": '"0.32.0"'})
    found = deviations(agreed, settings({"z": 1, "a": 1, BLOCK: 32, "version": "0.33.0"}))

    assert [each.path for each in found] == [BLOCK, "version", "z", "a"]


@pytest.mark.parametrize(
    ("expected", "reported", "deviating"),
    [
        ({"a": "null"}, {"a": None}, {}),
        ({"a": "1"}, {"a": None}, {"a": (NOT_SET, ONE)}),
        ({"a": "null"}, {"a": 1}, {"a": (ONE, NOT_SET)}),
        ({"a": "null"}, {"a": State.UNKNOWN}, {}),
        ({"a": "1"}, {"a": State.REDACTED}, {}),
        ({"a": "1"}, {}, {}),
        ({"cache_config.hash_block_size": "16"}, {"cache_config.hash_block_size": None}, {}),
        ({"lora.max": "null", "lora.rank": "1"}, {"lora": None}, {"lora.rank": (NOT_SET, ONE)}),
    ],
)
def test_null_is_a_value_and_an_unreported_setting_never_deviates(
    expected: Mapping[str, str],
    reported: Mapping[str, Any],
    deviating: Mapping[str, tuple[SettingValue, SettingValue]],
) -> None:
    found = deviations(baseline(expected), settings(reported))

    assert {each.path: (each.own, each.agreed) for each in found} == deviating


def test_every_setting_of_a_section_that_is_expected_to_be_null_deviates() -> None:
    agreed = baseline(
        {"lora_config": "null", "lora_config.kept": "1"}, ignored=("lora_config.odd",), comments={"lora_config": "none"}
    )
    names = {"kept": 1, "odd": 1, "rank": 8, "unset": None}
    found = deviations(agreed, settings({f"lora_config.{name}": value for name, value in names.items()}))

    assert [(each.path, each.agreed, each.comment) for each in found] == [("lora_config.rank", NOT_SET, "none")]
    assert deviations(agreed, settings({"lora_configs": 1})) == ()


def test_ignored_paths_and_paths_outside_the_baseline_are_not_compared() -> None:
    agreed = baseline({"a": '"0.90"', "b": "1", "x.y": "1"}, tolerated={"c": Tolerance(("1",))}, ignored=("x.*",))

    assert agreed_paths(agreed) == ("a", "b", "c")
    assert {path: each.value for path, each in agreed_settings(agreed).items()} == {"a": "0.9", "b": "1"}
    assert [is_expected(agreed, path, ONE) for path in ("b", "c", "d", "x.y")] == [True, True, None, None]
    assert [is_expected(agreed, path, TWO) for path in ("b", "c")] == [False, False]


def test_the_value_to_set_within_a_range_is_the_value_of_most_replicas() -> None:
    agreed = baseline(tolerated={"a": Tolerance((), 1.0, 9.0), "b": Tolerance(("1", "2"))})
    usual = usual_values(agreed, [settings({"a": value, "b": 1}) for value in (5, 5, 5, 2, 99, State.REDACTED)])

    assert usual == {"a": SettingValue("5", State.REPORTED)}
    assert usual_values(agreed, [settings({"a": value}) for value in (5, 2)]) == {}
    assert deviations(agreed, settings({"a": 99}), usual)[0].wanted == usual["a"]
    assert deviations(agreed, settings({"a": 99}))[0].wanted == SettingValue("9", State.REPORTED)


@given(
    st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["null", "1", "2", '"x"'])),
    st.dictionaries(st.sampled_from(PATHS), st.sampled_from(VALUES[1:])),
    st.lists(st.sampled_from(PATHS), max_size=2),
)
def test_each_reported_value_that_is_not_expected_deviates_exactly_once(
    expected: dict[str, str], values: dict[str, Any], ignored: list[str]
) -> None:
    agreed = baseline(expected, ignored=tuple(ignored))
    reported = settings(values)
    paths = [each.path for each in deviations(agreed, reported)]

    assert len(set(paths)) == len(paths)
    assert not any(is_ignored(agreed, path) for path in paths)
    for path in agreed_paths(agreed):
        value = lookup_value(reported, path)
        assert (path in paths) == (value is not None and is_expected(agreed, path, value) is False)


MODEL, REVISION, KV_DTYPE = "model_config.model", "model_config.revision", "cache_config.cache_dtype"
HUB = {MODEL: "org/llama", REVISION: "abc"}


@pytest.mark.parametrize(
    ("expected", "own", "deviating"),
    [
        ({REVISION: '"abc"'}, {MODEL: "org/llama", "model_snapshot": "abc", REVISION: None}, []),
        ({REVISION: '"abc"'}, {MODEL: "org/llama", "model_snapshot": "def", REVISION: None}, [REVISION]),
        ({REVISION: '"abc"'}, {MODEL: "llama", REVISION: None}, []),  # a folder has no revision
        ({REVISION: '"abc"'}, {MODEL: "org/llama", REVISION: None}, [REVISION]),
        ({REVISION: "null"}, {MODEL: "org/llama", REVISION: "main"}, []),
        ({MODEL: '"/mnt/a/llama"'}, HUB, []),
        ({MODEL: '"org/other"'}, HUB, [MODEL]),
        ({KV_DTYPE: '"bfloat16"'}, {KV_DTYPE: "auto", "model_config.dtype": "bfloat16"}, []),
        ({KV_DTYPE: '"auto"'}, {KV_DTYPE: "bfloat16", "model_config.dtype": "bfloat16"}, []),
        ({KV_DTYPE: '"fp8"'}, {KV_DTYPE: "auto", "model_config.dtype": "bfloat16"}, [KV_DTYPE]),
    ],
)
def test_values_that_mean_the_same_do_not_deviate(
    expected: Mapping[str, str], own: Mapping[str, Any], deviating: list[str]
) -> None:
    assert [each.path for each in deviations(baseline(expected), settings(own))] == deviating
