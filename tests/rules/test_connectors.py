"""Connectors and their options are read from any nesting, and hostile values are left out."""

from collections.abc import Mapping
from typing import Any

import pytest

from dashboard.fleet import Setting, State
from dashboard.rules.connector_options import (
    CONNECTOR,
    EXTRA,
    ROLE,
    SECTION,
    Connector,
    connectors,
    option,
    reports_options,
)
from tests.builders import document, setting

PATHS = {"name": CONNECTOR, "role": ROLE, "extra": EXTRA, "connectors": f"{EXTRA}.connectors", "section": SECTION}
REDACTED = setting(None, State.REDACTED)
HOSTILE: list[Any] = [
    *(None, 0, True, "", "null", [], {}, [[]], [{}]),
    *([None, 1, {"kv_connector": None}], {"a": {"b": [1]}}, "\x00<b>"),
]
CHILDREN = [
    {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
    {"kv_connector": "LMCacheMPConnector", "kv_connector_extra_config": {"mp.port": 1, "a": {"b": False, "c": {}}}},
]


def read(**values: object) -> Mapping[str, Setting]:
    """Return settings of a connector: its name, role, section or options."""
    return document({PATHS.get(key, f"{EXTRA}.{key}"): value for key, value in values.items()}, base={}).settings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (read(name="A", role="kv_producer", x=["UCX"]), (Connector("A", "kv_producer", {"x": ["UCX"]}),)),
        (
            read(name="MultiConnector", role="kv_both", connectors=CHILDREN),
            (
                Connector("NixlConnector", "kv_both", {}),
                Connector("LMCacheMPConnector", None, {"mp.port": 1, "a.b": False, "a.c": {}}),
            ),
        ),
    ],
    ids=["one connector", "a MultiConnector"],
)
def test_connectors_have_their_role_and_options(
    settings: Mapping[str, Setting], expected: tuple[Connector, ...]
) -> None:
    assert connectors(settings) == expected


def test_an_option_is_that_of_the_first_connector_that_has_it() -> None:
    assert option(read(name="MultiConnector", connectors=CHILDREN), "a.b") is False
    assert option(read(name="A", x=1), "x") == 1
    assert option(read(name="A", x=1), "y") is None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"section": None}, True),
        ({"name": "A", "extra": {}}, True),
        ({"name": "A", "x": 1}, True),
        ({"name": "A"}, False),
        ({"name": "A", "x": 1, "y": REDACTED}, False),
        ({"section": REDACTED}, False),
        ({}, False),
    ],
)
def test_options_are_reported_if_none_of_them_is_missing(settings: dict[str, Any], *, expected: bool) -> None:
    assert reports_options(read(**settings)) is expected


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_hostile_names_roles_and_options_are_left_out(value: object) -> None:
    names = [each.name for each in connectors(read(name=value, role=value, x=value))]
    (child,) = connectors(
        read(
            name="MultiConnector",
            connectors=[{"kv_connector": "A", "kv_role": value, "kv_connector_extra_config": value}],
        )
    )

    assert names == ([value] if isinstance(value, str) else [])
    assert connectors(read(name="MultiConnector", role=value, connectors=value)) == ()
    assert child.role == (value if isinstance(value, str) else None)
    assert child.options == ({"a.b": [1]} if value == {"a": {"b": [1]}} else {})
