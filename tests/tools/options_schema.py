"""docs/fleet.yaml.schema.json: the options as pydantic reads them, described by the comments of fleet.example.yaml.

In the example `#key: value`, without a blank after `#`, is an option that is not set; `# Text` is a comment. A comment
is of the option on its line, or of the one below it.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import yaml
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from yaml.nodes import CollectionNode, MappingNode, Node, SequenceNode

from dashboard.config import Options
from dashboard.config.rules import some
from dashboard.config.sources import Like
from dashboard.render.rule_markdown import headline
from dashboard.rules.catalogue import BY_ID

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "fleet.yaml.schema.json"
EXAMPLE = ROOT / "fleet.example.yaml"
INTRODUCTION = (
    "The options of the dashboard. A key that has no value is ignored. What one key alone does not show, such as two "
    "options that exclude each other, is reported by `python -m dashboard validate` only."
)
SCALARS = ["string", "number", "boolean"]  # where text is expected: YAML reads `zone: 7` as a number
# Options that several parts have: where one has no comment of its own, that of the first part describes it.
SHARED = frozenset(
    {"labels", "credentials", "authorization", "scheme", "context", "allow_exec", "token_env", "ca_file"}
)
_COMMENTED_OUT = re.compile(r"^( *)#(?=\S|  )", re.MULTILINE)
_COMMENT = re.compile(r"\s+# (.*)|\s*")
Option = tuple[str, str]  # the definition of the schema, "" for the root, and the key


class Shown(NamedTuple):
    """An option as the example shows it: its line, and its comment, empty where it has none."""

    option: Option
    line: int
    comment: str


class _Generator(GenerateJsonSchema):
    """Adds what the validators that are functions check, where a schema can say it."""

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> JsonSchemaValue:
        found = super().function_after_schema(schema)
        function = schema["function"]["function"]
        if isinstance(function, Like):
            found["pattern"] = f"^(?:{function.pattern})$"
        if function is some:
            found["minItems" if found["type"] == "array" else "minProperties"] = 1
        return found


def bare_schema() -> dict[str, Any]:
    """Return the schema without descriptions."""
    schema = Options.model_json_schema(schema_generator=_Generator)
    parts = schema.pop("$defs")
    names = {"Part": "Parameters"}
    for rule, reference in parts["Rules"]["properties"].items():
        own = reference["$ref"].rpartition("/")[2]
        parameters = parts[own]["properties"]["parameters"]["$ref"].rpartition("/")[2]
        names.setdefault(own, f"RuleOptions-{rule}" if parameters != "Part" else "RuleOptions")
        names.setdefault(parameters, f"Parameters-{rule}")
    whole = {**schema, "$defs": {names.get(name, name): part for name, part in parts.items()}}
    parts = {name: _part(part, names) for name, part in whole.pop("$defs").items()}
    parts["TargetOptions"] = {"anyOf": [{"type": "string"}, parts["TargetOptions"]]}
    return {**_part(whole, names), "$defs": parts}


def _part(part: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return a definition in our form."""
    required = part.get("required", ())
    found: dict[str, Any] = _cleaned({key: value for key, value in part.items() if key != "properties"}, names)
    if "properties" in part:
        found["properties"] = {
            key: _cleaned(value, names, is_nullable=key not in required) for key, value in part["properties"].items()
        }
    return found


def _cleaned(value: Any, names: dict[str, str], *, is_nullable: bool = False) -> Any:
    """Return a part of the schema without titles, with the types that YAML gives, and null where it is ignored."""
    if isinstance(value, list):
        return [_cleaned(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    options = [each for each in value.get("anyOf", ()) if each != {"type": "null"}]
    if len(options) == 1:
        value = {**{key: each for key, each in value.items() if key != "anyOf"}, **options[0]}
    found = {
        key: each if key in {"default", "enum"} else _cleaned(each, names)
        for key, each in value.items()
        if key not in {"title", "description", "format", "writeOnly"} and (key, each) != ("default", None)
    }
    if "$ref" in found:
        name = found["$ref"].rpartition("/")[2]
        found["$ref"] = f"#/$defs/{names.get(name, name)}"
    if value.get("format") == "date":
        found |= {"format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
    elif found.get("type") == "string" and not {"enum", "const"} & found.keys():
        found["type"] = SCALARS
    if "propertyNames" in found and "enum" in found["propertyNames"]:
        found["propertyNames"].pop("type", None)
    return _or_null(found) if is_nullable else found


def _or_null(value: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in value:
        reference = {"$ref": value.pop("$ref")}
        return {"anyOf": [reference, {"type": "null"}], **value}
    if "anyOf" in value:
        return {**value, "anyOf": [*value["anyOf"], {"type": "null"}]}
    kinds = value["type"] if isinstance(value["type"], list) else [value["type"]]
    enum = {"enum": [*value["enum"], None]} if "enum" in value else {}
    return {**value, "type": [*kinds, "null"], **enum}


def options_of(schema: dict[str, Any]) -> dict[Option, dict[str, Any]]:
    """Return every option of a schema, without those of single rules: the rules' pages have them."""
    found = {}
    for name, part in (("", schema), *schema["$defs"].items()):
        for key, value in of_object(part).get("properties", {}).items():
            if option := _option(name, key):
                found[option] = value
    return found


def _option(name: str, key: str) -> Option | None:
    """Return the option of a key; None for a rule and its parameters."""
    if name == "Rules" or name.startswith("Parameters"):
        return None
    return ("RuleOptions" if name.startswith("RuleOptions") else name, key)


def of_object(part: dict[str, Any]) -> dict[str, Any]:
    """Return the variant of a part that has keys or items, else the part."""
    return next((each for each in part.get("anyOf", ()) if {"$ref", "properties", "items"} & each.keys()), part)


def shown_options(text: str, schema: dict[str, Any]) -> list[Shown]:
    """Return the options in the text of an example, those that are commented out too."""
    written = _COMMENTED_OUT.sub(r"\1", text)
    root = cast("Node", yaml.compose(written, Loader=yaml.SafeLoader))
    return list(_shown(root, "", schema, schema, written.splitlines()))


def _shown(node: Node, name: str, part: dict[str, Any], schema: dict[str, Any], lines: list[str]) -> Iterator[Shown]:
    part = of_object(part)
    while "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        part = of_object(schema["$defs"][name])
    if isinstance(node, SequenceNode):
        for each in node.value:
            yield from _shown(each, name, part["items"], schema, lines)
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if key.value in part.get("properties", {}):
                if option := _option(name, key.value):
                    yield Shown(option, key.start_mark.line + 1, _comment(key, value, lines))
                yield from _shown(value, name, part["properties"][key.value], schema, lines)
            elif isinstance(part.get("additionalProperties"), dict):
                yield from _shown(value, name, part["additionalProperties"], schema, lines)
            elif part.get("properties"):
                raise ValueError(f"{EXAMPLE.name}:{key.start_mark.line + 1}: no option {key.value}")


def _comment(key: Node, value: Node, lines: list[str]) -> str:
    """Return the comment above an option and that on its line, as one text."""
    first = last = key.start_mark.line
    while first and re.match(r" *# \S", lines[first - 1]):
        first -= 1
    is_on_line = not isinstance(value, CollectionNode) or bool(value.flow_style)
    end = (value if is_on_line else key).end_mark
    on_line = _COMMENT.fullmatch(lines[end.line][end.column :].removeprefix("" if is_on_line else ":"))
    parts = [each.strip().removeprefix("# ") for each in lines[first:last]]
    return " ".join([*parts, *([on_line[1]] if on_line and on_line[1] else [])])


def comments(shown: list[Shown]) -> dict[Option, list[Shown]]:
    """Return where each option has a comment."""
    found = defaultdict(list)
    for each in shown:
        if each.comment:
            found[each.option].append(each)
    return dict(found)


def described_by(option: Option, documented: dict[Option, list[Shown]]) -> Option | None:
    """Return the option whose comment describes this one: itself, else the first of its name where parts share it."""
    if option in documented:
        return option
    return next((each for each in documented if each[1] == option[1]), None) if option[1] in SHARED else None


def full_schema() -> dict[str, Any]:
    """Return the schema with descriptions."""
    schema = bare_schema()
    documented = comments(shown_options(EXAMPLE.read_text(), schema))
    for name, part in (("", schema), *schema["$defs"].items()):
        for key, value in of_object(part).get("properties", {}).items():
            if name == "Rules":
                value["description"] = f"{BY_ID[key].name}: {headline(BY_ID[key])}"
            elif (option := _option(name, key)) and (found := described_by(option, documented)):
                value["description"] = documented[found][0].comment
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fleet.yaml",
        "description": INTRODUCTION,
        **schema,
    }


def schema_text() -> str:
    """Return the file as it is committed."""
    return f"{json.dumps(full_schema(), indent=2, ensure_ascii=False)}\n"
