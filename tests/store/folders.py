"""A small fleet to freeze, and a disk that is full."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dashboard.analysis.assembly import Fleet
from tests import builders


def a_fleet(**more: Any) -> Fleet:
    document = builders.document()
    return builders.fleet(
        [builders.replica(document=document), builders.down()], [document], **{"name": "prod", **more}
    )


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """Limit the size of files; pytest must not write meanwhile."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
