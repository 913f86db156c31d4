"""A small fleet to freeze, and a disk that is full."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dashboard.analysis.assembly import Fleet
from tests import builders


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
