"""Fleets of past times for sessions and threads: the last few stay in memory."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import PastTime
from dashboard.fleet.times import EPOCH, MICROSECOND, end_of_second

if TYPE_CHECKING:  # it imports SQLAlchemy, 0.2 s that few commands need
    from dashboard.store.history.reader import HistoryReader

LATEST = datetime.max.replace(tzinfo=UTC)


class PastFleets:
    """Opens the fleet of a past time. One at a time: a reader keeps what it read last."""

    def __init__(self, open_history: Callable[[], "HistoryReader"], most: int) -> None:
        """Open nothing yet. `most` fleets stay in memory; `open_history` raises HistoryError where there is none."""
        self._open = open_history
        self._most = most
        self._reader: HistoryReader | None = None
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[datetime, PastTime], Fleet] = OrderedDict()  # by poll and time
        self._settled: dict[datetime, tuple[datetime, PastTime]] = {}  # times before the last poll: no poll can come

    def reader(self) -> "HistoryReader":
        """Return the reader; raise HistoryError where the options name no database."""
        with self._lock:
            return self._opened()

    def at(self, time: datetime) -> Fleet:
        """Return the fleet as it was last polled at a time, with the findings of that time.

        `Fleet.past` has the time. Its generation is negative, and another for each time and poll. Raise HistoryError
        where there was no poll yet, and where the history cannot be read.
        """
        with self._lock:
            key = self._settled.get(time) or self._look_up(time)
            self._known.move_to_end(key)
            return self._known[key]

    def _look_up(self, time: datetime) -> tuple[datetime, PastTime]:
        """Read the fleet of a time, unless that of its poll is known; return its key."""
        reader = self._opened()
        polled_at, gap = reader.poll_at(end_of_second(time))
        key = polled_at, PastTime(time, gap)
        if key not in self._known:
            fleet = self._read(reader, polled_at)
            generation = -((polled_at - EPOCH) // MICROSECOND + (time - EPOCH) // MICROSECOND)
            self._known[key] = replace(fleet, generation=generation, past=key[1])
        while len(self._known) > self._most:
            (_, dropped), _ = self._known.popitem(last=False)
            self._settled.pop(dropped.at, None)
        if reader.poll_at(LATEST)[0] > end_of_second(time):
            self._settled[time] = key
        return key

    def _opened(self) -> "HistoryReader":
        if self._reader is None:
            self._reader = self._open()
        return self._reader

    def _read(self, reader: "HistoryReader", polled_at: datetime) -> Fleet:
        """Return the fleet of a poll, that of another time at the same poll if it is in memory."""
        for known, fleet in self._known.items():
            if known[0] == polled_at:
                return fleet
        return reader.fleet_at(polled_at).fleet
