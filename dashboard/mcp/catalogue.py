"""The list of the tools, and the schemas of their arguments and results."""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from dashboard import documents
from dashboard.mcp import tools
from dashboard.mcp.results import ResultPage

Tool = Callable[..., ResultPage]  # agents read its docstring, and its parameters behind the first one as the arguments
Cursor = Annotated[str | None, Field(description="next_cursor of the last result, for the next rows.")]
DEFINITION = re.compile(r'"#/\$defs/(\w+)"')
# Where the definitions are that parts of documents refer to. A name means the same in all of them, but for Pool and
# Suppression, which tools have of the findings.
DEFINING = ("fleet", "events", "findings")


@cache
def _published(document: str) -> Any:
    return json.loads(Path(documents.__file__).with_name(f"{document}.schema.json").read_text(encoding="utf-8"))


TOOLS: Mapping[str, Tool] = {name: getattr(tools, name) for name in _published("tools")["$defs"]}


@cache
def arguments_of(tool: Tool) -> type[BaseModel]:
    fields: dict[str, Any] = {
        each.name: (each.annotation, ... if each.default is Parameter.empty else each.default)
        for each in [*signature(tool).parameters.values()][1:]
    }
    return create_model(tool.__name__, __config__=ConfigDict(extra="forbid"), **fields, cursor=(Cursor, None))


def result_schema(name: str) -> dict[str, Any]:
    """Return the schema of what a tool answers, with all that it refers to in it."""
    schema = _with_parts(_published("tools")["$defs"][name])
    every = {key: each for document in DEFINING for key, each in _published(document)["$defs"].items()}
    found: dict[str, Any] = {}
    waiting = [schema]
    while waiting:
        for key in DEFINITION.findall(json.dumps(waiting.pop())):
            if key not in found:
                found[key] = every[key]
                waiting.append(every[key])
    return {**schema, "$defs": found}


def _with_parts(schema: Any) -> Any:
    """Return a schema with the parts of documents in place of references such as `fleet.schema.json#/$defs/Pool`."""
    if isinstance(schema, list):
        return [_with_parts(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" not in schema:
        return {key: _with_parts(each) for key, each in schema.items()}
    file, _, place = schema["$ref"].partition("#/")
    part = _published(file.removesuffix(".schema.json"))
    for step in place.split("/"):
        part = part[step]
    return part
