"""What lasts in a history: the spans without an end and the last watch, which a writer goes on with."""

from collections.abc import Collection, Hashable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, func, select, tuple_

from dashboard.fleet.sightings import Sighting
from dashboard.store.history.bodies import chunks
from dashboard.store.history.schema import (
    KEYS,
    body,
    document_span,
    fleet_span,
    replica,
    replica_span,
    watch,
)

# The columns that end a span when they change, of spans without a body.
STATES = {
    "finding_span": ("severity", "suppressed", "ruleset", "replicas"),
    "cohort_span": ("replicas",),
    "difference_span": (),
}
SIGHTING = Sighting._fields


class OpenSpan(NamedTuple):
    """A span that lasts: its row, the state that ends it when it changes, and its sighting; None: it has none."""

    id: int
    state: Hashable
    sighting: Sighting | None = None


class LastWatch(NamedTuple):
    """The last watch: its row, its last poll, and when the next poll is due."""

    id: int
    to_at: datetime
    due: datetime


def last_watch(connection: Connection) -> LastWatch | None:
    """Return the last watch; None in an empty history."""
    c = watch.c
    row = connection.execute(select(c.id, c.to_at, c.due).order_by(c.from_at.desc()).limit(1)).one_or_none()
    return LastWatch(*row) if row else None


def open_spans(connection: Connection, table: Table) -> dict[Any, OpenSpan]:
    """Return the spans of a table that last, by what identifies them."""
    lasts = table.c.to_at.is_(None)
    if table is replica_span:
        process, answers = body.alias(), body.alias()
        query = (
            select(table, replica.c.address, replica.c.pod, process.c.sha.label("one"), answers.c.sha.label("other"))
            .join(replica, replica.c.id == table.c.replica_id)
            .join(process, process.c.id == table.c.process)
            .join(answers, answers.c.id == table.c.answers)
        )
        return {
            (row["address"], row["pod"]): OpenSpan(
                row["id"],
                (
                    bytes(row["one"]),
                    bytes(row["other"]),
                    row["document"],
                    row["fresh"],
                    None if row["fresh"] else row["observed_at"],
                ),
                sighting_of(row),
            )
            for row in connection.execute(query.where(lasts)).mappings()
        }
    if table in {fleet_span, document_span}:
        joined = select(table, body.c.sha).join(body, body.c.id == table.c.body).where(lasts)
        rows = connection.execute(joined).mappings()
        return {"" if table is fleet_span else row["document"]: OpenSpan(row["id"], bytes(row["sha"])) for row in rows}
    return {
        key_of(table, row): OpenSpan(row["id"], tuple(row[name] for name in STATES[table.name]), sighting_of(row))
        for row in connection.execute(select(table).where(lasts)).mappings()
    }


def key_of(table: Table, row: Any) -> Any:
    """Return what identifies a sighted thing: a text, or a pool and a text."""
    key = tuple(row[name] for name in KEYS[table])
    return key if len(key) > 1 else key[0]


def sighting_of(row: Any) -> Sighting:
    """Return the sighting of a span."""
    return Sighting(*(row[name] for name in SIGHTING))


def first_seen(connection: Connection, table: Table, keys: Collection[tuple[Any, ...]]) -> dict[Any, datetime]:
    """Return when each of some things was recorded first; what never was is left out."""
    columns = [table.c[name] for name in KEYS[table]]
    found: dict[Any, datetime] = {}
    for some in chunks(keys, each=len(columns)):
        query = select(*columns, func.min(table.c.first_seen)).where(tuple_(*columns).in_(some)).group_by(*columns)
        found |= {tuple(key): first for *key, first in connection.execute(query)}
    return found
