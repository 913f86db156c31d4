"""The description of the configuration API that is generated from its schema: OpenAPI, and tables of fields."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from vllm_fleet_provider.groups import MOSTLY_NULL
from vllm_fleet_provider.shared.inference_config import SCHEMA_VERSION, InferenceConfigReply

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "config-api.md"
OPENAPI = DOCS / "config-api.openapi.json"
FIELDS = ("<!-- fields: written by make docs -->", "<!-- end of fields -->")
EXAMPLE = ("<!-- example: written by make docs -->", "<!-- end of example -->")
LIVE = Path(__file__).parents[1] / "provider" / "answers" / "0.33.0" / "llama_dp2_xxhash.json"
PATHS = ("/inference/v1/config", "/v1/config")
TYPES = {"integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "object"}
# The kinds of groups, each with what it adds; `Group`'s own fields stand in all of them.
GROUPS = (
    "FullAttentionGroup",
    "MLAAttentionGroup",
    "SinkFullAttentionGroup",
    "SlidingWindowGroup",
    "ChunkedLocalAttentionGroup",
    "CrossAttentionGroup",
    "MambaGroup",
    "OtherGroup",
)
KEEPING_ALL = GROUPS[:3]  # the kinds in which the provider writes MOSTLY_NULL (kv_cache_groups.KeepsAllGroup)
VECTOR_LENGTHS = (16, 64, 128)
VECTOR = r"^\| `(\w+)` \| (?:not set|`(\w+)`) " + r"\| `(\w{16})` " * len(VECTOR_LENGTHS) + r"\|$"
ABOUT = (
    "What the provider of this project answers. It writes every required property, as null where it could not be had. "
    "Bounds such as maxLength are what this project's reader takes at most, not what a server gives. "
    "A minor version of fleet adds fields: ignore what you do not know."
)
HEADERS = {
    "ETag": {
        "description": "Changes with the answer; another rank, or full, has another. Absent if adapters are unknown.",
        "schema": {"type": "string"},
    },
    "Cache-Control": {
        "description": "Keep it, and ask each time whether it holds.",
        "schema": {"type": "string", "const": "no-cache"},
    },
}
SENTENCE = {"type": "string", "description": "What is wrong, for people."}
STATUS = {"type": "integer", "description": "The status again."}
ERRORS = {
    "400": ("Error", "A parameter that cannot be answered; the body says why."),
    "401": ("Unauthorized", "vLLM has an API key, and it was not given."),
    "404": ("NotServed", "The provider is not installed, or not named in VLLM_PLUGINS."),
    "405": ("NotServed", "Another method than GET: HEAD and OPTIONS too."),
    "500": ("Error", "The answer could not be put together; the server's log says why."),
    "503": ("Error", "The engines have not answered yet, or there are none; the body says which."),
}


def openapi() -> dict[str, Any]:
    """Return the API as OpenAPI 3.1."""
    schema = _schema()
    components = schema.pop("$defs") | {"InferenceConfigResponse": schema} | _error_bodies()
    return {
        "openapi": "3.1.0",
        "info": {"title": "vLLM configuration API", "version": SCHEMA_VERSION, "description": ABOUT},
        "paths": {path: {"get": _operation(path)} for path in PATHS},
        "components": {
            "schemas": components,
            "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer"}},
        },
    }


def openapi_text() -> str:
    """Return it as it is committed."""
    return json.dumps(openapi(), indent=1, sort_keys=True) + "\n"


def page_text(page: str) -> str:
    """Return a page with its example and its tables of fields between their marks replaced."""
    return _between(_between(page, EXAMPLE, _example()), FIELDS, _tables())


class Vector(NamedTuple):
    """One row of the page's table of fingerprints: digests by tokens of a block; without a seed, the default one."""

    algorithm: str
    seed: str | None
    digests: dict[int, str]


def vectors(page: str) -> list[Vector]:
    """Return the fingerprints that the page gives."""
    rows = re.findall(VECTOR, page, re.MULTILINE)
    return [
        Vector(algorithm, seed or None, dict(zip(VECTOR_LENGTHS, digests, strict=True)))
        for algorithm, seed, *digests in rows
    ]


def _between(page: str, marks: tuple[str, str], text: str) -> str:
    begin, end = marks
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{text}\n{end}{rest.partition(end)[2]}"


def _example() -> str:
    """Return the captured answer, without the settings: these are some hundred lines more."""
    answer = json.loads(LIVE.read_text())
    answer["fleet"] |= {"settings": None, "environment": None}
    return f"```json\n{_compact(answer)}\n```\n"


def _compact(value: Any, indent: str = "", width: int = 116) -> str:
    """Write JSON with what fits on one line there."""
    line = json.dumps(value)
    if len(indent) + len(line) <= width or not isinstance(value, dict | list) or not value:
        return line
    inner = f"{indent}  "
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_compact(item, inner, width - len(key) - 4)}" for key, item in value.items()]
    else:
        items = [_compact(item, inner, width) for item in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    body = ",\n".join(f"{inner}{item}" for item in items)
    return f"{begin}\n{body}\n{indent}{end}"


def _schema() -> dict[str, Any]:
    schema = InferenceConfigReply.model_json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    # A kind that is not known has any name, so that more than one branch may fit.
    answer: dict[str, Any] = json.loads(json.dumps(schema).replace('"oneOf"', '"anyOf"'))
    for name, model in {**answer["$defs"], "InferenceConfigReply": answer}.items():
        model["required"] = _always_there(name, model["properties"])
        for field in model["required"]:
            model["properties"][field].pop("default", None)
    return answer


def _always_there(name: str, properties: dict[str, Any]) -> list[str]:
    """Return the fields that the provider always writes: all, but in a KV cache group those that its kind lacks."""
    return [
        field
        for field, value in properties.items()
        if name not in GROUPS or not _is_nullable(value) or (field in MOSTLY_NULL and name in KEEPING_ALL)
    ]


def _is_nullable(property_: dict[str, Any]) -> bool:
    return {"type": "null"} in property_.get("anyOf", ())


def _operation(path: str) -> dict[str, Any]:
    return {
        "operationId": path.strip("/").replace("/", "_"),
        "summary": "The configuration of this server, for one data-parallel rank.",
        "parameters": [
            _parameter("data_parallel_rank", {"type": "integer", "minimum": 0}, "The rank; by default the first one."),
            _parameter("full", {"type": "boolean", "default": False}, "Include all settings; 1 and 0 work, too."),
            {
                "name": "If-None-Match",
                "in": "header",
                "required": False,
                "schema": {"type": "string"},
                "description": "An ETag: 304 while it holds.",
            },
        ],
        "security": [{}, {"apiKey": []}],
        "responses": {
            "200": {
                "description": "The configuration.",
                "headers": HEADERS,
                "content": _content("InferenceConfigResponse"),
            },
            "304": {"description": "Nothing changed.", "headers": HEADERS},
            **{status: {"description": text, "content": _content(body)} for status, (body, text) in ERRORS.items()},
        },
    }


def _content(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _error_bodies() -> dict[str, Any]:
    """Return the bodies that are no configuration: the provider's own, vLLM's, and its web framework's."""
    return {
        "Error": _object(error={**_object(message=SENTENCE, code=STATUS), "description": "The whole body."}),
        "Unauthorized": _object(error=SENTENCE),
        "NotServed": _object(detail=SENTENCE),
    }


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _parameter(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


def _tables() -> str:
    schema = _schema()
    models: dict[str, Any] = schema["$defs"]
    groups = {name: models[name] for name in GROUPS}
    shared = set.intersection(*(set(group["properties"]) for group in groups.values()))
    parts = [_table("The answer", schema, models)]
    for name, property_ in schema["properties"].items():
        if reference := _reference(property_):
            parts.append(_table(f"`{name}`", models[reference], models))
        elif name == "devices":
            parts.append(_table("`devices[]`", models["DeviceReply"], models))
    parts.append(_table("Every KV cache group", _only(groups["OtherGroup"], shared), models))
    for name, group in groups.items():
        kinds = "any other name" if name == "OtherGroup" else f"`{group['properties']['spec_type']['enum'][0]}`"
        parts.append(_table(f"`spec_type` {kinds} also has", _only(group, set(group["properties"]) - shared), models))
    for name, property_ in models["FleetExtension"]["properties"].items():
        if reference := _reference(property_.get("items", property_)):
            many = "[]" if "items" in property_ else ""
            parts.append(_table(f"`fleet.{name}{many}`", models[reference], models))
    parts.append(_table("`fleet.engines[].devices[]`", models["EngineDevice"], models))
    parts.append(_table("`fleet.engines[].fingerprint`", models["Fingerprint"], models))
    return "\n".join(parts)


def _only(model: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {**model, "properties": {name: value for name, value in model["properties"].items() if name in names}}


def _table(title: str, model: dict[str, Any], models: dict[str, Any]) -> str:
    rows = [
        f"| `{name}` | {_type(value)} | {value.get('description') or _summary(value, models)} |"
        for name, value in model["properties"].items()
    ]
    return "\n".join([f"**{title}**", "", "| field | type | what |", "| --- | --- | --- |", *rows, ""])


def _summary(property_: dict[str, Any], models: dict[str, Any]) -> str:
    reference = _reference(property_)
    return models[reference]["description"].partition("\n")[0] if reference else "The kind of the group."


def _type(property_: dict[str, Any]) -> str:
    options = [option for option in property_.get("anyOf", [property_]) if option.get("type") != "null"]
    option = options[0]
    if option.get("type") == "array" and "items" in option:
        name = f"list of {_type(option['items'])}"
    elif "$ref" in option or len(options) > 1:
        name = "object"
    else:
        name = {"string": "string"}.get(option.get("type", ""), TYPES.get(option.get("type", ""), "string"))
    return f"{name} or null" if _is_nullable(property_) else name


def _reference(property_: dict[str, Any]) -> str | None:
    for option in (property_, *property_.get("anyOf", ()), *property_.get("allOf", ())):
        if "$ref" in option:
            return str(option["$ref"]).rpartition("/")[2]
    return None
