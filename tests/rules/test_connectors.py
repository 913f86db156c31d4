"""Connectors and their options are read from a document, nested or not; hostile values are ignored."""

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

HOSTILE: list[Any] = [
    None,
    0,
    True,
    "",
    "null",
    [],
    {},
    [[]],
    [{}],
    [None, 1, {"kv_connector": None}],
    {"a": {"b": [1]}},
    "\x00<b>",
]


def settings_of(**settings: object) -> Mapping[str, Setting]:
    paths = {"name": CONNECTOR, "role": ROLE, "extra": EXTRA, "connectors": f"{EXTRA}.connectors", "section": SECTION}
    return dict(
        document({paths.get(key, f"{EXTRA}.{key}"): value for key, value in settings.items()}, base={}).settings
    )


def test_a_connector_has_its_role_and_its_options() -> None:
    settings = settings_of(name="NixlConnector", role="kv_producer", backends=["UCX"])

    assert connectors(settings) == (Connector("NixlConnector", "kv_producer", {"backends": ["UCX"]}),)


def test_the_connectors_inside_a_multi_connector_replace_it() -> None:
    options = {"lmcache.mp.port": 1, "a": {"b": 2, "c": {}}}
    children = [
        {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
        {"kv_connector": "LMCacheMPConnector", "kv_connector_extra_config": options},
    ]
    found = connectors(settings_of(name="MultiConnector", role="kv_both", connectors=children))

    assert [each.name for each in found] == ["NixlConnector", "LMCacheMPConnector"]
    assert [each.role for each in found] == ["kv_both", None]
    assert found[1].options == {"lmcache.mp.port": 1, "a.b": 2, "a.c": {}}


def test_an_option_is_that_of_the_first_connector_with_it() -> None:
    children = [{"kv_connector": "A"}, {"kv_connector": "B", "kv_connector_extra_config": {"x": False}}]

    assert option(settings_of(name="MultiConnector", connectors=children), "x") is False
    assert option(settings_of(name="A", x=1), "x") == 1
    assert option(settings_of(name="A", x=1), "y") is None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"section": None}, True),
        ({"name": "A", "extra": {}}, True),
        ({"name": "A", "x": 1}, True),
        ({"name": "A"}, False),
        ({"name": "A", "x": 1, "y": setting(None, State.REDACTED)}, False),
        ({"section": setting(None, State.REDACTED)}, False),
        ({}, False),
    ],
)
def test_options_are_known_only_where_all_are_reported(settings: dict[str, Any], *, expected: bool) -> None:
    assert reports_options(settings_of(**settings)) is expected


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_hostile_values_are_no_connectors(value: object) -> None:
    found = connectors(settings_of(name=value, role=value, x=value))

    assert [each.name for each in found] == ([value] if isinstance(value, str) else [])
    assert connectors(settings_of(name="MultiConnector", role=value, connectors=value)) == ()


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_hostile_roles_and_options_are_excluded(value: object) -> None:
    children = [{"kv_connector": "A", "kv_role": value, "kv_connector_extra_config": value}]
    (found,) = connectors(settings_of(name="MultiConnector", connectors=children))

    assert found.role == (value if isinstance(value, str) else None)
    assert found.options == ({"a.b": [1]} if value == {"a": {"b": [1]}} else {})
