"""What waits in the history until it is delivered, on SQLite."""

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.store.history.database import Database
from dashboard.store.history.outbox import MOST_IN_MESSAGE, Notification, Outbox
from tests.builders import NOW

MINUTE = timedelta(minutes=1)
BLOCKS, HASHES = ("RT-01", "chat", "critical"), ("RT-05", "chat", "critical")


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    database = Database(f"sqlite:///{tmp_path / 'history.db'}")
    with database.written_by("prod"):
        pass
    return Outbox(database)


def waiting(outbox: Outbox, *notifications: Notification) -> None:
    outbox.save({}, notifications, ["hook"], 8, NOW)


def test_alerts_and_who_knows_them_are_remembered(outbox: Outbox) -> None:
    assert outbox.load(["hook"]) == ({}, frozenset(), None)
    outbox.save({BLOCKS: "{}", HASHES: "[]"}, [], ["hook"], 8, NOW)
    outbox.save({HASHES: None, BLOCKS: "{1}"}, [], [], 9, NOW)

    assert outbox.load(["hook", "other"]) == ({BLOCKS: "{1}"}, frozenset({"hook"}), 9)


def test_what_waits_for_a_removed_receiver_is_deleted(outbox: Outbox) -> None:
    waiting(outbox, Notification("hook", BLOCKS, "a"))
    assert outbox.load([])[1] == frozenset()
    assert outbox.pending() == {}


def test_a_later_notification_on_an_alert_replaces_one_that_is_in_no_message(outbox: Outbox) -> None:
    waiting(outbox, Notification("hook", BLOCKS, "begin"), Notification("hook", HASHES, "begin"))
    waiting(outbox, Notification("hook", BLOCKS, "end", is_end=True))
    message = outbox.next_message("hook", NOW)
    assert message is not None
    assert message.contents == ("begin", "end")

    waiting(outbox, Notification("hook", BLOCKS, "again"))
    assert outbox.next_message("hook", NOW) == message, "a message that was begun stays as it is"
    outbox.confirm(message, NOW)
    assert outbox.pending() == {"hook": 1}


def test_a_receiver_that_was_down_gets_the_end_between_two_begins(outbox: Outbox) -> None:
    waiting(outbox, Notification("hook", BLOCKS, "begin"))
    begun = outbox.next_message("hook", NOW)
    assert begun is not None
    for number in range(3):
        waiting(outbox, Notification("hook", BLOCKS, f"end {number}", is_end=True))
        waiting(outbox, Notification("hook", BLOCKS, f"begin {number}"))

    assert outbox.pending() == {"hook": 3}, "however often it came and went"
    outbox.confirm(begun, NOW)
    rest = outbox.next_message("hook", NOW + MINUTE)
    assert rest is not None
    assert (*begun.contents, *rest.contents) == ("begin", "end 2", "begin 2")


def test_a_pool_has_one_message_a_minute_also_when_the_clock_jumps_back(outbox: Outbox) -> None:
    waiting(outbox, Notification("hook", BLOCKS, "a"))
    message = outbox.next_message("hook", NOW)
    assert message is not None
    outbox.confirm(message, NOW)
    waiting(outbox, Notification("hook", BLOCKS, "b"))

    assert outbox.next_message("hook", NOW + MINUTE - timedelta(seconds=1)) is None
    assert outbox.next_message("hook", NOW + MINUTE) is not None
    outbox.load(["hook"])
    assert outbox.next_message("hook", NOW - timedelta(days=1)) is not None


def test_too_many_alerts_are_in_several_messages(outbox: Outbox) -> None:
    waiting(outbox, *[Notification("hook", (f"R-{number}", "chat", "info"), "x") for number in range(60)])
    message = outbox.next_message("hook", NOW)

    assert message is not None
    assert len(message.contents) == MOST_IN_MESSAGE
    outbox.confirm(message, NOW)
    assert outbox.pending() == {"hook": 10}


def test_receivers_do_not_wait_for_each_other(outbox: Outbox) -> None:
    waiting(outbox, Notification("hook", BLOCKS, "a"), Notification("other", BLOCKS, "a"))
    first, second = outbox.next_message("hook", NOW), outbox.next_message("other", NOW)

    assert first is not None
    assert second is not None
    assert first.id != second.id
    outbox.confirm(first, NOW)
    assert outbox.pending() == {"other": 1}
