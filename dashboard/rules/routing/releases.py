"""Which vLLM release a replica runs, as numbers that can be compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dashboard.normalize.versions import release
from dashboard.rules.connectors import value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboard.models import Setting, Told
    from dashboard.rules.subject import PoolSubject

VERSION = "version"
Numbers = tuple[int, ...]


def release_numbers(settings: Mapping[str, Setting]) -> Numbers:
    """Return `(0, 32, 0)` of what a document tells as its version; empty where it tells none that can be read."""
    return _numbers(value(settings, VERSION))


def most_run(pool: PoolSubject) -> Told:
    """Return the version that most members run, and of those that as many run, the newest. Somebody must tell one."""
    running = pool.values(VERSION)
    return max(running, key=lambda told: (len(running[told]), _numbers(json.loads(told.value))))


def _numbers(version: object) -> Numbers:
    known = release(str(version))
    return tuple(int(part) for part in known.split(".")) if known else ()
