"""The normal form of values, and caches of equal settings."""

import gc
import json
import tracemalloc
import weakref
from typing import Any

import pytest
from hypothesis import given

from dashboard.errors import UnreadableError
from dashboard.fleet import Source, State
from dashboard.vllm import canonical
from dashboard.vllm.canonical import FILLED_IN_LATER, RecentResults, setting, shared
from dashboard.vllm.fields import read_config
from dashboard.vllm.versions import is_unsupported
from tests.strategies import json_values
from vllm_fleet_provider.shared.paths import flatten
from vllm_fleet_provider.shared.spelling import SETS, canonical_text, tidy

FROM = Source.SERVER_INFO


def normal(value: Any, path: str = "cache_config.x") -> tuple[str, State]:
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
    assert normal(value) == (text, State.REPORTED)


@pytest.mark.parametrize("path", sorted(SETS))
def test_a_set_is_sorted(path: str) -> None:
    assert normal(["b", "a"], path) == ('["a","b"]', State.REPORTED)


@pytest.mark.parametrize(
    ("path", "value", "state"),
    [
        ("cache_config.x", None, State.NULL),
        *((path, None, State.UNKNOWN) for path in sorted(FILLED_IN_LATER)),
        ("cache_config.hash_block_size", 16, State.REPORTED),
        ("cache_config.x", "[redacted]", State.REDACTED),
        ("cache_config.x", ["a", "redis://[redacted]@b"], State.REDACTED),
    ],
)
def test_a_null_that_the_engine_sets_later_is_unknown(path: str, value: Any, state: State) -> None:
    assert normal(value, path)[1] is state


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "that is not finite"),
        ([float("-inf")], "that is not finite"),
        ({"a": [float("inf")]}, "that is not finite"),
        *((value, r"beyond 2\^64") for value in (2**64 + 1, 2**70, -(2**70), 1e30, [2**70])),
    ],
)
def test_an_impossible_number_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(UnreadableError, match=f"holds a number {reason}") as caught:
        setting("cache_config.x", value, FROM)

    assert caught.value.kind == "schema"


def test_equal_settings_are_one_object_and_one_mapping() -> None:
    first, second = setting("a", "b", FROM), setting("a", "b", FROM)

    assert first is second
    assert shared({"a": first}) is shared({"a": second})


@given(json_values)
def test_the_normal_form_is_stable_and_reads_back(value: Any) -> None:
    try:
        once = tidy("a", value)
    except ValueError:
        return
    assert json.loads(canonical_text(once)) == once
    if "torch." not in canonical_text(once):
        assert tidy("a", once) == once


@pytest.mark.parametrize("longest", [200, 400])
def test_caches_of_foreign_text_are_bounded(longest: int) -> None:
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


def test_a_result_is_cached_until_a_poll_does_not_use_it() -> None:
    known: RecentResults[object] = RecentResults()
    first = known.get("a", object)
    assert known.get("a", object) is first
    canonical.forget_unused()
    assert known.get("a", object) is first
    canonical.forget_unused()
    canonical.forget_unused()
    assert known.get("a", object) is not first


def test_the_number_of_cached_results_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "MOST", 2)
    known: RecentResults[object] = RecentResults()
    first = known.get(0, object)
    for number in range(1, 6):
        known.get(number, object)
    assert known.get(0, object) is not first


def test_a_shared_configuration_is_freed_with_its_last_reply() -> None:
    config = {"model_config": {"dtype": "x", "nonce": 12345}}
    settings, _ = read_config(flatten(config), {}, Source.SERVER_INFO)
    same, _ = read_config(flatten(config), {}, Source.SERVER_INFO)
    assert same is settings
    assert isinstance(settings, canonical.Settings)
    gone = weakref.ref(settings)
    del settings, same
    gc.collect()
    assert gone() is None
