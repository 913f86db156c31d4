"""Why bytes are no JSON is told in words of people, not of a parser."""

import pytest
from pydantic_core import from_json

from dashboard.vllm.json_faults import json_fault


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "ends in the middle"),
        (b"[1,", "ends in the middle"),
        (b'{"a": "b', "ends in the middle"),
        (b"[" * 100_000, "is JSON that is nested too deep"),
        (b"hello", "is no JSON"),
        (b"{}\n{}", "is no JSON from line 2, column 1 on"),
        (b'{"a":\n 1 2}', "is no JSON from line 2, column 4 on"),
        (b'{"a": NaN}', "is no JSON from line 1, column 7 on"),
        (b'{"a": "\xff"}', "is no JSON from line 1, column 8 on"),
    ],
)
def test_what_is_wrong_is_said_and_from_where_on(raw: bytes, told: str) -> None:
    with pytest.raises(ValueError, match="line") as raised:
        from_json(raw, allow_inf_nan=False)

    assert json_fault(raised.value) == told
