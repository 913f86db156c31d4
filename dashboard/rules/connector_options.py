"""KV connectors of a document and their options.

Shapes: vllm/config/kv_transfer.py and vllm/distributed/kv_transfer/kv_connector/v1/multi_connector.py.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dashboard.fleet import Setting, State

SECTION = "kv_transfer_config"
CONNECTOR = f"{SECTION}.kv_connector"
ROLE = f"{SECTION}.kv_role"
EXTRA = f"{SECTION}.kv_connector_extra_config"
MULTI = "MultiConnector"
CHILDREN = "connectors"  # of a MultiConnector, and of its subclasses such as Dynamo's PdConnector


class Connector(NamedTuple):
    """One connector. `options` are those of its extra config, by dotted name: `secondary_tiers`, `lmcache.mp.host`."""

    name: str
    role: str | None
    options: Mapping[str, Any]


def connectors(settings: Mapping[str, Setting]) -> tuple[Connector, ...]:
    """Return a document's connectors; those inside another one replace it. Empty where none is reported."""
    name = native(settings, CONNECTOR)
    if not isinstance(name, str):
        return ()
    role, below = native(settings, ROLE), f"{EXTRA}."
    found = {path.removeprefix(below): native(settings, path) for path in settings if path.startswith(below)}
    options = {name: value for name, value in found.items() if value is not None}
    entries = options.get(CHILDREN)
    children = tuple(_children(entries)) if isinstance(entries, list) else ()
    if children or name == MULTI:
        return children
    return (Connector(name, role if isinstance(role, str) else None, options),)


def reports_options(settings: Mapping[str, Setting]) -> bool:
    """Return whether a document reports its connectors' options, so that a missing one is not set."""
    above = settings.get(SECTION)
    if above is not None and above.state is State.NULL:
        return True
    states = [each.state for path, each in settings.items() if path == EXTRA or path.startswith(f"{EXTRA}.")]
    return bool(states) and all(state in (State.REPORTED, State.NULL) for state in states)


def option(settings: Mapping[str, Setting], name: str) -> Any:
    """Return an option of the first connector that has it, as native JSON; None if none has."""
    return next((each.options[name] for each in connectors(settings) if name in each.options), None)


def native(settings: Mapping[str, Setting], path: str) -> Any:
    """Return a reported value as native JSON; None for every other state."""
    setting = settings.get(path)
    return json.loads(setting.value) if setting is not None and setting.state is State.REPORTED else None


def _children(entries: list[Any]) -> Iterator[Connector]:
    for entry in entries:
        if isinstance(entry, dict) and isinstance(name := entry.get("kv_connector"), str):
            role, extra = entry.get("kv_role"), entry.get("kv_connector_extra_config")
            options = dict(_dotted("", extra)) if isinstance(extra, dict) else {}
            yield Connector(name, role if isinstance(role, str) else None, options)


def _dotted(prefix: str, nested: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the options of a child under the names that they have in a connector outside a MultiConnector."""
    for key, item in nested.items():
        if isinstance(item, dict) and item:
            yield from _dotted(f"{prefix}{key}.", item)
        else:
            yield f"{prefix}{key}", item
