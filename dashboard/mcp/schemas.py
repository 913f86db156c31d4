"""The schemas of what tools answer, made of parts of the published ones: docs/*.schema.json."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dashboard import documents

TEXT, OPTIONAL_TEXT, NUMBER, OBJECT = "text", "text or null", "number", "object"
SIMPLE: Mapping[str, Mapping[str, Any]] = {
    TEXT: {"type": "string"},
    OPTIONAL_TEXT: {"type": ["string", "null"]},
    NUMBER: {"type": "integer"},
    OBJECT: {"type": "object"},
}
FOLDER = Path(documents.__file__).parent
REFERENCE = "#/$defs/"


def result_schema(head: Mapping[str, Any], rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a result: the keys before its rows, and its rows, under one of several keys.

    A shape is one of `SIMPLE`, the place of a part in a published document (`plan/properties/causes/items`), a list
    with the shape of its entries, or shapes by key.
    """
    definitions: dict[str, Any] = {}
    shapes = {"notice": TEXT, **head, **{key: [row] for key, row in rows.items()}, "left_out": [TEXT]}
    schema = _schema_of({**shapes, "next_cursor": OPTIONAL_TEXT}, definitions)
    alternatives = [*rows] if len(rows) > 1 else []
    required = [each for each in schema["required"] if each not in alternatives]
    return {**schema, "required": required, "$defs": dict(sorted(definitions.items()))}


def defined(document: str, name: str) -> str:
    """Return the place of a definition."""
    return f"{document}/$defs/{name}"


def keys_of(place: str, *keys: str) -> dict[str, str]:
    """Return the shapes of some keys of a part, or of all of them."""
    return {key: f"{place}/properties/{key}" for key in keys or _part(place)["properties"]}


@cache
def _published(document: str) -> Mapping[str, Any]:
    schema: dict[str, Any] = json.loads((FOLDER / f"{document}.schema.json").read_text(encoding="utf-8"))
    return schema


def _part(place: str) -> Any:
    document, *steps = place.split("/")
    part: Any = _published(document)
    for step in steps:
        part = part[step]
    return part


def _schema_of(shape: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a shape; add the definitions that it refers to."""
    if isinstance(shape, Mapping):
        properties = {key: _schema_of(each, definitions) for key, each in shape.items()}
        closed = {"type": "object", "additionalProperties": False}
        return {**closed, "required": [*properties], "properties": properties}
    if isinstance(shape, list):
        return {"type": "array", "items": _schema_of(shape[0], definitions)}
    if shape in SIMPLE:
        return dict(SIMPLE[shape])
    part: dict[str, Any] = _part(shape)
    _define(part, _published(shape.partition("/")[0]).get("$defs", {}), definitions)
    return part


def _define(part: Any, every: Mapping[str, Any], definitions: dict[str, Any]) -> None:
    """Add the definitions that a part refers to, also through others."""
    if isinstance(part, dict):
        name = str(part.get("$ref", "")).removeprefix(REFERENCE)
        if name in every and name not in definitions:
            definitions[name] = every[name]
            _define(every[name], every, definitions)
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _define(each, every, definitions)
