"""Paths of settings: from sections to paths and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captured import SERVER_INFO, Capture, captures
from vllm_fleet_provider.shared.paths import MAX_PATH, OBJECTS, leaves, nested

names = st.sampled_from(["cache_config", "block_size", "additional_config", "a", "b"])
values: st.SearchStrategy[Any] = st.one_of(st.none(), st.integers(), st.just([]), st.just({}), st.just("x"))
configurations = st.dictionaries(
    names, st.recursive(values, lambda inner: st.dictionaries(names, inner, min_size=1, max_size=3)), max_size=4
)


@pytest.mark.parametrize("server", captures())
def test_paths_of_every_captured_configuration_are_reversible(server: Capture) -> None:
    config = server.json(SERVER_INFO)["vllm_config"]

    assert dict(leaves(nested(dict(leaves(config))))) == dict(leaves(config))


@given(configurations)
def test_paths_are_reversible(config: dict[str, Any]) -> None:
    assert nested(dict(leaves(config))) == config


def test_an_empty_section_and_a_free_form_option_are_values() -> None:
    config = {"cache_config": {}, "additional_config": {"a": {"b": 1}}}

    assert "additional_config" in OBJECTS
    assert dict(leaves(config)) == config


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
        nested(flat)
    assert flat.get("a") in (None, 1, {})


def test_a_path_of_dots_is_refused() -> None:
    with pytest.raises(ValueError, match=f"more than {MAX_PATH} characters"):
        nested({"." * 100_000: 1})


def test_values_below_a_too_long_path_are_not_flattened() -> None:
    long = "x" * (MAX_PATH + 1)

    assert list(leaves({long: {"a": 1, "b": 2}})) == [(long, {"a": 1, "b": 2})]
