"""The notifier of the collector: it hears of every poll, and sends in between. Nothing of it ever ends the polling.

Each receiver sends what is due, and remembers how that went.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

from dashboard.analysis.assembly import Fleet
from dashboard.config import AlertmanagerOptions, NotifyOptions, Options, WebhookOptions
from dashboard.errors import HistoryError
from dashboard.fleet import ReceiverStatus
from dashboard.notify.alerts import Alert, AlertKey, Alerts, alerts_of, compare_alerts
from dashboard.notify.announcing import DAMAGED, Announcer
from dashboard.notify.sending import (
    ALERTMANAGER,
    LIFE_INTERVALS,
    ReceiverAnswer,
    client,
    deliver,
    describe_receiver,
    host_of,
    kind_of,
    push,
)
from dashboard.rules.findings import Inspection
from dashboard.sources.http.client import Client
from dashboard.store.history.outbox import Message, Outbox
from dashboard.store.history.recording import configured_database

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between looks for what is due
PAUSE_SECONDS = 60.0  # of a receiver after an internal error
LEAST_RETRY_SECONDS, FIRST_RETRY_SECONDS = 1.0, 5.0
MOST_RETRY_SECONDS = 3_600.0  # a receiver may ask for; without its wish 5 s are doubled MOST_DOUBLINGS times
MOST_DOUBLINGS = 7
MOST_IN_BODY = 200  # alerts that are sent to an Alertmanager at once, of a few KB each
OK, FAILED = "ok", "failed"  # outcomes in /metrics

Deliver = Callable[[WebhookOptions, Sequence[Alert], Message], Awaitable[ReceiverAnswer]]
Outcomes = Counter[tuple[str, str]]  # by kind and outcome


class Attempts:
    """How sending to one receiver went, and when it is tried again."""

    def __init__(self, outcomes: Outcomes) -> None:
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
        self.options = options
        self._attempts = Attempts(outcomes)
        self._sent_at: datetime | None = None
        self._revision = -1

    async def send(self, http: Client, notify: NotifyOptions, pushed: "PushedAlerts", now: datetime) -> None:
        """Send all alerts where they changed or the interval of re-sending is over.

        Longer pauses than the interval would let an Alertmanager resolve what fires.
        """
        interval, revision = timedelta(seconds=notify.resend_seconds), pushed.revision
        alerts = pushed.alerts(now, interval)
        is_recent = self._sent_at is not None and self._sent_at <= now < self._sent_at + interval
        if (is_recent and revision == self._revision) or not self._attempts.may_send(now):
            return
        for first in range(0, len(alerts), MOST_IN_BODY):
            answered = await push(http, self.options, alerts[first : first + MOST_IN_BODY], notify, now)
            self._attempts.note(answered, now, ALERTMANAGER, describe_receiver(self.options), interval.total_seconds())
            if not answered.is_accepted:
                return
        self._sent_at, self._revision = now, revision

    def status(self) -> ReceiverStatus:
        found = self._attempts
        return ReceiverStatus(ALERTMANAGER, "", host_of(self.options), found.succeeded_at, 0, found.error)


class WebhookReceiver:
    """Sends messages of the outbox one after another, each until it is accepted."""

    def __init__(self, options: WebhookOptions, outcomes: Outcomes) -> None:
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
            alerts = [Alert.model_validate_json(each) for each in message.contents]
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


class Notifier:
    """Sends the findings of the polls that it hears of. It lives in the loop of the collector."""

    def __init__(self, options: Options, clock: Callable[[], datetime]) -> None:
        """Send nothing yet. `clock` gives UTC times."""
        self.outcomes: Outcomes = Counter()
        self._options = options
        self._clock = clock
        self._is_collector = self._follows = False  # until the first poll
        self._alerts: tuple[Inspection | None, Alerts] = (None, {})
        self._pushed = PushedAlerts()
        self._alertmanagers: tuple[AlertmanagerReceiver, ...] = ()
        self._webhooks: tuple[WebhookReceiver, ...] = ()
        self._outbox: Outbox | None = None
        self._announcer: Announcer | None = None
        self._pending: Mapping[str, int] = {}  # by label of a webhook
        self._problem: str | None = None  # why webhooks get nothing
        self._look = asyncio.Event()
        self._sending: dict[AlertmanagerReceiver | WebhookReceiver, asyncio.Task[None]] = {}
        self.use(options)

    def use(self, options: Options) -> None:
        """Notify the receivers of other options. What fires goes on; a receiver that stays keeps what it waits for."""
        notify, self._options = options.notify, options
        pushing = {each.options: each for each in self._alertmanagers}
        self._alertmanagers = tuple(
            pushing.get(each) or AlertmanagerReceiver(each, self.outcomes) for each in notify.alertmanagers
        )
        delivering = {each.options.label: each for each in self._webhooks}
        self._webhooks = tuple(
            delivering.get(each.label) or WebhookReceiver(each, self.outcomes) for each in notify.webhooks
        )
        for receiver, own in zip(self._webhooks, notify.webhooks, strict=True):
            receiver.use(own)
        self._announcer = None  # it reads again who is known
        for each in self.receivers:  # a counter that begins at 0 shows its first increase
            self.outcomes.update({(each.kind, OK): 0, (each.kind, FAILED): 0})

    @property
    def receivers(self) -> tuple[ReceiverStatus, ...]:
        """Return the status of each receiver, in the order of the options."""
        webhooks = (each.status(self._pending.get(each.options.label, 0), self._problem) for each in self._webhooks)
        found = (*(each.status() for each in self._alertmanagers), *webhooks)
        return tuple(each._replace(pending=None) for each in found) if self._follows else found

    def polled(self, fleet: Fleet, *, is_collector: bool = True, problem: str | None = None) -> None:
        """Hear of a poll. Only the collector sends; `problem` is why the history did not record the poll."""
        self._is_collector, self._follows = is_collector, not is_collector
        if not is_collector:  # the one that is knows more, until this one is again
            self._pushed, self._announcer, self._problem = PushedAlerts(), None, None
        elif fleet.polled_at is not None and self._options.notify.has_receivers:
            try:
                self._hear(fleet, fleet.polled_at, problem)
            except Exception:  # it must not end the polling
                log.exception("a poll was not announced")

    def _hear(self, fleet: Fleet, at: datetime, problem: str | None) -> None:
        if self._alerts[0] is not fleet.inspection:
            self._alerts = (fleet.inspection, alerts_of(fleet, at))
        now = self._alerts[1]
        self._pushed.polled(now, fleet, at)
        if self._webhooks:
            self._problem = problem or self._announce(now, fleet, at)
        self._look.set()

    def _announce(self, now: Alerts, fleet: Fleet, at: datetime) -> str | None:
        """Keep what webhooks are to get; return why that failed."""
        try:
            if self._outbox is None:
                self._outbox = Outbox(configured_database(self._options))
            is_new = self._announcer is None
            self._announcer = self._announcer or Announcer(self._outbox, [each.options for each in self._webhooks])
            if self._announcer.polled(now, fleet, at) or is_new:
                self._pending = self._outbox.pending()
        except HistoryError as error:
            self._announcer = None  # it reads again what was kept
            return str(error)
        return None

    async def run(self) -> None:
        """Send what is due until cancelled."""
        try:
            async with client() as http:
                while True:
                    if self._is_collector:
                        self._send_due(http)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_SECONDS):  # wait_for of Python 3.11 can lose a cancellation
                            await self._look.wait()
                    self._look.clear()
        finally:
            for task in self._sending.values():
                task.cancel()
            await asyncio.gather(*self._sending.values(), return_exceptions=True)

    def _send_due(self, http: Client) -> None:
        """Begin to send to each receiver that has something and is not busy: a slow one delays no other."""
        for each in self._alertmanagers:
            self._begin(each, self._push_to(each, http))
        for one in self._webhooks:
            if self._outbox is not None and self._problem is None and self._pending.get(one.options.label):
                self._begin(one, self._deliver_to(one, http, self._outbox))

    def _begin(self, receiver: AlertmanagerReceiver | WebhookReceiver, sending: Coroutine[None, None, None]) -> None:
        if receiver in self._sending:
            sending.close()
            return
        task = asyncio.create_task(sending)
        self._sending[receiver] = task
        task.add_done_callback(lambda _: self._sending.pop(receiver, None))

    async def _push_to(self, receiver: AlertmanagerReceiver, http: Client) -> None:
        async with _throttled():
            await receiver.send(http, self._options.notify, self._pushed, self._clock())

    async def _deliver_to(self, receiver: WebhookReceiver, http: Client, outbox: Outbox) -> None:
        notify = self._options.notify

        async def send(options: WebhookOptions, alerts: Sequence[Alert], message: Message) -> ReceiverAnswer:
            return await deliver(http, options, alerts, notify, message.id)

        async with _throttled():
            try:
                while await receiver.send(send, outbox, self._clock()):
                    self._pending = outbox.pending()
            except HistoryError as error:
                self._problem = str(error)  # until the next poll that is kept
                log.warning("notifications wait: %s", error)


@asynccontextmanager
async def _throttled() -> AsyncIterator[None]:
    """Log an internal error, which must not end the sending to others, and keep its receiver busy for a while."""
    try:
        yield
    except Exception:
        log.exception("a notification was not sent; it is tried again")
        await asyncio.sleep(PAUSE_SECONDS)


class PushedAlerts:
    """What Alertmanagers get: the alerts that fire, and those that ended lately. `revision` grows when they change."""

    def __init__(self) -> None:
        self.revision = 0
        self._firing: Alerts = {}
        self._ended: dict[AlertKey, Alert] = {}

    def polled(self, now: Alerts, fleet: Fleet, at: datetime) -> None:
        """Hear of the poll at `at`, whose alerts are `now`."""
        step = compare_alerts(self._firing, now, fleet, at)
        self._firing = step.firing
        self._ended |= {each.key: each for each in step.ended}
        self._ended = {key: each for key, each in self._ended.items() if key not in step.firing}
        self.revision += bool(step.new or step.ended)

    def alerts(self, now: datetime, interval: timedelta) -> list[Alert]:
        """Return what to send at a time. What ended is repeated as long as an Alertmanager would have remembered it."""
        self._ended = {
            key: each
            for key, each in self._ended.items()
            if each.until and now < each.until + LIFE_INTERVALS * interval
        }
        return [*self._firing.values(), *self._ended.values()]
