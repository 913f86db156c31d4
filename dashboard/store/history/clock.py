"""Jumps of the wall clock: a poll with a time in the future would keep every later one out of the history."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from dashboard.errors import HistoryError
from dashboard.fleet.formatting import clock, iso

SHORTEST_JUMP = timedelta(minutes=1)  # less is the work of NTP
TRUST = timedelta(minutes=10)  # after which a clock that jumped ahead is right: the machine was paused


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
