"""Recording for the collector: whatever is wrong with the history never ends the polling."""

import logging
import os
from collections.abc import Mapping
from datetime import datetime, timedelta

from dashboard.analysis.assembly import Fleet
from dashboard.config import Options
from dashboard.errors import DashboardError, HistoryError
from dashboard.fleet import NO_LETTERS, Letters
from dashboard.fleet.formatting import iso
from dashboard.fleet.history import NO_SIGHTINGS, Sightings, UsualTraffic
from dashboard.fleet.times import EPOCH
from dashboard.store.history.database import DamagedRowsError, Database, OtherWriterError, file_database
from dashboard.store.history.reader import HistoryReader
from dashboard.store.history.traffic import HOUR
from dashboard.store.history.writer import HistoryWriter
from dashboard.store.opening import HistoryStatus, JumpGuard

log = logging.getLogger(__name__)

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
    elif history.url is not None:
        url = history.url
    else:
        return file_database(options.data_folder)
    return Database(url)


class Recorder:
    """Records polls, or reads those of the instance that does. Whatever fails, the collector polls."""

    def __init__(self, options: Options, guard: JumpGuard | None = None) -> None:
        """Open nothing yet. A changed option needs a restart. `guard` finds jumps of the clock."""
        self.status = HistoryStatus()
        self._sightings = NO_SIGHTINGS
        self._options = options
        self._guard = guard
        self._writer: HistoryWriter | None = None
        self._reader: HistoryReader | None = None
        self._usual: Mapping[str, UsualTraffic] = {}
        self._usual_at = EPOCH
        self._refused: Exception | None = None  # by the history, before the poll

    def follow(self, name: str, now: datetime) -> Fleet | None:
        """Return the newest poll where another instance records a shared history; None: this one has to poll.

        It has to where it holds the lock, and while the other instance records nothing or the history is unreadable.
        """
        fleet, self._refused = None, None
        try:
            writer = self._writing()
            if writer.database.file is None:
                fleet = self._followed(writer, name, now)
        except Exception as error:  # noqa: BLE001  logged with the poll that is not recorded
            self._refused = error
        self._reader = self._reader if fleet else None
        self.status = self.status._replace(follows=fleet is not None)
        return fleet

    def last_poll(self, now: datetime) -> tuple[Fleet | None, Letters]:
        """Return this fleet at the last recorded poll, and all letters of cohorts; nothing where there is none."""
        try:
            reader = HistoryReader(configured_database(self._options))
            fleet, letters = reader.fleet_at(now), reader.letters()
        except DamagedRowsError as error:
            log.warning("the last recorded poll was not read; flapping, rollouts and letters begin anew: %s", error)
            return None, NO_LETTERS
        except DashboardError:
            return None, NO_LETTERS
        except Exception:
            log.exception("the last recorded poll was not read; flapping, rollouts and letters begin anew")
            return None, NO_LETTERS
        return (fleet, letters) if fleet.name == self._options.name else (None, NO_LETTERS)

    def usual(self, now: datetime) -> Mapping[str, UsualTraffic]:
        """Return the traffic of each pool in a day, read once an hour; empty where it is unreadable."""
        if not timedelta() <= now - self._usual_at < HOUR and self.status.problem is None:
            self._usual, self._usual_at = {}, now
            try:
                self._usual = HistoryReader(configured_database(self._options)).usual_traffic(now)
            except Exception as error:  # noqa: BLE001  what is wrong with the history is logged with the next poll
                log.debug("the traffic of the last day was not read: %s", error)
        return self._usual

    def _followed(self, writer: HistoryWriter, name: str, now: datetime) -> Fleet | None:
        """Return the last poll of another writer, None where this is the writer; raise HistoryError where it is old."""
        try:
            writer.open(name, now)
        except OtherWriterError:
            self._reader = self._reader or HistoryReader(writer.database)
            fleet = self._reader.fleet_at(now, is_last=True)
            writer.database.check_fleet(fleet.name, name)
            if (gap := self._reader.poll_at(now)[1]) is not None:
                raise HistoryError(
                    f"The instance that records the history has recorded no poll since {iso(gap.since)}; restart it."
                ) from None
            self._report(None, fleet.polled_at)
            return fleet
        return None

    def record(self, fleet: Fleet, due: datetime) -> Sightings:
        """Record a poll; after `due` without another one there is a gap. An error is logged once, until it changes.

        Return the sightings, after an error those of the last recorded poll.
        """
        if fleet.polled_at is not None:
            self._report(self._refused or self._written(fleet, fleet.polled_at, due), fleet.polled_at)
        return self._sightings

    def _written(self, fleet: Fleet, at: datetime, due: datetime) -> Exception | None:
        """Record a poll, or return what prevents it."""
        try:
            if self._guard is not None:
                self._guard.check(at, due)
            self._sightings = self._writing().record(fleet, due)
        except Exception as error:  # noqa: BLE001  logged with the others
            return error
        return None

    def _writing(self) -> HistoryWriter:
        if self._writer is None:
            self._writer = HistoryWriter(configured_database(self._options), self._options.history)
        return self._writer

    def _report(self, error: Exception | None, at: datetime | None) -> None:
        """Keep the outcome of a poll, and log it where it is another one than before."""
        before = self.status
        if error is None:
            self.status = before._replace(problem=None, recorded_at=at, is_second=False)
            if self._writer is not None:
                self.status = self.status._replace(size_bytes=self._writer.size_bytes, limited=self._writer.limited)
            if before.problem is not None:
                log.info("the history is recorded again")
            return
        is_known = isinstance(error, DashboardError)
        internal = f"The poll was not recorded in the history: internal error {type(error).__name__}."
        problem = str(error) if is_known else internal
        is_second = isinstance(error, OtherWriterError)
        self.status = before._replace(problem=problem, failures=before.failures + 1, is_second=is_second)
        if problem != before.problem:
            log.warning("not recorded in the history: %s", problem, exc_info=None if is_known else error)

    def close(self) -> None:
        """Let another process record."""
        if self._writer is not None:
            self._writer.close()
