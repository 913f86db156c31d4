"""A test alert for every configured receiver. It is not kept: it is sent once."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import NamedTuple

from dashboard.config import Options
from dashboard.fleet.formatting import end_cut
from dashboard.notify.alerts import Alert
from dashboard.notify.bodies import alertmanager_body, links_of
from dashboard.notify.sending import ALERTMANAGER, ReceiverAnswer, client, deliver, host_of, kind_of, push
from dashboard.rules.findings import Severity

TEST = "TEST"  # the rule and the pool of the alert


class ReceiverTrial(NamedTuple):
    """What a receiver answered."""

    kind: str
    name: str
    host: str
    answer: ReceiverAnswer


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


async def try_receivers(options: Options, now: datetime) -> AsyncIterator[ReceiverTrial]:
    """Send the test alert to each receiver, and yield what it answered."""
    alert, notify = trial_alert(options.name, now), options.notify
    links = links_of(notify)
    body = alertmanager_body([alert], now, timedelta(seconds=notify.resend_seconds), links)
    async with client() as http:
        for each in notify.alertmanagers:
            yield ReceiverTrial(ALERTMANAGER, "", host_of(each), await push(http, each, body))
        for one in notify.webhooks:
            answer = await deliver(http, one, [alert], links, f"test-{now:%Y%m%d%H%M%S}")
            yield ReceiverTrial(kind_of(one), one.label, host_of(one), answer)
