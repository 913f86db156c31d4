"""Limit of the log: a flood of equal records, tracebacks included, cannot fill the disk."""

import logging
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import NamedTuple

log = logging.getLogger(__name__)

# uvicorn 0.54 logs this after each websocket that was answered with 403 (websockets_sansio_impl.py, run_asgi).
ANSWERED = "ASGI callable returned without completing handshake."
MOST_RECORDS, MOST_TRACEBACKS = 20, 3  # of a kind in a period; a traceback has 2 to 10 KB
PERIOD_SECONDS = 60.0


class RecordKind(NamedTuple):
    """What records are counted by. Their texts are left out: some contain the values that a visitor sent."""

    logger: str
    place: str  # of the call that logs
    error: str = ""
    raised_at: str = ""

    def __str__(self) -> str:
        """Return the kind as it is logged."""
        return f"{self.logger} ({self.place}{f': {self.error} at {self.raised_at}' if self.error else ''})"


def kind_of(record: logging.LogRecord) -> RecordKind:
    """Return the kind of a record: its logger and place, and the type and place of its exception."""
    place = f"{Path(record.pathname).name}:{record.lineno}"
    error, _, traceback = record.exc_info or (None, None, None)
    return (
        RecordKind(record.name, place, error.__name__, _place(traceback)) if error else RecordKind(record.name, place)
    )


def _place(traceback: TracebackType | None) -> str:
    """Return file and line of the innermost frame; empty for an exception that was not raised."""
    last = traceback
    while last and last.tb_next:
        last = last.tb_next
    return f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}" if last else ""


class LogLimit(logging.Filter):
    """Passes the first records of each kind in a period; `report` logs how many were suppressed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty count. `clock` gives seconds."""
        super().__init__()
        self._clock = clock
        self._counts: Counter[RecordKind] = Counter()
        self._suppressed: Counter[RecordKind] = Counter()
        self._ends_at = 0.0
        self._lock = Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record; the last one of its kind announces the limit."""
        if record.msg == ANSWERED:
            return False
        self.report()
        kind, limit = kind_of(record), MOST_TRACEBACKS if record.exc_info else MOST_RECORDS
        with self._lock:
            self._counts[kind] += 1
            number = self._counts[kind]
            if number > limit:
                self._suppressed[kind] += 1
        if number == limit:
            record.msg = f"{record.msg} (similar records are suppressed for up to {PERIOD_SECONDS:.0f} s)"
        return number <= limit

    def report(self) -> None:
        """Once a period is over, start the next one and log how many records of each kind were suppressed."""
        with self._lock:
            if self._clock() < self._ends_at:
                return
            self._ends_at = self._clock() + PERIOD_SECONDS
            suppressed, self._suppressed = self._suppressed, Counter()
            self._counts.clear()
        for kind, number in suppressed.most_common(MOST_RECORDS):
            log.warning("Suppressed %d records of %s in %.0f s", number, kind, PERIOD_SECONDS)

    def attach(self) -> None:
        """Limit every existing logger: a filter of a logger does not get the records of its children."""
        for logger in _loggers():
            logger.addFilter(self)

    def detach(self) -> None:
        """Undo `attach`."""
        for logger in _loggers():
            logger.removeFilter(self)


def _loggers() -> list[logging.Logger]:
    return [logging.root, *map(logging.getLogger, tuple(logging.root.manager.loggerDict))]
