"""Notifications that wait in the history until they are delivered, and the alerts that were announced."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, delete, func, select, update

from dashboard.store.history.database import Database
from dashboard.store.history.schema import alert, meta, notification, notified

RULE_SET_KEY = "notified_rule_set"  # in `meta`
POOL_PAUSE = timedelta(minutes=1)  # between two messages on one pool to one receiver
MOST_IN_MESSAGE = 50  # notifications; the others are in the next message
ID_BYTES = 8
NO_POOL = ""  # in `notified`: since when a receiver is known

RowKey = tuple[str, str, str]  # rule, pool, severity


class Notification(NamedTuple):
    """An alert for a receiver, as JSON, or its end. What is in no message yet of the same alert it replaces.

    Only its begin does not replace an end: a receiver that knows the alert gets both, or it would begin twice.
    """

    receiver: str
    key: RowKey
    content: str
    is_end: bool = False


class Message(NamedTuple):
    """Notifications that are sent together, again and again with the same id and content until one is accepted."""

    id: str
    receiver: str
    pool: str
    contents: tuple[str, ...]


class Outbox:
    """The tables of notifications. Each method is one transaction, and raises HistoryError where that fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self, receivers: Iterable[str]) -> tuple[Mapping[RowKey, str], frozenset[str], int | None]:
        """Return the alerts, as JSON, that an earlier process announced, to whom, and by which rule set, if any.

        Delete what waits for receivers that there are no longer.
        """
        wanted = [*receivers]
        with self._database.maintained() as connection, connection.begin():
            for table in (notification, notified):
                connection.execute(delete(table).where(table.c.receiver.not_in(wanted)))
            rows = connection.execute(select(alert.c.rule, alert.c.pool, alert.c.severity, alert.c.content))
            known = {(rule, pool, severity): content for rule, pool, severity, content in rows}
            found = connection.scalars(select(notified.c.receiver).where(notified.c.pool == NO_POOL))
            rule_set = connection.scalar(select(meta.c.value).where(meta.c.key == RULE_SET_KEY))
            return known, frozenset(found), None if rule_set is None else int(rule_set)

    def save(
        self,
        changed: Mapping[RowKey, str | None],
        notifications: Sequence[Notification],
        receivers: Iterable[str],
        rule_set: int,
        now: datetime,
    ) -> None:
        """Keep what a poll changed: alerts as JSON (None: ended), what is to be sent, and who is known from now on."""
        with self._database.maintained() as connection, connection.begin():
            for key, content in changed.items():
                connection.execute(delete(alert).where(*_is(alert, key)))
                if content is not None:
                    connection.execute(alert.insert().values(**_columns(key), content=content))
            for each in notifications:
                c = notification.c
                replaced = [c.message.is_(None), c.receiver == each.receiver, *_is(notification, each.key)]
                if not each.is_end:
                    replaced.append(c.is_end.is_(False))
                connection.execute(delete(notification).where(*replaced))
                own = {"receiver": each.receiver, "is_end": each.is_end, "content": each.content}
                connection.execute(notification.insert().values(**_columns(each.key), **own))
            for receiver in receivers:
                _note(connection, receiver, NO_POOL, now)
            connection.execute(delete(meta).where(meta.c.key == RULE_SET_KEY))
            connection.execute(meta.insert().values(key=RULE_SET_KEY, value=str(rule_set)))

    def next_message(self, receiver: str, now: datetime) -> Message | None:
        """Return the message to send now: the one that was begun, else a new one on a pool whose pause is over."""
        c = notification.c
        with self._database.maintained() as connection, connection.begin():
            begun = (
                select(c.message, c.pool).where(c.receiver == receiver, c.message.is_not(None)).order_by(c.id).limit(1)
            )
            if (found := connection.execute(begun).one_or_none()) is not None:
                message, pool = found
            elif (due := _due_pool(connection, receiver, now)) is not None:
                message, pool = secrets.token_hex(ID_BYTES), due
                waiting = select(c.id).where(c.receiver == receiver, c.pool == pool, c.message.is_(None))
                ids = connection.scalars(waiting.order_by(c.id).limit(MOST_IN_MESSAGE)).all()
                connection.execute(update(notification).where(c.id.in_(ids)).values(message=message))
            else:
                return None
            contents = connection.scalars(select(c.content).where(c.message == message).order_by(c.id)).all()
        return Message(message, receiver, pool, tuple(contents))

    def confirm(self, message: Message, now: datetime) -> None:
        """Delete a message that was accepted."""
        with self._database.maintained() as connection, connection.begin():
            connection.execute(delete(notification).where(notification.c.message == message.id))
            _note(connection, message.receiver, message.pool, now)

    def pending(self) -> dict[str, int]:
        """Return the number of notifications that wait, by receiver."""
        number = select(notification.c.receiver, func.count().label("waiting")).group_by(notification.c.receiver)
        with self._database.read() as connection, connection.begin():
            return {row.receiver: row.waiting for row in connection.execute(number)}


def _due_pool(connection: Connection, receiver: str, now: datetime) -> str | None:
    """Return the pool that waits longest of those without a recent message; a time in the future is an old clock's."""
    c = notification.c
    waiting = (
        select(c.pool).where(c.receiver == receiver, c.message.is_(None)).group_by(c.pool).order_by(func.min(c.id))
    )
    told = connection.execute(select(notified.c.pool, notified.c.at).where(notified.c.receiver == receiver))
    recent = {pool for pool, at in told if now - POOL_PAUSE < at <= now}
    return next((pool for pool in connection.scalars(waiting) if pool not in recent), None)


def _note(connection: Connection, receiver: str, pool: str, now: datetime) -> None:
    c = notified.c
    connection.execute(delete(notified).where(c.receiver == receiver, c.pool == pool))
    connection.execute(notified.insert().values(receiver=receiver, pool=pool, at=now))


def _columns(key: RowKey) -> dict[str, Any]:
    return dict(zip(("rule", "pool", "severity"), key, strict=True))


def _is(table: Table, key: RowKey) -> list[Any]:
    return [table.c[name] == value for name, value in _columns(key).items()]
