"""What receivers get, and the requests that carry it, within limits.

Alerts for Alertmanager's API, messages as its webhook body or as Slack's text. Neither the answer of a receiver nor its
URL, which may be a secret, gets into a log.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from dashboard.config import AlertmanagerOptions, NotifyOptions, Options, WebhookOptions
from dashboard.fleet.formatting import FAILURE_WORDS, count, end_cut, iso, one_line
from dashboard.notify.alerts import SUPPRESSION, Alert, AlertEvent
from dashboard.rules.findings import Severity
from dashboard.sources.http.client import Client
from dashboard.sources.http.credentials import ApiKey, authorized
from dashboard.sources.http.failures import endpoint_of
from dashboard.views import pages
from dashboard.views.filters import write_filter

ALERTS = "/api/v2/alerts"
TEST = "TEST"  # the rule and the pool of a test alert
ALERTMANAGER, WEBHOOK, SLACK = "alertmanager", "webhook", "slack"
SEND_SECONDS = 10.0
MAX_ANSWER_BYTES = 4 * 2**10
MAX_HEADERS = 128
SHOWN_CHARACTERS = 120
ACCEPTED = range(200, 300)
NO_KEY = ApiKey(missing="none is given; set authorization of this receiver in fleet.yaml")
ALERTNAME = "VLLMFleetFinding"  # with the prefix of the alerts in deploy/prometheus
LIFE_INTERVALS = 3  # of re-sending, until an Alertmanager that hears nothing more takes an alert for resolved
FIRING, RESOLVED = "firing", "resolved"
RECEIVER = "vllm-fleet-dashboard"
# The end of an alert that fires, in the webhook of Alertmanager (notify/webhook, template.Data): Go's zero time.
NO_END = "0001-01-01T00:00:00Z"
# FNV-1a, 64 bits: the fingerprint of labels (prometheus/common, model/fnv.go), in which SEPARATOR ends each text.
FNV_OFFSET, FNV_PRIME, SEPARATOR = 0xCBF29CE484222325, 0x100000001B3, 0xFF
MOST_IN_SLACK = 10  # alerts that a text describes: Slack cuts it at 40,000 characters; the others have a line each
MOST_SLACK_LINES = 3  # findings of an alert
MOST_SLACK_CHARACTERS = 300  # of a line
ICONS = {Severity.CRITICAL: ":red_circle:", Severity.WARNING: ":large_orange_circle:", Severity.INFO: ":white_circle:"}
ENDED_ICONS = {AlertEvent.RESOLVED: ":white_check_mark:", AlertEvent.SUPPRESSED: ":no_bell:"}
SLACK_PARTS = ("impact", "action")


def labels_of(alert: Alert) -> dict[str, str]:
    """Return the labels of an alert: what does not change while it lasts."""
    return {
        "alertname": ALERTNAME,
        "rule": alert.rule,
        **({"cluster": alert.cluster} if alert.cluster else {}),
        "pool": alert.pool,
        "severity": str(alert.severity),
        "fleet": alert.fleet,
    }


def alertmanager_body(alerts: Iterable[Alert], now: datetime, notify: NotifyOptions) -> Any:
    """Return alerts as POST /api/v2/alerts takes them; those that ended too."""
    ends_at = now + LIFE_INTERVALS * timedelta(seconds=notify.resend_seconds)
    return [
        {
            "labels": labels_of(each),
            "annotations": annotations_of(each, notify),
            "startsAt": _time(each.since),
            "endsAt": _time(each.until or ends_at),
            **({"generatorURL": finding_url(each, notify)} if notify.external_url else {}),
        }
        for each in alerts
    ]


def annotations_of(alert: Alert, notify: NotifyOptions) -> dict[str, str]:
    """Return what is known of an alert beside its labels, each not empty."""
    found = {
        **alert.annotations,
        "since": iso(alert.since),
        "runbook_url": _runbook_url(alert, notify) if alert.finding else "",  # a test has none
        "dashboard_url": finding_url(alert, notify) if notify.external_url else "",
    }
    return {name: text for name, text in found.items() if text}


def _runbook_url(alert: Alert, notify: NotifyOptions) -> str:
    """Return the page of an alert's rule, as deploy/prometheus has it; without docs the findings of the rule."""
    if notify.docs_url:
        return f"{notify.docs_url}/rules/{alert.rule}/"
    asked = urlencode({pages.SEARCH: write_filter("rule", alert.rule)})
    return f"{notify.external_url}/{pages.FINDINGS}?{asked}" if notify.external_url else ""


def finding_url(alert: Alert, notify: NotifyOptions) -> str:
    """Return the permalink of an alert's first finding, at the poll that its text is of; of a test the page Status."""
    if not alert.finding:
        return f"{notify.external_url}/{pages.STATUS}"
    asked = urlencode({pages.FINDING: alert.finding, pages.AT: iso(alert.at)})
    return f"{notify.external_url}/{pages.FINDINGS}?{asked}"


def group_key(fleet: str, pool: str) -> str:
    """Return what is the same in all messages of a pool, as Alertmanager writes the key of a group."""
    return f"{{}}:{{fleet={json.dumps(fleet)}, pool={json.dumps(pool)}}}"


def webhook_body(alerts: Sequence[Alert], notify: NotifyOptions) -> Any:
    """Return a message in version 4 of Alertmanager's webhook body; `alerts` are of one pool, and at least one."""
    labels = [labels_of(each) for each in alerts]
    annotations = [_webhook_annotations(each, notify) for each in alerts]
    group = {name: labels[0][name] for name in ("fleet", "pool")}
    return {
        "version": "4",
        "groupKey": group_key(**group),
        "truncatedAlerts": 0,
        "status": RESOLVED if all(each.until for each in alerts) else FIRING,
        "receiver": RECEIVER,
        "groupLabels": group,
        "commonLabels": _common(labels),
        "commonAnnotations": _common(annotations),
        "externalURL": notify.external_url or "",
        "alerts": [
            {
                "status": RESOLVED if each.until else FIRING,
                "labels": own,
                "annotations": notes,
                "startsAt": _time(each.since),
                "endsAt": _time(each.until) if each.until else NO_END,
                "generatorURL": finding_url(each, notify) if notify.external_url else "",
                "fingerprint": label_fingerprint(own),
            }
            for each, own, notes in zip(alerts, labels, annotations, strict=True)
        ],
    }


def slack_body(alerts: Sequence[Alert], notify: NotifyOptions) -> Any:
    """Return a message for Slack's incoming webhook; `alerts` are of one pool, and at least one."""
    events = Counter(each.event for each in alerts)
    counts = ", ".join(f"{events[event]} {event}" for event in AlertEvent if events[event])
    parts = [f"*{_slack(alerts[0].fleet)} / {_slack(alerts[0].pool)}: {counts}*"]
    parts += ["\n".join(_slack_lines(each, notify)) for each in alerts[:MOST_IN_SLACK]]
    parts += ["\n".join(_slack_title(each) for each in alerts[MOST_IN_SLACK:])]
    return {"text": "\n\n".join(filter(None, parts)), "unfurl_links": False}


def label_fingerprint(labels: Mapping[str, str]) -> str:
    """Return the fingerprint of labels as Alertmanager computes it."""
    digest = FNV_OFFSET
    for text in (text for pair in sorted(labels.items()) for text in pair):
        for byte in (*text.encode(), SEPARATOR):
            digest = (digest ^ byte) * FNV_PRIME % 2**64
    return f"{digest:016x}"


def _webhook_annotations(alert: Alert, notify: NotifyOptions) -> dict[str, str]:
    was = {"previous_severity": str(alert.was)} if alert.was else {}
    return {**annotations_of(alert, notify), "event": str(alert.event), **was}


def _slack_lines(alert: Alert, notify: NotifyOptions) -> Iterable[str]:
    yield _slack_title(alert)
    yield from map(_slack, alert.annotations.get("description", "").splitlines()[:MOST_SLACK_LINES])
    until = f" until {iso(alert.until)}" if alert.until else ""
    yield f"Since {iso(alert.since)}{until}"
    if alert.event is AlertEvent.SUPPRESSED:
        yield _slack(alert.annotations.get(SUPPRESSION, ""))
    if not alert.until:
        yield from (_slack(alert.annotations.get(name, "").replace("\n", " ")) for name in SLACK_PARTS)
    if notify.external_url:
        yield f"<{_escaped(finding_url(alert, notify))}|Open the finding at {iso(alert.at)}>"


def _slack_title(alert: Alert) -> str:
    was = f", was {alert.was}" if alert.was else ""
    spread = (
        f", now on {count(len(alert.replicas), 'replica')}" if alert.event is AlertEvent.WORSE and not alert.was else ""
    )
    title = (
        f"{str(alert.event).capitalize()}: {alert.severity}{was}{spread}, {alert.annotations.get('title', alert.rule)}"
    )
    icon = ENDED_ICONS.get(alert.event, ICONS[alert.severity])
    return f"{icon} *{_slack(title)}*"


def _slack(text: str) -> str:
    """Return foreign text for a line of Slack's mrkdwn."""
    return _escaped(end_cut(text, MOST_SLACK_CHARACTERS))


def _escaped(text: str) -> str:
    """Escape the characters that begin links and mentions in Slack.

    https://docs.slack.dev/messaging/formatting-message-text
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _common(found: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return what all have with one value."""
    first, *others = found
    return {name: text for name, text in first.items() if all(each.get(name) == text for each in others)}


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S.%f}Z"


class ReceiverAnswer(NamedTuple):
    """What a receiver answered: a short text without its URL, and the seconds until it wants to be asked again."""

    is_accepted: bool
    text: str
    retry_seconds: float | None = None
    said: str = ""  # the beginning of its body, foreign text


def client() -> Client:
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


async def push(
    client: Client, options: AlertmanagerOptions, alerts: Iterable[Alert], notify: NotifyOptions, now: datetime
) -> ReceiverAnswer:
    return await _post(client, options, f"{options.url}{ALERTS}", alertmanager_body(alerts, now, notify))


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
    async with client() as http:
        for each in notify.alertmanagers:
            yield each, await push(http, each, [alert], notify, now)
        for one in notify.webhooks:
            yield one, await deliver(http, one, [alert], notify, f"test-{now:%Y%m%d%H%M%S}")
