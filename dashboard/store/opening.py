"""Snapshots and history as the service and commands have them: SQLAlchemy is imported where one is used."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.config import Options
from dashboard.errors import HistoryError
from dashboard.fleet import PastTime
from dashboard.fleet.formatting import clock, iso
from dashboard.fleet.times import EPOCH, MICROSECOND, end_of_second

if TYPE_CHECKING:  # it imports SQLAlchemy, 0.2 s that few commands need
    from dashboard.store.history.database import Database
    from dashboard.store.history.reader import HistoryReader
    from dashboard.store.snapshots import Snapshots

LATEST = datetime.max.replace(tzinfo=UTC)
SHORTEST_JUMP = timedelta(minutes=1)  # less is the work of NTP
TRUST = timedelta(minutes=10)  # after which a clock that jumped ahead is right: the machine was paused


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

    def at(self, time: datetime, like: Fleet | None = None) -> Fleet:
        """Return the fleet as it was last polled at a time, with the findings of that time.

        `Fleet.past` has the time. Its generation is negative, and another for each time and poll. Raise HistoryError
        where there was no poll yet, and where the history cannot be read. What a fleet `like` it derived from equal
        replicas is reused.
        """
        with self._lock:
            key = self._settled.get(time) or self._look_up(time, like)
            self._known.move_to_end(key)
            return self._known[key]

    def _look_up(self, time: datetime, like: Fleet | None) -> tuple[datetime, PastTime]:
        """Read the fleet of a time, unless that of its poll is known; return its key."""
        reader = self._opened()
        polled_at, gap = reader.poll_at(end_of_second(time))
        key = polled_at, PastTime(time, gap)
        if key not in self._known:
            fleet = self._read(reader, polled_at, like)
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

    def _read(self, reader: "HistoryReader", polled_at: datetime, like: Fleet | None) -> Fleet:
        """Return the fleet of a poll, that of another time at the same poll if it is in memory."""
        for known, fleet in self._known.items():
            if known[0] == polled_at:
                return fleet
        return reader.fleet_at(polled_at, like)


class HistoryStatus(NamedTuple):
    """Whether polls are recorded.

    `problem` is why the last one was not, None where it was. `failures` counts the polls that were not. `recorded_at`
    is the time of the last one that was. With `follows` another instance polls and records, and this one shows that;
    with `is_second` another process records, and this one polls by itself. `size_bytes` is that of the database.
    `limited` are the names of replicas that change too often to be recorded today.
    """

    problem: str | None = None
    failures: int = 0
    recorded_at: datetime | None = None
    follows: bool = False
    is_second: bool = False
    size_bytes: int | None = None
    limited: tuple[str, ...] = ()


def boot_seconds() -> float:
    """Return the time since the boot, which no setting of the wall clock changes, and which counts a suspend."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class JumpGuard:
    """Compares the times of polls with the time since the boot."""

    def __init__(self, seconds: Callable[[], float] = boot_seconds) -> None:
        """Know no poll yet. `seconds` is a clock that nobody sets."""
        self._seconds = seconds
        self._before: tuple[datetime, float] | None = None
        self._suspect: tuple[datetime, datetime] | None = None  # the time before the jump, and when it is trusted

    def check(self, at: datetime, due: datetime) -> None:
        """Raise HistoryError for a poll after a jump ahead; once the clock keeps its time, it is trusted.

        Jumps back are found in the history itself: its last poll is later.
        """
        seconds = self._seconds()
        before, self._before = self._before, (at, seconds)
        if before is not None:
            jump = at - before[0] - timedelta(seconds=seconds - before[1])
            shortest = max(due - at, SHORTEST_JUMP)
            if jump > shortest:
                self._suspect = (before[0], at + TRUST)
            elif jump < -shortest:
                self._suspect = None
        if self._suspect is not None and at < self._suspect[1]:
            since, until = self._suspect
            raise HistoryError(
                f"Not recorded: the clock jumped ahead after {iso(since)}; "
                f"polls are recorded again from {clock(until)} if it stays. Check NTP."
            )
        self._suspect = None
