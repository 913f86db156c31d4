"""Why bytes are no JSON, in words for people: a parser's own speak of its grammar."""

import re

_PLACE = re.compile(r" at line (\d+) column (\d+)$")
_AT_ONCE = "expected value at line 1 column 1"


def json_fault(error: ValueError) -> str:
    """Say what pydantic_core.from_json found, to stand after `It`: `ends in the middle`, `is no JSON`.

    Of what was not read to its end the place is told: `is no JSON from line 3, column 5 on`.
    """
    told = str(error)
    if told.startswith("EOF"):
        return "ends in the middle"
    if "recursion" in told:
        return "is JSON that is nested too deep"
    begun = [f" from line {line}, column {column} on" for line, column in _PLACE.findall(told) if told != _AT_ONCE]
    return f"is no JSON{''.join(begun)}"
