"""Paths of settings: from sections to paths."""

from typing import Any

import pytest

from vllm_fleet_provider.shared.paths import MAX_PATH, OBJECTS, flatten, refuse_overlaps


def test_an_empty_section_and_a_free_form_option_are_values() -> None:
    config = {"cache_config": {}, "additional_config": {"a": {"b": 1}}}

    assert "additional_config" in OBJECTS
    assert flatten(config) == config


@pytest.mark.parametrize(
    "flat",
    [
        {"a": 1, "a.b": 2},
        {"a.b": 2, "a": 1},
        {"a": {}, "a.b": 2},
        {"a.b": 1, "a.b.c.d": 2},
        {"a.b.c.d": 1, "a.b": 2},
    ],
)
def test_a_path_below_a_value_is_refused(flat: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="has a value and settings below it"):
        refuse_overlaps(flat)


def test_a_path_of_dots_is_refused() -> None:
    with pytest.raises(ValueError, match=f"more than {MAX_PATH} characters"):
        refuse_overlaps({"." * 100_000: 1})


def test_values_below_a_too_long_path_are_not_flattened() -> None:
    long = "x" * (MAX_PATH + 1)

    assert flatten({long: {"a": 1, "b": 2}}) == {long: {"a": 1, "b": 2}}
