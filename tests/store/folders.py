"""A small fleet to freeze, snapshots in a history, and a disk that is full."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dashboard.analysis.assembly import Fleet
from dashboard.store.history.database import Database
from dashboard.store.snapshots import Snapshots
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


def in_history(folder: Path, name: str = "prod") -> Snapshots:
    """Return the snapshots of a folder with the history of a fleet, in which nothing is recorded."""
    database = history_of(folder)
    if not (folder / "history.db").exists():
        with database.written_by(name):
            pass
    return Snapshots(folder, history=lambda: database)


def configured_store(make_store: MakeStore, folder: Path, name: str) -> Snapshots:
    """Write the options of a fleet, with a history or without; return its snapshots."""
    has_history = make_store is in_history
    (folder / "fleet.yaml").write_text(f"name: {name}\nhistory: {{enabled: {str(has_history).lower()}}}\n")
    return in_history(folder / "data", name) if has_history else make_store(folder / "data")


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """Limit the size of files; pytest must not write meanwhile."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
