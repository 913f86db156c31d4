"""Sign-ins of visitors in the database of the history."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select, update

from dashboard.store.history.database import Database, NoHistoryError
from dashboard.store.history.schema import session
from dashboard.store.sign_ins import MOST, SignIn


class DatabaseSignIns:
    """Each method is one transaction, and raises HistoryError where that fails."""

    def __init__(self, database: Callable[[], Database]) -> None:
        """Open nothing. `database` raises HistoryError where the options name none."""
        self._database = database

    def insert(self, sign_in: SignIn) -> None:
        """Keep a sign-in; delete those that ended before it was created, and the least active of too many."""
        with self._database().maintained(creates=True) as connection, connection.begin():
            connection.execute(delete(session).where(session.c.ends_at <= sign_in.created_at))
            if (connection.scalar(select(func.count()).select_from(session)) or 0) >= MOST:
                oldest = select(session.c.id).order_by(session.c.active_at).limit(1)
                connection.execute(delete(session).where(session.c.id.in_(oldest.scalar_subquery())))
            connection.execute(session.insert().values(_columns(vars(sign_in))))

    def find(self, key: str) -> SignIn | None:
        """Return the sign-in of an id; None for an unknown one."""
        database = self._database()
        try:
            with database.read() as connection, connection.begin():
                row = connection.execute(select(session).where(session.c.id == key)).mappings().one_or_none()
        except NoHistoryError:
            return None
        if row is None:
            return None
        with database.undamaged():
            return SignIn(**{**row, "groups": frozenset(json.loads(row["groups"]))})

    def update(self, key: str, **changes: Any) -> None:
        """Change fields of a sign-in; nothing where it has been deleted."""
        with self._database().maintained() as connection, connection.begin():
            connection.execute(update(session).where(session.c.id == key).values(_columns(changes)))

    def claim(self, key: str, refreshed_at: datetime, now: datetime) -> bool:
        """Set when a sign-in was refreshed, unless that has changed; return whether it was set."""
        is_same = (session.c.id == key) & (session.c.refreshed_at == refreshed_at)
        with self._database().maintained() as connection, connection.begin():
            return connection.execute(update(session).where(is_same).values(refreshed_at=now)).rowcount == 1

    def delete(self, field: str, value: str) -> int:
        """Forget the sign-ins with the value of a field, such as `id` or `name`; return how many."""
        with self._database().maintained() as connection, connection.begin():
            return connection.execute(delete(session).where(session.c[field] == value)).rowcount


def _columns(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "groups": json.dumps(sorted(fields["groups"]))} if "groups" in fields else fields
