"""JSON is limited before objects are built, and its errors have a place."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from dashboard.errors import UnreadableError
from dashboard.vllm.reading import ANSWER_BYTES, ANSWER_NODES, json_fault, node_count, parse_json, read

CAPTURES = Path(__file__).parents[1] / "captures"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def nodes(value: Any) -> int:
    """Count each value and each name of a field."""
    if isinstance(value, list):
        return 1 + sum(map(nodes, value))
    if isinstance(value, dict):
        return 1 + sum(1 + nodes(each) for each in value.values())
    return 1


@given(JSON)
def test_more_nodes_than_the_limit_are_found_and_half_the_limit_passes(value: Any) -> None:
    there = nodes(value)
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        content = text.encode(errors="replace")
        assert node_count(content, there - 1) > there - 1
        assert node_count(content, 2 * there) <= 2 * there


@pytest.mark.parametrize("text", ['",:{[,,,,,,"', r'"\",', r'"a\\\",,,"', r'"\\",1', '"', "", ",,,"])
def test_strings_are_not_counted_as_structure(text: str) -> None:
    assert node_count(f"[{text}]".encode(), 0) <= 5


def test_every_capture_takes_less_than_a_tenth_of_its_budget() -> None:
    for file in CAPTURES.glob("*/*/*.json"):
        content = file.read_bytes()
        assert node_count(content, 0) < ANSWER_NODES / 10, file
        assert len(content) < ANSWER_BYTES / 10, file


def test_an_answer_with_too_many_nodes_is_refused() -> None:
    with pytest.raises(UnreadableError) as refused:
        read("/v1/config", b"[" + b'{"":{}},' * 20_000 + b"1]")
    assert refused.value.kind == "too_large"
    assert refused.value.detail == (
        "/v1/config answers with more than 50,000 JSON nodes; check that a vLLM server answers there"
    )


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "is cut off"),
        (b"[1,", "is cut off"),
        (b'{"a": "b', "is cut off"),
        (b"[" * 100_000, "is JSON that is nested too deep"),
        (b"hello", "is not JSON"),
        (b"{}\n{}", "is not JSON (line 2, column 1)"),
        (b'{"a":\n 1 2}', "is not JSON (line 2, column 4)"),
        (b'{"a": NaN}', "is not JSON (line 1, column 7)"),
        (b'{"a": "\xff"}', "is not JSON (line 1, column 8)"),
    ],
)
def test_an_error_of_the_parser_is_a_predicate_with_its_place(raw: bytes, why: str) -> None:
    with pytest.raises(ValueError, match="line") as raised:
        from_json(raw, allow_inf_nan=False)

    assert json_fault(raised.value) == why


@pytest.mark.parametrize(
    ("body", "kind", "sentence"),
    [
        (b"[1,2,3]", "too_large", "answers with more than 3 JSON nodes"),
        (b"[1,", "decode", "answers with something that is cut off"),
        (b"[NaN]", "decode", "answers with something that is not JSON (line 1, column 2)"),
    ],
)
def test_json_of_another_server_that_is_too_large_or_broken_is_a_sentence(
    body: bytes, kind: str, sentence: str
) -> None:
    with pytest.raises(UnreadableError) as raised:
        parse_json(body, most=3)
    assert (raised.value.kind, raised.value.detail) == (kind, sentence)


def test_json_of_another_server_within_its_limit_is_parsed() -> None:
    assert parse_json(b'[1,"a"]', most=3) == [1, "a"]
