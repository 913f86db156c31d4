"""A notifier in a loop of its own, as in the collector, fed with polls from the test's thread."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from dashboard.analysis.assembly import NO_LIVES, Fleet
from dashboard.analysis.lifecycle import with_lives
from dashboard.config import Options
from dashboard.notify.notifier import Notifier


class Running:
    """A notifier that runs."""

    def __init__(self, notifier: Notifier, loop: asyncio.AbstractEventLoop) -> None:
        self.notifier, self._loop, self._lives = notifier, loop, NO_LIVES

    def polled(self, fleet: Fleet, **more: Any) -> None:
        """Hear of a poll with the lives of its findings, and return afterwards."""
        fleet = with_lives(fleet, self._lives)
        self._lives = fleet.lives
        self.call(lambda: self.notifier.polled(fleet, **more))

    def call(self, function: Callable[[], None]) -> None:
        """Run something in the notifier's thread."""
        done = threading.Event()

        def run() -> None:
            function()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(30)


@contextmanager
def running(options: dict[str, Any], clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Iterator[Running]:
    """Run a notifier with these options."""
    notifier = Notifier(Options.model_validate(options), clock)
    loop = asyncio.new_event_loop()
    task = loop.create_task(notifier.run())

    def run() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield Running(notifier, loop)
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(30)
