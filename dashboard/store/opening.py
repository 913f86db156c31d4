"""The snapshots that the options name: in the history, or in files where that is disabled."""

from functools import partial
from typing import TYPE_CHECKING

from dashboard.config import Options
from dashboard.store.snapshots import Snapshots

if TYPE_CHECKING:  # it imports SQLAlchemy, 0.2 s that few commands need
    from dashboard.store.history.database import Database


def configured_snapshots(options: Options, *, read_only: bool = False) -> Snapshots:
    """Return the snapshots of the options; open nothing."""
    history = partial(_database, options) if options.has_history else None
    return Snapshots(options.snapshots_folder, read_only=read_only, history=history)


def _database(options: Options) -> "Database":
    from dashboard.store.history.recording import configured_database  # noqa: PLC0415  as above

    return configured_database(options)
