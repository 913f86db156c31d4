"""A history that cannot be used for a while: an accepted message is not sent again, and nothing is forgotten."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from dashboard.config import WebhookOptions
from dashboard.errors import HistoryError
from dashboard.notify.alerts import Alert
from dashboard.notify.notifier import WebhookReceiver
from dashboard.notify.sending import ReceiverAnswer
from dashboard.store.history.database import Database
from dashboard.store.history.outbox import Message
from tests.builders import NOW
from tests.notify.machine import HOOK, OK, Process
from tests.notify.polls import FLEET, poll, problem


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(Database(f"sqlite:///{tmp_path / 'history.db'}"), FLEET, NOW)


def test_an_accepted_message_that_cannot_be_deleted_is_not_sent_again(process: Process, tmp_path: Path) -> None:
    process.poll(poll(0, problem()))
    receiver, sent, file = WebhookReceiver(HOOK, Counter()), [], tmp_path / "history.db"

    async def deliver(_options: WebhookOptions, _alerts: Sequence[Alert], message: Message) -> ReceiverAnswer:
        sent.append(message.id)
        file.rename(tmp_path / "gone.db")
        return OK

    with pytest.raises(HistoryError, match=r"There is no history"):
        asyncio.run(receiver.send(deliver, process.outbox, NOW))
    with pytest.raises(HistoryError, match=r"There is no history"):
        asyncio.run(receiver.send(deliver, process.outbox, NOW))
    (tmp_path / "gone.db").rename(file)
    assert asyncio.run(receiver.send(deliver, process.outbox, NOW)) is False

    assert len(sent) == 1
    assert process.outbox.pending() == {}


def test_what_a_poll_changed_while_the_history_was_gone_is_kept_with_the_next_poll(
    process: Process, tmp_path: Path
) -> None:
    file = tmp_path / "history.db"
    process.poll(poll(0))
    file.rename(tmp_path / "gone.db")
    with pytest.raises(HistoryError, match=r"There is no history"):
        process.poll(poll(0, problem()))
    (tmp_path / "gone.db").rename(file)
    process.poll(poll(0, problem()))
    process.drain()

    assert [[str(alert.event) for alert in each.alerts] for each in process.arrived] == [["new"]]


def test_a_damaged_notification_is_named(process: Process, tmp_path: Path) -> None:
    process.poll(poll(0, problem()))
    with sqlite3.connect(tmp_path / "history.db") as connection:
        connection.execute("UPDATE notification SET content = 'x'")
    connection.close()
    with pytest.raises(HistoryError, match=r"Alerts in the history are damaged"):
        process.send()
