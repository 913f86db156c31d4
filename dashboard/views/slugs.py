"""Names of pools and findings as anchors and file names: lower case letters, digits and dashes, each once."""

import re
from collections.abc import Iterable

LONGEST = 40  # characters; a name is foreign, and can be of any length
_OTHER = re.compile(r"[^a-z0-9]+")


def slug(name: str) -> str:
    """Return a name as an anchor or part of a file name; two names can have the same."""
    return _OTHER.sub("-", name.lower()).strip("-")[:LONGEST].strip("-") or "unnamed"


def slugs(names: Iterable[str]) -> dict[str, str]:
    """Return a slug for each name, numbered where an earlier name has the same one already."""
    taken: set[str] = set()
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        first = slug(name)
        given, number = first, 1
        while given in taken:
            number += 1
            given = f"{first}-{number}"
        taken.add(given)
        found[name] = given
    return found
