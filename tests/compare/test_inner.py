"""What differs inside two long values."""

import json
from typing import Any

import pytest

from dashboard.compare.inner import inner_difference


@pytest.mark.parametrize(
    ("reference", "value", "expected"),
    [
        pytest.param([1, 2, 4], [1, 4, 8], "without 2; adds 8", id="items"),
        pytest.param(list(range(7)), [0], "without 1, 2, 3, 4 and 2 more", id="many items are counted"),
        pytest.param([1, 2], [2, 1], "different order", id="the order alone"),
        pytest.param([1, 1], [1], "without 1", id="an item that is there less often"),
        pytest.param({"role": "both", "port": 1}, {"role": "producer", "port": 1}, "role: producer (both)", id="a key"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b: 2 (1)", id="a nested key"),
        pytest.param({"a": [1], "b": [1]}, {"a": [1, 2], "b": [1]}, "a: adds 2", id="a list in an object"),
        pytest.param({"a": 1}, {"b": 2}, "without a and adds b: 2", id="keys of one side"),
        pytest.param({"a": 1}, [1], "", id="different kinds"),
        pytest.param(16, 32, "", id="numbers"),
        pytest.param([1], [1], "", id="equal"),
        pytest.param([8192], [2048], "", id="nothing in common"),
    ],
)
def test_only_what_differs_inside_is_named(reference: Any, value: Any, expected: str) -> None:
    assert inner_difference(json.dumps(reference), json.dumps(value)) == expected
