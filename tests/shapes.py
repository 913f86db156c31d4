"""Comparison of the keys and types of JSON documents."""

from collections.abc import Iterator
from typing import Any


def unlike(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yield the paths with different keys or types. Null and empty values match everything."""
    if one in (None, [], {}) or other in (None, [], {}):
        return
    if type(one) is not type(other):
        yield path
    elif isinstance(one, dict):
        yield from (f"{path}.{key}" for key in one.keys() ^ other.keys())
        for key in one.keys() & other.keys():
            yield from unlike(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list):
        yield from unlike(_item(one), _item(other), f"{path}[]")


def _item(values: list[Any]) -> Any:
    """Return one item with the keys of all."""
    return {key: value for item in values for key, value in item.items()} if isinstance(values[0], dict) else values[0]
