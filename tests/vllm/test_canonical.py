"""The normal form: one spelling for one value, and the state that it stands in."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given

from dashboard.errors import UnreadableError
from dashboard.fleet import Source, State
from dashboard.vllm import canonical
from dashboard.vllm.canonical import FILLED_IN_LATER, SETS, canonical_text, setting, shared, tidy
from dashboard.vllm.versions import is_unsupported
from tests.strategies import json_values

FROM = Source.SERVER_INFO


def told(value: Any, path: str = "cache_config.x") -> tuple[str, State]:
    read = setting(path, value, FROM)
    return read.value, read.state


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("torch.bfloat16", '"bfloat16"'),
        ("bfloat16", '"bfloat16"'),
        (64.0, "64"),
        (64, "64"),
        (-0.0, "0"),
        (0.92, "0.92"),
        (True, "true"),
        (1, "1"),
        ("1", '"1"'),
        ({"b": 1, "a": [1.0, None]}, '{"a":[1,null],"b":1}'),
        ("ü – ×", '"ü – ×"'),
        ([], "[]"),
        ("x" * 300, '"' + "x" * 300 + '"'),
        (2**64, str(2**64)),
        ("partial(<function override at 0x7f1319a9ede0>, a=1)", '"partial(<function override at 0x...>, a=1)"'),
        ({"a": ["<A object at 0xFF>"]}, '{"a":["<A object at 0x...>"]}'),
        ("block at 0x10 of 2", '"block at 0x10 of 2"'),
    ],
)
def test_a_value_has_one_spelling(value: Any, text: str) -> None:
    assert told(value) == (text, State.REPORTED)


@pytest.mark.parametrize("path", sorted(SETS))
def test_a_list_that_is_a_set_is_sorted(path: str) -> None:
    assert told(["b", "a"], path) == ('["a","b"]', State.REPORTED)


def test_null_is_a_value_but_for_what_the_engine_fills_in_later() -> None:
    assert told(None) == ("null", State.NULL)
    assert {told(None, path)[1] for path in FILLED_IN_LATER} == {State.UNKNOWN}
    assert told(16, "cache_config.hash_block_size") == ("16", State.REPORTED)


def test_what_holds_a_marker_is_redacted() -> None:
    assert told("[redacted]")[1] is State.REDACTED
    assert told(["a", "redis://[redacted]@b"])[1] is State.REDACTED


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")], {"a": [float("nan")]}])
def test_a_number_that_is_not_finite_is_refused(value: Any) -> None:
    with pytest.raises(UnreadableError, match="holds a number that is not finite") as caught:
        setting("cache_config.x", value, FROM)

    assert caught.value.kind == "schema"


@pytest.mark.parametrize("value", [2**64 + 1, 2**70, -(2**70), 1e30, [2**70]])
def test_a_number_that_no_server_can_mean_is_refused(value: Any) -> None:
    with pytest.raises(UnreadableError, match=r"holds a number beyond 2\^64"):
        setting("cache_config.x", value, FROM)


def test_equal_settings_are_one_object_and_one_mapping() -> None:
    first, second = setting("a", "b", FROM), setting("a", "b", FROM)

    assert first is second
    assert shared({"a": first}) is shared({"a": second})


@given(json_values)
def test_tidying_a_tidy_value_changes_nothing_and_the_text_reads_back(value: Any) -> None:
    try:
        once = tidy("a", value)
    except UnreadableError:
        return
    assert json.loads(canonical_text(once)) == once
    if "torch." not in canonical_text(once):
        assert tidy("a", once) == once


@pytest.mark.parametrize("longest", [200, 400])
def test_what_replicas_send_takes_a_bounded_memory_once_it_is_gone(longest: int) -> None:
    """Each setting is new, and as long as a path or value may be that is remembered, or longer."""
    tracemalloc.start()
    try:
        for number in range(20_000):
            name = f"{number:05}".ljust(longest, "\N{GRINNING FACE}")
            setting(name, name, FROM)
            is_unsupported("0.32.0", name)
            is_unsupported(f"0.32.{name}", "cache_config.block_size")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        canonical._cached.cache_clear()

    assert held < 40 * 2**20
