"""Time that replicas have: what this process spends on something else does not count against them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

BEAT_SECONDS = 0.05  # a beat that is later than this shows that the event loop was busy


class Patience:
    """A clock, and timeouts, that pause while the event loop is too busy to see an answer."""

    def __init__(self) -> None:
        self._late = 0.0
        self._due = 0.0
        self._open: set[asyncio.Timeout] = set()
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to measure the running event loop."""
        self._due = asyncio.get_running_loop().time() + BEAT_SECONDS
        self._next = asyncio.get_running_loop().call_at(self._due, self._beat)

    def stop(self) -> None:
        """End the measurement."""
        if self._next is not None:
            self._next.cancel()

    def time(self) -> float:
        """Return seconds of a clock that pauses with the event loop."""
        return asyncio.get_running_loop().time() - self._late

    @asynccontextmanager
    async def timeout(self, seconds: float) -> AsyncIterator[None]:
        """Raise TimeoutError after that many seconds of this clock."""
        async with asyncio.timeout(seconds) as timeout:
            self._open.add(timeout)
            try:
                yield
            finally:
                self._open.discard(timeout)

    def _beat(self) -> None:
        """Extend all timeouts by what this call is late: it runs before those that passed meanwhile."""
        late = asyncio.get_running_loop().time() - self._due
        if late > BEAT_SECONDS:
            self._late += late
            for timeout in self._open:
                when = timeout.when()
                if when is not None and not timeout.expired():
                    timeout.reschedule(when + late)
        self.start()
