"""The time limit of one read of a source or a router."""

import asyncio

from dashboard.errors import UnreadableError


class Deadline:
    """Ends that many seconds from now. Time of this process counts: what reads answers slowly must not go on."""

    def __init__(self, seconds: float) -> None:
        """Begin now, by the clock of the running event loop."""
        self._seconds = seconds
        self._ends_at = asyncio.get_running_loop().time() + seconds

    def left(self) -> float:
        """Return the seconds that are left. Raise UnreadableError with a sentence where there are none."""
        left = self._ends_at - asyncio.get_running_loop().time()
        if left <= 0:
            raise UnreadableError("timeout", f"takes longer than {self._seconds:.3g} s to read")
        return left
