"""The schemas of what tools answer: parts of the published ones, docs/*.schema.json."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from dashboard import documents

FOLDER = Path(documents.__file__).parent
TEXT = {"type": "string"}
REFERENCE = "#/$defs/"


class PublishedSchema(NamedTuple):
    """A schema whose references are to definitions of a published document, such as `findings`."""

    document: str
    schema: Mapping[str, Any]

    @classmethod
    def key(cls, document: str, name: str) -> "PublishedSchema":
        """Return the schema of a key of the document."""
        return cls(document, published(document)["properties"][name])

    @classmethod
    def definition(cls, document: str, name: str, **more: Mapping[str, Any]) -> "PublishedSchema":
        """Return the schema of an object that the document defines; with `more` keys."""
        if not more:
            return cls(document, {"$ref": f"{REFERENCE}{name}"})
        known = published(document)["$defs"][name]["properties"]
        return cls(document, object_schema({**more, **known}))

    @classmethod
    def some_of(cls, document: str, name: str, keys: Iterable[str], **more: Mapping[str, Any]) -> "PublishedSchema":
        """Return the schema of some keys of an object that the document defines, and of `more`."""
        known = published(document)["$defs"][name]["properties"]
        return cls(document, object_schema({**{each: known[each] for each in keys}, **more}))


@cache
def published(document: str) -> Mapping[str, Any]:
    schema: dict[str, Any] = json.loads((FOLDER / f"{document}.schema.json").read_text(encoding="utf-8"))
    return schema


def result_schema(head: Mapping[str, PublishedSchema], rows: Mapping[str, PublishedSchema]) -> dict[str, Any]:
    """Return the schema of a result: the keys before its rows, and its rows, under one of several keys."""
    known = {key: part.schema for key, part in head.items()}
    listed = {key: {"type": "array", "items": part.schema} for key, part in rows.items()}
    definitions: dict[str, Any] = {}
    for part in (*head.values(), *rows.values()):
        definitions |= _definitions(part)
    schema = object_schema(
        {"notice": TEXT, **known, **listed, "left_out": {"type": "array", "items": TEXT}, "next_cursor": _OPTIONAL_TEXT}
    )
    alternatives = [*listed] if len(listed) > 1 else []
    required = [each for each in schema["required"] if each not in alternatives]
    return {**schema, "required": required, "$defs": dict(sorted(definitions.items()))}


_OPTIONAL_TEXT = {"type": ["string", "null"]}


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these keys."""
    return {"type": "object", "additionalProperties": False, "required": [*properties], "properties": properties}


def _definitions(part: PublishedSchema) -> dict[str, Any]:
    """Return the definitions that a part refers to, also through others."""
    every = published(part.document).get("$defs", {})
    found: dict[str, Any] = {}
    pending: list[Any] = [part.schema]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            name = str(each.get("$ref", "")).removeprefix(REFERENCE)
            if name in every and name not in found:
                found[name] = every[name]
                pending.append(every[name])
            pending += each.values()
        elif isinstance(each, list):
            pending += each
    return found
