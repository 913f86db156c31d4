"""One request to a receiver, within limits. Neither its answer nor its URL, which may be a secret, gets into a log."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from dashboard.config import AlertmanagerOptions, NotifyOptions, Options, WebhookOptions
from dashboard.fleet.formatting import FAILURE_WORDS, end_cut, one_line
from dashboard.notify.alerts import Alert
from dashboard.notify.bodies import alertmanager_body, slack_body, webhook_body
from dashboard.rules.findings import Severity
from dashboard.sources.http.client import Client
from dashboard.sources.http.credentials import ApiKey, authorized
from dashboard.sources.http.failures import endpoint_of

ALERTS = "/api/v2/alerts"
TEST = "TEST"  # the rule and the pool of a test alert
ALERTMANAGER, WEBHOOK, SLACK = "alertmanager", "webhook", "slack"
SEND_SECONDS = 10.0
MAX_ANSWER_BYTES = 4 * 2**10
MAX_HEADERS = 128
SHOWN_CHARACTERS = 120
ACCEPTED = range(200, 300)
NO_KEY = ApiKey(missing="none is given; set authorization of this receiver in fleet.yaml")


class ReceiverAnswer(NamedTuple):
    """What a receiver answered: a short text without its URL, and the seconds until it wants to be asked again."""

    is_accepted: bool
    text: str
    retry_seconds: float | None = None
    said: str = ""  # the beginning of its body, foreign text


def client() -> Client:
    """Return the client of all receivers."""
    return Client(connections=10, max_answer_bytes=MAX_ANSWER_BYTES, max_headers=MAX_HEADERS)


def kind_of(options: WebhookOptions) -> str:
    """Return the kind of a webhook, as metrics and pages name it."""
    return SLACK if options.format == SLACK else WEBHOOK


def host_of(options: AlertmanagerOptions | WebhookOptions) -> str:
    """Return the host and the port of a receiver, all that may be shown of its URL; empty where it has none."""
    if isinstance(options, AlertmanagerOptions):
        return endpoint_of(options.url).where
    return "" if options.problem else endpoint_of(options.find_url()).where


def describe_receiver(options: AlertmanagerOptions | WebhookOptions) -> str:
    """Return a receiver as logs name it, and as `alert-test` prints it: `slack SLACK_URL (hooks.slack.com)`."""
    host = host_of(options)
    if isinstance(options, AlertmanagerOptions):
        return f"{ALERTMANAGER} ({host})"
    name = f"{kind_of(options)} {one_line(options.label)}"
    return name if host in {"", options.label} else f"{name} ({host})"


async def push(client: Client, options: AlertmanagerOptions, body: Any) -> ReceiverAnswer:
    """Send alerts to an Alertmanager."""
    return await _post(client, options, f"{options.url}{ALERTS}", body)


async def deliver(
    client: Client, options: WebhookOptions, alerts: Sequence[Alert], notify: NotifyOptions, message: str
) -> ReceiverAnswer:
    """Send a message to a webhook; a repeated one has the same id."""
    try:
        address = options.find_url()
    except ValueError as error:
        return ReceiverAnswer(is_accepted=False, text=str(error))
    body = slack_body(alerts, notify) if options.format == SLACK else webhook_body(alerts, notify)
    return await _post(client, options, address, body, {"Idempotency-Key": message})


async def _post(
    client: Client,
    options: AlertmanagerOptions | WebhookOptions,
    url: str,
    body: Any,
    headers: Mapping[str, str] | None = None,
) -> ReceiverAnswer:
    endpoint, own = endpoint_of(url), options.authorization
    answer = await client.fetch(
        endpoint,
        SEND_SECONDS,
        limit=MAX_ANSWER_BYTES,
        key=authorized(own, NO_KEY),
        ca_file=own.ca_file if own else None,
        headers=[(name.encode(), text.encode()) for name, text in (headers or {}).items()],
        json=json.dumps(body).encode(),
    )
    hidden = (f"{endpoint.path}{endpoint.query}", endpoint.path, endpoint.query.removeprefix("?"))
    text = answer.body.decode(errors="replace")
    for secret in filter(lambda each: len(each) > 1, hidden):
        text = text.replace(secret, "***")
    said = end_cut(text.strip(), SHOWN_CHARACTERS)
    if answer.status is not None:
        is_accepted = answer.status in ACCEPTED
        return ReceiverAnswer(
            is_accepted, f"status {answer.status}", None if is_accepted else _seconds(answer.retry_after), said
        )
    return ReceiverAnswer(is_accepted=False, text=FAILURE_WORDS[answer.failure.kind] if answer.failure else "no answer")


def _seconds(retry_after: str | None) -> float | None:
    """Return the seconds of a header Retry-After, a number or a date (RFC 9110, 10.2.3); None for another text."""
    if retry_after is None:
        return None
    try:
        seconds = float(int(retry_after[:SHOWN_CHARACTERS]))
    except ValueError:
        try:
            time = parsedate_to_datetime(retry_after[:SHOWN_CHARACTERS])
            seconds = (time.replace(tzinfo=time.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(seconds, 0.0)


def trial_alert(fleet: str, now: datetime) -> Alert:
    """Return the alert that is sent."""
    text = "This is a test of notifications. Nothing is wrong."
    return Alert(
        fleet=end_cut(fleet),
        cluster="",
        rule=TEST,
        pool=TEST.lower(),
        severity=Severity.INFO,
        since=now,
        at=now,
        finding="",
        fingerprints=(),
        pools=(),
        replicas=(),
        annotations={"title": "Test", "summary": text, "description": text, "action": "Nothing to do."},
    )


async def try_receivers(
    options: Options, now: datetime
) -> AsyncIterator[tuple[AlertmanagerOptions | WebhookOptions, ReceiverAnswer]]:
    """Send the test alert to each receiver, and yield what it answered."""
    notify, alert = options.notify, trial_alert(options.name, now)
    body = alertmanager_body([alert], now, timedelta(seconds=notify.resend_seconds), notify)
    async with client() as http:
        for each in notify.alertmanagers:
            yield each, await push(http, each, body)
        for one in notify.webhooks:
            yield one, await deliver(http, one, [alert], notify, f"test-{now:%Y%m%d%H%M%S}")
