"""Why bytes are no JSON is told in words of people, not of a parser."""

import pytest
from pydantic_core import from_json

from dashboard.vllm.reading import json_fault


@pytest.mark.parametrize(
    ("raw", "told"),
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
def test_what_is_wrong_is_said_and_from_where_on(raw: bytes, told: str) -> None:
    with pytest.raises(ValueError, match="line") as raised:
        from_json(raw, allow_inf_nan=False)

    assert json_fault(raised.value) == told
