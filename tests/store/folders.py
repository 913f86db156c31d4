"""A small fleet to freeze, and a disk that is full."""

from __future__ import annotations

import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests import builders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dashboard.analysis.assembly import Fleet


def a_fleet(**more: Any) -> Fleet:
    told = builders.document()
    return builders.fleet([builders.replica(document=told), builders.down()], [told], **{"name": "prod", **more})


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """A disk on which a file can have so many bytes; only for as long as pytest itself writes nothing."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
