"""A small fleet to freeze, snapshots in a history, and a disk that is full."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.store import Snapshots
from dashboard.store.history.database import Database
from tests import builders


def a_fleet(**more: Any) -> Fleet:
    document = builders.document()
    return builders.fleet(
        [builders.replica(document=document), builders.down()], [document], **{"name": "prod", **more}
    )


MakeStore = Callable[[Path], Snapshots]


def history_of(folder: Path) -> Database:
    """Return the database of the history in a folder."""
    return Database(f"sqlite:///{folder / 'history.db'}")


def in_history(folder: Path) -> Snapshots:
    """Return the snapshots of a folder with a history, in which nothing is recorded."""
    database = history_of(folder)
    if not (folder / "history.db").exists():
        with database.written_by("prod"):
            pass
    return Snapshots(folder, history=lambda: database)


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """Limit the size of files; pytest must not write meanwhile."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
