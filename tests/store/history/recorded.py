"""A history on a disk, and what a fleet shows apart from the times of its answers."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from dashboard.analysis.assembly import NO_LIVES, Fleet
from dashboard.analysis.lifecycle import with_lives
from dashboard.fleet.history import NO_SIGHTINGS
from dashboard.store.history.database import Database
from dashboard.store.history.reader import HistoryReader
from dashboard.store.history.writer import HistoryWriter
from dashboard.store.packing import content_of

POLL = timedelta(seconds=30)
DUE = 3 * POLL  # after a poll without another one there is a gap


class Recorded:
    """The history of one fleet in a folder."""

    def __init__(self, folder: Path) -> None:
        self.database = Database(f"sqlite:///{folder / 'history.db'}")
        self.writer = HistoryWriter(self.database)
        self.reader = HistoryReader(self.database)
        self._lives = NO_LIVES

    def record(self, fleet: Fleet, due: timedelta = DUE) -> Fleet:
        """Record a fleet, and return it with its sightings."""
        assert fleet.polled_at is not None
        at, fleet = fleet.polled_at, with_lives(fleet, self._lives)
        recorded = replace(fleet, sightings=self.writer.record(fleet, at + due))
        self._lives = fleet.lives
        return recorded

    def restart(self) -> None:
        """End the dashboard, and start it again."""
        self.writer.close()
        self.reader = HistoryReader(self.database)
        if self._lives.at is not None:
            self._lives = self.reader.fleet_at(self._lives.at).lives

    def rows(self, table: str) -> int:
        with self.database.read() as connection:
            number: int = connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()  # noqa: S608
        return number


def later(fleet: Fleet, after: timedelta) -> Fleet:
    """The same fleet at another poll."""
    assert fleet.polled_at is not None
    return replace(fleet, polled_at=fleet.polled_at + after)


def shown(fleet: Fleet) -> Any:
    """Everything that a page, an export or the API shows, without sightings and times of answers of fresh replicas."""
    content = json.loads(content_of(replace(fleet, sightings=NO_SIGHTINGS)))
    for each in content["replicas"]:
        if each["fresh"]:
            each["observed_at"] = None
        for probe in each["probes"]:
            for name in ("observed_at", "elapsed_seconds", "size_bytes"):
                del probe[name]
    return content
