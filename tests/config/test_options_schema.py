"""docs/fleet.yaml.schema.json describes each option once, and agrees with what loads fleet.yaml."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError
from pydantic import ValidationError as OptionError

from dashboard.config import Options
from dashboard.config.document import read_document
from tests.config.mistakes import one_mistake_each
from tests.docs_pages import DOCUMENTS, code_blocks, schema
from tests.tools.options_schema import (
    EXAMPLE,
    Option,
    bare_schema,
    comments,
    described_by,
    of_object,
    options_of,
    shown_options,
)

SCHEMA = schema("fleet.yaml")
VALIDATOR = Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)
BARE = bare_schema()
OPTIONS = sorted(options_of(BARE))
SHOWN = shown_options(EXAMPLE.read_text(), BARE)
DOCUMENTED = comments(SHOWN)
Place = tuple[str | int, ...]
# Of each kind of value; a number or a text that an option takes is its own matter.
CONTAINERS: tuple[Any, ...] = ({}, [], {"unknown key": "x"}, [[]], [None])
VALUES: tuple[Any, ...] = (*CONTAINERS, [{}], "some text", 2.5, -7, None)
# What a schema can say, of all that is wrong in `mistakes.txt`.
OF_ONE_KEY = (
    "unknown key",
    "unknown parameter",
    "unknown value",
    "missing",
    "expected a",
    "too small",
    "too large",
    "not a list",
    "not a mapping",
    "not the name of an environment variable",
    "not a DNS name",
    "empty; write at least one entry",
)


class Plain(yaml.SafeLoader):
    """Reads dates as text, as editors do (YAML 1.2)."""


Plain.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(text: str) -> Any:
    return yaml.load(text, Loader=Plain)  # noqa: S506  a SafeLoader


def named(option: Option) -> str:
    return ".".join(filter(None, option))


def where_pydantic_objects(options: Any) -> list[Place]:
    """Return the places of the mistakes in options, as they are read from YAML."""
    try:
        Options.model_validate(read_document(yaml.safe_dump(options).encode()).value)
    except OptionError as error:
        return [each["loc"] for each in error.errors()]
    return []


def where_the_schema_objects(options: Any) -> Iterator[Place]:
    def of(errors: Any) -> Iterator[ValidationError]:
        for each in errors:
            yield each
            yield from of(each.context)

    for error in of(VALIDATOR.iter_errors(options)):
        yield tuple(error.absolute_path)


def every_place(part: Any = SCHEMA, place: Place = ()) -> Iterator[Place]:
    """Yield a place of every option: the first entry of lists and mappings."""
    part = of_object(part)
    while "$ref" in part:
        part = of_object(SCHEMA["$defs"][part["$ref"].rpartition("/")[2]])
    for key, value in part.get("properties", {}).items():
        yield (*place, key)
        yield from every_place(value, (*place, key))
    if "items" in part:
        yield from every_place(part["items"], (*place, 0))
    if isinstance(part.get("additionalProperties"), dict):
        yield from every_place(part["additionalProperties"], (*place, "viewer"))


def options_with(place: Place, value: Any) -> Any:
    """Return options with nothing but this value at a place."""
    for part in reversed(place):
        value = [value] if part == 0 else {part: value}
    return value


def objects(found: Iterator[Place] | list[Place], place: Place) -> bool:
    return any(each[: len(place)] == place for each in found)


@pytest.mark.parametrize("option", OPTIONS, ids=named)
def test_an_option_is_shown_and_has_one_comment_in_the_example(option: Option) -> None:
    lines = [each.line for each in SHOWN if each.option == option]
    commented = [each.line for each in DOCUMENTED.get(option, [])]

    assert lines, f"fleet.example.yaml does not show {named(option)}: add it, as `#key: value` where it is not set"
    assert described_by(option, DOCUMENTED), f"{named(option)}: add a comment to line {lines[0]} of fleet.example.yaml"
    assert len(commented) <= 1, f"{named(option)}: comments on lines {commented} of fleet.example.yaml; keep one"


def test_the_schema_is_valid_and_describes_every_option() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    described = options_of(SCHEMA)

    assert sorted(described) == OPTIONS
    assert [
        named(option) for option, value in described.items() if len(value.get("description", "")) < len("when")
    ] == []
    assert SCHEMA["properties"]["read_only"]["description"].startswith("true: the pages cannot save, import, rename")


def test_no_mapping_of_the_schema_takes_unknown_keys() -> None:
    for part in (SCHEMA, *map(of_object, SCHEMA["$defs"].values())):
        assert "properties" not in part or part["additionalProperties"] is False


def test_the_schema_accepts_the_example_and_the_first_line_names_it() -> None:
    first = EXAMPLE.read_text().partition("\n")[0]

    assert list(VALIDATOR.iter_errors(load(EXAMPLE.read_text()))) == []
    assert first == "# yaml-language-server: $schema=docs/fleet.yaml.schema.json"
    assert (EXAMPLE.parent / first.partition("=")[2]).is_file()


def test_the_schema_accepts_the_options_in_the_documents() -> None:
    found = 0
    for page in DOCUMENTS:
        for block in code_blocks(page.read_text(), "yaml"):
            options = load(block)
            if isinstance(options, dict) and options.keys() <= Options.model_fields.keys():
                found += 1
                assert list(where_the_schema_objects(options)) == [], f"{page.name}: {block}"
    assert found >= 10


@pytest.mark.parametrize(
    "text", [text for text, sentence in one_mistake_each() if any(f": {each}" in sentence for each in OF_ONE_KEY)]
)
def test_the_schema_rejects_what_is_wrong_with_one_key(text: str) -> None:
    assert list(where_the_schema_objects(load(text))) != []


@pytest.mark.few(100)
@pytest.mark.parametrize("place", list(every_place()), ids=lambda place: ".".join(map(str, place)))
def test_the_schema_rejects_values_of_the_wrong_kind_as_the_loader_does(place: Place) -> None:
    """Where a list is expected a mapping is wrong, and the other way round; and no right value is rejected."""
    for value in VALUES:
        options = options_with(place, value)
        loader, own = objects(where_pydantic_objects(options), place), objects(where_the_schema_objects(options), place)
        assert loader or not own, f"{value!r} loads"
        assert own or not loader or value not in CONTAINERS, f"{value!r} does not load"
