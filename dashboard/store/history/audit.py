"""The audit log in the database of the history: what visitors did, also where another process records polls."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import select

from dashboard.analysis.timeline import Period
from dashboard.store.audit import AuditEntry
from dashboard.store.history.database import Database, NoHistoryError
from dashboard.store.history.schema import audit
from dashboard.store.history.spans import storable


class AuditTable:
    """The entries of the audit log. Each method raises HistoryError where the database cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, entry: AuditEntry) -> None:
        """Add an entry; the first one of all may make the tables."""
        texts = _storable(entry._asdict())
        details = json.dumps({**entry.details, **_storable(entry.details)})
        with self._database.maintained(creates=True) as connection, connection.begin():
            connection.execute(audit.insert().values(at=entry.at, details=details, **texts))

    def entries(
        self,
        period: Period,
        actions: Collection[str] = (),
        results: Collection[str] = (),
        visitor: str = "",
        *,
        most: int,
    ) -> Sequence[AuditEntry]:
        """Return the newest entries of a period, the newest first.

        They are of some actions and results, or of all, and of visitors with a part of their name.
        """
        c = audit.c
        query = select(*(c[name] for name in AuditEntry._fields)).where(c.at >= period.since, c.at <= period.until)
        if actions:
            query = query.where(c.action.in_(actions))
        if results:
            query = query.where(c.result.in_(results))
        if visitor:
            query = query.where(c.visitor.icontains(storable(visitor), autoescape=True))
        try:
            with self._database.read() as connection, connection.begin():
                rows = connection.execute(query.order_by(c.at.desc(), c.id.desc()).limit(most)).all()
                return [AuditEntry(*row)._replace(details=json.loads(row.details)) for row in rows]
        except NoHistoryError:
            return ()


def _storable(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of some values, without what a database does not store."""
    return {name: storable(value) for name, value in values.items() if isinstance(value, str)}
