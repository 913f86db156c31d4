"""The snapshots and the history that the options name, in one database."""

from functools import partial
from typing import TYPE_CHECKING

from dashboard.config import Options

if TYPE_CHECKING:  # it imports SQLAlchemy, 0.2 s that few commands need
    from dashboard.store.history.database import Database
    from dashboard.store.history.reader import HistoryReader
    from dashboard.store.snapshots import Snapshots


def configured_snapshots(options: Options, *, read_only: bool = False) -> "Snapshots":
    """Return the snapshots of the options; open nothing."""
    from dashboard.store.snapshots import Snapshots  # noqa: PLC0415  as above

    return Snapshots(options.data_folder, read_only=read_only, database=partial(_database, options))


def configured_history(options: Options, url: str | None = None) -> "HistoryReader":
    """Return the history at a URL, else that of the options; raise HistoryError where they name none."""
    from dashboard.store.history.database import Database  # noqa: PLC0415  as above
    from dashboard.store.history.reader import HistoryReader  # noqa: PLC0415

    return HistoryReader(Database(url) if url else _database(options))


def _database(options: Options) -> "Database":
    from dashboard.store.history.recording import configured_database  # noqa: PLC0415  as above

    return configured_database(options)
