"""Deliver what waits in a history to a URL, and die by SIGKILL between its answer and the commit where told to.

Run it with `python -m tests.notify.killed_notifier FOLDER URL [kill]`. It plants the same finding at each run.
"""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from dashboard.config import NotifyOptions, WebhookOptions
from dashboard.notify.alerts import Alert, alerts_of
from dashboard.notify.announcing import Announcer
from dashboard.notify.notifier import WebhookReceiver
from dashboard.notify.sending import ReceiverAnswer, client, deliver
from dashboard.store.history.database import Database
from dashboard.store.history.outbox import Message, Outbox
from tests.notify.polls import FLEET, poll, problem


async def run(folder: Path, url: str, *, dies: bool) -> None:
    """Announce one poll, and deliver one message."""
    database = Database(f"sqlite:///{folder / 'history.db'}")
    with database.written_by(FLEET.name):
        pass  # it makes the schema
    options = WebhookOptions.model_validate({"url": url})
    outbox, now = Outbox(database), datetime.now(UTC)
    fleet = poll(0, problem())
    Announcer(outbox, [options]).polled(alerts_of(fleet, now), fleet, now)
    async with client() as http:

        async def send(own: WebhookOptions, alerts: Sequence[Alert], message: Message) -> ReceiverAnswer:
            answered = await deliver(http, own, alerts, NotifyOptions(), message.id)
            if dies and answered.is_accepted:
                os.kill(os.getpid(), signal.SIGKILL)
            return answered

        print(await WebhookReceiver(options, Counter()).send(send, outbox, now))


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2], dies=sys.argv[3:] == ["kill"]))
