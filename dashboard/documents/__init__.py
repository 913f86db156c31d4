"""The published JSON documents: docs/*.schema.json says which keys each has.

Documents are written by functions that return plain objects. Only that of a fleet is read again.
"""

import json
from collections.abc import Iterable
from typing import Any

from pydantic_core import to_json

from dashboard.fleet import SettingValue, ValueCount
from dashboard.fleet.formatting import safe_json


def write_json(document: Any, indent: int | None = None) -> bytes:
    """Return a document as JSON that is safe in a log; a number that is not finite is null."""
    return safe_json(to_json(document, indent=indent, inf_nan_mode="null"))


def native(text: str) -> Any:
    """Return canonical JSON text as native JSON; a missing value has no text and is null."""
    return json.loads(text) if text else None


def as_float(number: float | None) -> float | None:
    """Return a number as it is read again: 512 is 512.0, so that equal fleets are equal bytes."""
    return None if number is None else float(number)


def pick(value: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def value_object(value: SettingValue | ValueCount) -> dict[str, Any]:
    """Return a value of a setting as native JSON, and its state."""
    return {"value": native(value.value), "state": value.state}
