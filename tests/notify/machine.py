"""Webhooks under a simulated clock: polls, receivers that fail, and a process that dies at any point."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.config import WebhookOptions
from dashboard.notify.alerts import Alert, alerts_of
from dashboard.notify.announcing import Announcer
from dashboard.notify.notifier import WebhookReceiver
from dashboard.notify.sending import ReceiverAnswer
from dashboard.store.history.database import Database
from dashboard.store.history.outbox import Message, Outbox

OK = ReceiverAnswer(is_accepted=True, text="status 200")
REFUSED = ReceiverAnswer(is_accepted=False, text="status 500")
BUSY = ReceiverAnswer(is_accepted=False, text="status 429", retry_seconds=30)
# The answer did not arrive, because the process died.
DIES_BEFORE, DIES_AFTER = "dies before the request", "dies between the answer and the commit"
HOOK = WebhookOptions(url_env="HOOK")


class DeathError(BaseException):
    """The process dies here: nothing of it is executed any more."""


class Arrived(NamedTuple):
    """A message that a receiver accepted."""

    at: datetime
    message: str
    pool: str
    alerts: tuple[Alert, ...]


class Process:
    """The notifications of one process after another, on one database. `now` is the clock, also of the polls."""

    def __init__(
        self, database: Database, fleet: Fleet, now: datetime, webhooks: Sequence[WebhookOptions] = (HOOK,)
    ) -> None:
        with database.written_by(fleet.name):
            pass  # it makes the schema
        self.database, self.now, self.webhooks = database, now, tuple(webhooks)
        self.arrived: list[Arrived] = []
        self.deaths = 0
        self.start()

    def start(self) -> None:
        """Begin with an empty memory."""
        self.outbox = Outbox(self.database)
        self._announcer = Announcer(self.outbox, self.webhooks)
        self._receivers = [WebhookReceiver(each, Counter()) for each in self.webhooks]

    def poll(self, fleet: Fleet) -> None:
        """Hear of a poll at the time of the clock."""
        self._announcer.polled(alerts_of(fleet, self.now), fleet, self.now)

    def send(self, answer: ReceiverAnswer | str = OK) -> bool:
        """Let each receiver send what is due, once; return whether a message was accepted."""
        accepted = [asyncio.run(self._send(each, answer)) for each in self._receivers]  # each of them, also after one
        return any(accepted)

    def drain(self) -> None:
        """Let an hour pass in which every receiver accepts."""
        ends_at = self.now + timedelta(hours=1)
        while self.outbox.pending() and self.now < ends_at:
            self.now += timedelta(seconds=30)
            while self.send():
                pass

    async def _send(self, receiver: WebhookReceiver, answer: ReceiverAnswer | str) -> bool:
        async def deliver(_options: WebhookOptions, alerts: Sequence[Alert], message: Message) -> ReceiverAnswer:
            if answer == DIES_BEFORE:
                raise DeathError
            if answer in {OK, DIES_AFTER}:
                self.arrived.append(Arrived(self.now, message.id, message.pool, tuple(alerts)))
            if isinstance(answer, str):
                raise DeathError
            return answer

        try:
            return await receiver.send(deliver, self.outbox, self.now)
        except DeathError:
            self.deaths += 1
            self.start()
            return False
