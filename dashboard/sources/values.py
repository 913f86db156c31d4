"""Parts of the answer of another program, which may have any type."""

from collections.abc import Mapping
from typing import Any


def mapping(part: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mapping; empty where it is missing or of another type."""
    found = part.get(name)
    return found if isinstance(found, dict) else {}


def mappings(part: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; others are left out."""
    found = part.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(part: Mapping[str, Any], name: str) -> str:
    """Return a text; empty where it is missing or of another type."""
    found = part.get(name)
    return found.encode(errors="replace").decode() if isinstance(found, str) else ""


def port(part: Mapping[str, Any], name: str) -> str | None:
    """Return the number of a port as text; None where it is missing, of another type or none of TCP."""
    found = part.get(name)
    is_port = isinstance(found, int) and not isinstance(found, bool) and 0 < found < 2**16
    return str(found) if is_port else None


def texts(part: Mapping[str, Any]) -> dict[str, str]:
    return {name: text(part, name) for name in part}
