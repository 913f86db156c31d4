"""The published schemas are written by hand: what they share is equal, and their words are those of the product."""

from enum import StrEnum
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import dashboard.cli.check  # noqa: F401  all enums
from tests.docs_pages import schema

NAMES = ("changes", "events", "findings", "fleet", "plan", "report", "tools")
SCHEMAS = {name: schema(name) for name in NAMES}
# One name for two objects, of which one has more keys.
SEVERAL = {"Suppression", "Pool"}


def all_enums(kind: type[StrEnum] = StrEnum) -> dict[str, list[str]]:
    found = {}
    for each in kind.__subclasses__():
        if each.__module__.startswith("dashboard."):
            found[each.__name__] = [member.value for member in each]
        found |= all_enums(each)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_and_requires_known_keys_only(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    for part in (SCHEMAS[name], *SCHEMAS[name]["$defs"].values()):
        assert set(part.get("required", ())) <= part.get("properties", {}).keys()
        assert part.get("additionalProperties", False) is False


def test_what_schemas_share_is_equal() -> None:
    seen: dict[str, Any] = {}
    for part in SCHEMAS.values():
        for name, definition in part["$defs"].items():
            if name not in SEVERAL:
                assert seen.setdefault(name, definition) == definition, name


def test_the_words_of_a_schema_are_those_of_the_product() -> None:
    enums = all_enums()
    for part in SCHEMAS.values():
        for name, definition in part["$defs"].items():
            if "enum" in definition:
                assert sorted(definition["enum"]) == sorted(enums[name]), name
