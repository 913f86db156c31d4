"""Nodes are counted before objects are built, whatever stands in strings."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.errors import UnreadableError
from dashboard.vllm.reading import ANSWER, node_count, read

CAPTURES = Path(__file__).parents[1] / "captures"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def nodes(value: Any) -> int:
    """Count as a reader would: each value, and each name of a field."""
    if isinstance(value, list):
        return 1 + sum(map(nodes, value))
    if isinstance(value, dict):
        return 1 + sum(1 + nodes(each) for each in value.values())
    return 1


@given(JSON)
def test_more_nodes_than_the_limit_are_seen_and_half_the_limit_always_passes(value: Any) -> None:
    there = nodes(value)
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        content = text.encode(errors="replace")
        assert node_count(content, there - 1) > there - 1
        assert node_count(content, 2 * there) <= 2 * there


@pytest.mark.parametrize("text", ['",:{[,,,,,,"', r'"\",', r'"a\\\",,,"', r'"\\",1', '"', "", ",,,"])
def test_what_is_in_strings_is_no_structure(text: str) -> None:
    assert node_count(f"[{text}]".encode(), 0) <= 5


def test_every_recorded_answer_has_a_tenth_of_its_budget() -> None:
    for file in CAPTURES.glob("*/*/*.json"):
        content = file.read_bytes()
        assert node_count(content, 0) < ANSWER.max_nodes / 10, file
        assert len(content) < ANSWER.max_bytes / 10, file


def test_an_answer_of_too_many_nodes_is_refused_with_path_number_and_what_to_do() -> None:
    with pytest.raises(UnreadableError) as refused:
        read("/v1/config", b"[" + b'{"":{}},' * 20_000 + b"1]")
    assert refused.value.kind == "too_large"
    assert refused.value.detail == (
        "/v1/config answers with more than 50,000 JSON nodes; check that a vLLM server answers there"
    )
