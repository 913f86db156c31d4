"""Which vLLM release a replica runs, as numbers that can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.normalize.versions import release
from dashboard.rules.connectors import value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboard.models import Setting

VERSION = "version"
Numbers = tuple[int, ...]


def release_numbers(settings: Mapping[str, Setting]) -> Numbers:
    """Return `(0, 32, 0)` of what a document tells as its version; empty where it tells none that can be read."""
    known = release(str(value(settings, VERSION)))
    return tuple(int(part) for part in known.split(".")) if known else ()
