"""Recording for the collector: whatever is wrong with the history never ends the polling."""

import logging
import os
from datetime import datetime, timedelta

from sqlalchemy import URL

from dashboard.analysis.assembly import Fleet
from dashboard.config import Options
from dashboard.errors import HistoryError
from dashboard.fleet.sightings import NO_SIGHTINGS, Sightings
from dashboard.store.history.database import Database
from dashboard.store.history.retention import Retention
from dashboard.store.history.writer import HistoryWriter

log = logging.getLogger(__name__)

FILE = "history.db"  # in the folder of snapshots
LONGEST_URL = 4_000  # characters of a file with a URL


def configured_database(options: Options) -> Database:
    """Return the database of the options; raise HistoryError where their variable or file has no URL."""
    history = options.history
    if history.url_env is not None:
        url = os.environ.get(history.url_env, "")
        if not url:
            raise HistoryError(f"The variable {history.url_env} of history.url_env is not set.")
    elif history.url_file is not None:
        try:
            url = history.url_file.read_bytes()[:LONGEST_URL].decode(errors="replace").strip()
        except OSError as error:
            raise HistoryError(f"{history.url_file.name} of history.url_file: {error.strerror}.") from None
    else:
        return Database(history.url or URL.create("sqlite", database=str(options.snapshots_folder / FILE)))
    return Database(url)


def configured_retention(options: Options) -> Retention:
    """Return how long the options keep spans and polls."""
    return Retention(timedelta(days=options.history.keep_spans_days), timedelta(days=options.history.keep_polls_days))


class Recorder:
    """Records polls. `problem` is why the last one was not recorded, None where it was."""

    def __init__(self, options: Options) -> None:
        """Open nothing yet. A changed option needs a restart."""
        self.problem: str | None = None
        self._sightings = NO_SIGHTINGS
        self._options = options
        self._writer: HistoryWriter | None = None

    def record(self, fleet: Fleet, due: datetime) -> Sightings:
        """Record a poll; after `due` without another one there is a gap. An error is logged once, until it changes.

        Return the sightings, after an error those of the last recorded poll.
        """
        before = self.problem
        try:
            if self._writer is None:
                database = configured_database(self._options)
                self._writer = HistoryWriter(database, configured_retention(self._options))
            self._sightings = self._writer.record(fleet, due)
        except HistoryError as error:
            self.problem = str(error)
            if self.problem != before:
                log.warning("not recorded in the history: %s", error)
        except Exception as error:
            self.problem = f"The poll was not recorded in the history: internal error {type(error).__name__}."
            if self.problem != before:
                log.exception("a poll was not recorded in the history")
        else:
            self.problem = None
            if before is not None:
                log.info("the history is recorded again")
        return self._sightings

    def close(self) -> None:
        """Let another process record."""
        if self._writer is not None:
            self._writer.close()
