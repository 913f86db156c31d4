"""The shape of the published JSON schemas: what a document must satisfy, without the names and words that describe it.

`python -m tests.tools.schema_shape` writes the shapes again. A changed shape breaks programs.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SHAPES = ROOT / "tests" / "golden" / "schema_shapes.json"
SCHEMAS = ("changes", "events", "findings", "fleet", "report")
WORDS = frozenset({"$defs", "description", "mapping", "title"})
UNORDERED = frozenset({"anyOf", "enum", "oneOf", "required"})


def shapes() -> dict[str, Any]:
    """Return the shapes of the published schemas, by name."""
    schemas = {name: json.loads((ROOT / "docs" / f"{name}.schema.json").read_text()) for name in SCHEMAS}
    return {name: _shape(schema, schema["$defs"], ()) for name, schema in schemas.items()}


def _shape(node: Any, definitions: dict[str, Any], inside: tuple[str, ...]) -> Any:
    """Return a schema with definitions in place of references; a recursive one says how many definitions up it is."""
    if isinstance(node, list):
        return [_shape(each, definitions, inside) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name in inside:
            return {"levels up": len(inside) - inside.index(name)}
        whole = {**definitions[name], **{key: each for key, each in node.items() if key != "$ref"}}
        return _shape(whole, definitions, (*inside, name))
    found = {key: _shape(each, definitions, inside) for key, each in node.items() if key not in WORDS}
    if "properties" in node:
        found["properties"] = {name: _shape(each, definitions, inside) for name, each in node["properties"].items()}
    return {key: _sorted(value) if key in UNORDERED else value for key, value in found.items()}


def _sorted(items: list[Any]) -> list[Any]:
    return sorted(items, key=lambda each: json.dumps(each, sort_keys=True))


if __name__ == "__main__":
    SHAPES.write_text(json.dumps(shapes(), indent=1, sort_keys=True) + "\n")
