"""The receivers of one configuration: each sends what is due, and remembers how that went."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from dashboard.config import AlertmanagerOptions, WebhookOptions
from dashboard.errors import HistoryError
from dashboard.fleet import ReceiverStatus
from dashboard.notify.alerts import Alert
from dashboard.notify.announcing import DAMAGED, read_alert
from dashboard.notify.sending import ALERTMANAGER, ReceiverAnswer, describe_receiver, host_of, kind_of
from dashboard.store.history.outbox import Message, Outbox

log = logging.getLogger(__name__)

LEAST_RETRY_SECONDS, FIRST_RETRY_SECONDS = 1.0, 5.0
MOST_RETRY_SECONDS = 3_600.0  # a receiver may ask for; without its wish 5 s are doubled MOST_DOUBLINGS times
MOST_DOUBLINGS = 7
MOST_IN_BODY = 200  # alerts that are sent to an Alertmanager at once, of a few KB each
OK, FAILED = "ok", "failed"  # outcomes in /metrics

Push = Callable[[AlertmanagerOptions, Sequence[Alert], datetime], Awaitable[ReceiverAnswer]]
Deliver = Callable[[WebhookOptions, Sequence[Alert], Message], Awaitable[ReceiverAnswer]]
Outcomes = Counter[tuple[str, str]]  # by kind and outcome


class Attempts:
    """How sending to one receiver went, and when it is tried again."""

    def __init__(self, outcomes: Outcomes) -> None:
        """Begin without an attempt."""
        self.succeeded_at: datetime | None = None
        self.error: str | None = None
        self._outcomes = outcomes
        self._tries = 0
        self._failed_at: datetime | None = None
        self._retry_at: datetime | None = None

    def may_send(self, now: datetime) -> bool:
        """Return whether no failure is too recent; a failure in the future is an old clock's."""
        if self._retry_at is None or self._failed_at is None:
            return True
        return now >= self._retry_at or now < self._failed_at

    def forget_failure(self) -> None:
        """Try again at once, as with other options."""
        self._tries, self._retry_at = 0, None

    def note(self, answered: ReceiverAnswer, now: datetime, kind: str, receiver: str, most_seconds: float) -> None:
        """Remember an answer. A failure is logged when it begins, changes and ends."""
        self._outcomes[kind, OK if answered.is_accepted else FAILED] += 1
        if answered.is_accepted:
            if self.error is not None:
                log.warning("notifications to %s are accepted again", receiver)
            self.succeeded_at, self.error = now, None
            self.forget_failure()
            return
        delay = FIRST_RETRY_SECONDS * 2**self._tries
        self._tries = min(self._tries + 1, MOST_DOUBLINGS)
        seconds = delay if answered.retry_seconds is None else answered.retry_seconds
        self._failed_at = now
        self._retry_at = now + timedelta(seconds=min(max(seconds, LEAST_RETRY_SECONDS), most_seconds))
        if answered.text != self.error:
            log.warning("a notification to %s failed: %s; it is sent again", receiver, answered.text)
        self.error = answered.text


class AlertmanagerReceiver:
    """Sends every alert again and again, with what ended lately."""

    def __init__(self, options: AlertmanagerOptions, outcomes: Outcomes) -> None:
        """Send nothing yet."""
        self.options = options
        self._attempts = Attempts(outcomes)
        self._sent_at: datetime | None = None
        self._revision = -1

    async def send(
        self, push: Push, alerts: Sequence[Alert], revision: int, now: datetime, interval: timedelta
    ) -> None:
        """Send all alerts where they changed (`revision`) or the interval is over.

        Longer pauses than the interval would let an Alertmanager resolve what fires.
        """
        is_recent = self._sent_at is not None and self._sent_at <= now < self._sent_at + interval
        if (is_recent and revision == self._revision) or not self._attempts.may_send(now):
            return
        for first in range(0, len(alerts), MOST_IN_BODY):
            answered = await push(self.options, alerts[first : first + MOST_IN_BODY], now)
            self._attempts.note(answered, now, ALERTMANAGER, describe_receiver(self.options), interval.total_seconds())
            if not answered.is_accepted:
                return
        self._sent_at, self._revision = now, revision

    def status(self) -> ReceiverStatus:
        """Return it for pages and metrics."""
        found = self._attempts
        return ReceiverStatus(ALERTMANAGER, "", host_of(self.options), found.succeeded_at, 0, found.error)


class WebhookReceiver:
    """Sends messages of the outbox one after another, each until it is accepted."""

    def __init__(self, options: WebhookOptions, outcomes: Outcomes) -> None:
        """Send nothing yet."""
        self.options = options
        self._attempts = Attempts(outcomes)
        self._accepted: Message | None = None  # and not yet deleted: it must not be sent again

    def use(self, options: WebhookOptions) -> None:
        """Send with other options to the same receiver."""
        if options != self.options:
            self.options = options
            self._attempts.forget_failure()

    async def send(self, deliver: Deliver, outbox: Outbox, now: datetime) -> bool:
        """Send one message; return whether it was accepted. Raise HistoryError where the outbox cannot be used."""
        self._confirm(outbox, now)
        if not self._attempts.may_send(now):
            return False
        message = outbox.next_message(self.options.label, now)
        if message is None:
            return False
        try:
            alerts = [read_alert(each) for each in message.contents]
        except ValueError:
            raise HistoryError(DAMAGED) from None
        options = self.options
        answered = await deliver(options, alerts, message)
        if answered.is_accepted:
            self._accepted = message
        self._attempts.note(answered, now, kind_of(options), describe_receiver(options), MOST_RETRY_SECONDS)
        self._confirm(outbox, now)
        return answered.is_accepted

    def status(self, pending: int, problem: str | None) -> ReceiverStatus:
        """Return it for pages and metrics; `problem` is that of the outbox."""
        options, found = self.options, self._attempts
        error = problem or options.problem or found.error
        return ReceiverStatus(kind_of(options), options.label, host_of(options), found.succeeded_at, pending, error)

    def _confirm(self, outbox: Outbox, now: datetime) -> None:
        if self._accepted is not None:
            outbox.confirm(self._accepted, now)
            self._accepted = None
