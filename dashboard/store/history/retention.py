"""Keeping the history small: what is older than the options allow is deleted in steps, next to the writer."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, or_, select, text, update
from sqlalchemy.exc import OperationalError

from dashboard.config import HistoryOptions
from dashboard.store.history.database import Database
from dashboard.store.history.schema import (
    BODY_REFERENCES,
    METADATA,
    SPANS,
    audit,
    body,
    poll,
    replica,
    replica_span,
    snapshot,
    snapshot_answers,
    traffic,
    watch,
)
from dashboard.store.history.traffic import merge_ticks

SQLITE_TABLE_BYTES = """
    SELECT tables.tbl_name AS name, sum(pages.pgsize) AS size
    FROM dbstat AS pages JOIN sqlite_master AS tables USING (name)
    WHERE pages.aggregate = 1 GROUP BY tables.tbl_name"""  # https://www.sqlite.org/dbstat.html
STEP_ROWS = 500  # deleted in one transaction: the writer waits less than its limit for it


# PostgreSQL gives the disk nothing back when rows are deleted: there a row without its JSON counts so many bytes.
ROW_BYTES = 200
AUDIT_TIME = timedelta(days=400)
MOST_AUDIT_ROWS = 100_000  # about 40 MB: an editor can save a note again and again
OVERSIZE_STEP = timedelta(hours=6)  # of the oldest spans, which are deleted together


class Stats(NamedTuple):
    """The size of a history: rows and bytes by table, bytes on the disk (None: unknown), its first and last poll.

    Bytes include indexes; there are none where SQLite was built without its table `dbstat`.
    """

    rows: dict[str, int]
    table_bytes: dict[str, int]
    size_bytes: int | None
    first: datetime | None
    last: datetime | None


def prune(database: Database, now: datetime, options: HistoryOptions) -> Iterator[int]:
    """Delete what is older than its time; yield the number of rows of each step. Raise HistoryError on failure."""
    with database.maintained() as connection:
        while number := prune_step(connection, now, options):
            yield number


def prune_step(connection: Connection, now: datetime, options: HistoryOptions) -> int:
    """Delete some old rows, or merge those of traffic, in one transaction; return their number, 0 at the end.

    Where the history is too large, spans that ended first are deleted before their time, and then what they alone used.
    """
    with connection.begin():
        spans, polls = (timedelta(days=days) for days in (options.keep_spans_days, options.keep_polls_days))
        deleted = _delete_old(connection, now - spans, now - polls)
        deleted = deleted or merge_ticks(connection, now) or _delete_audit(connection, now - AUDIT_TIME)
        if deleted or history_bytes(connection) <= options.max_bytes:
            return deleted
        ends = (*(table.c.to_at for table in SPANS), traffic.c.from_at)
        first = [connection.scalar(select(func.min(each))) for each in ends]
        until = min((each for each in first if each is not None), default=now) + OVERSIZE_STEP
        return _delete_old(connection, until, until) if until < now else 0


def history_bytes(connection: Connection) -> int:
    """Return the bytes that the history takes, without snapshots; an estimate on PostgreSQL."""
    if connection.dialect.name == "sqlite":
        pages, free, size = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("page_count", "freelist_count", "page_size")
        )
        sizes = (
            connection.scalar(select(func.sum(func.length(each.c.content)))) for each in (snapshot, snapshot_answers)
        )
        return int((pages - free) * size - sum(each or 0 for each in sizes))
    rows = sum(connection.scalar(select(func.count()).select_from(each)) or 0 for each in (*SPANS, poll, traffic, body))
    return ROW_BYTES * rows + int(connection.scalar(select(func.sum(func.length(body.c.content)))) or 0)


def _delete_old(connection: Connection, until: datetime, polls_until: datetime) -> int:
    # Before its spans are deleted: a fleet of that time would lack them.
    connection.execute(update(watch).where(watch.c.from_at < until, watch.c.to_at >= until).values(from_at=until))
    for table, old in _old(until, polls_until):
        (key,) = table.primary_key.columns
        some = connection.scalars(select(key).where(old).limit(STEP_ROWS)).all()
        if some:
            connection.execute(delete(table).where(key.in_(some)))
            return len(some)
    return 0


def _delete_audit(connection: Connection, until: datetime) -> int:
    """Delete entries of the audit log that are older, and the oldest where there are too many; return their number."""
    last = select(func.max(audit.c.id)).scalar_subquery()
    old = or_(audit.c.at < until, audit.c.id <= last - MOST_AUDIT_ROWS)
    some = connection.scalars(select(audit.c.id).where(old).limit(STEP_ROWS)).all()
    return connection.execute(delete(audit).where(audit.c.id.in_(some))).rowcount if some else 0


def _old(until: datetime, polls_until: datetime) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """Yield the old rows of each table; what nothing refers to any more comes last."""
    yield poll, poll.c.at < polls_until
    yield traffic, traffic.c.from_at < polls_until
    for table in SPANS:
        yield table, table.c.to_at < until
    last = select(func.max(watch.c.from_at)).scalar_subquery()
    yield watch, and_(watch.c.due < until, watch.c.from_at < last)
    yield replica, ~select(replica_span.c.id).where(replica_span.c.replica_id == replica.c.id).exists()
    references = (table.c[name] for table, name in BODY_REFERENCES)
    yield body, and_(*(~select(1).where(each == body.c.id).exists() for each in references))


def rewind(database: Database, fleet: str, after: datetime) -> int:
    """Delete the polls after a time, such as those of a clock that was ahead; return their number. Pins stay.

    States that ended later last again. Raise HistoryError on failure, and while a dashboard records.
    """
    with database.read():  # a missing history is not made
        pass
    with database.written_by(fleet) as connection, connection.begin():
        for table in SPANS:
            connection.execute(delete(table).where(table.c.from_at > after))
            connection.execute(update(table).where(table.c.to_at > after).values(to_at=None, last_seen=None))
        for each in (watch, traffic):
            connection.execute(delete(each).where(each.c.from_at > after))
        last = select(func.max(poll.c.at)).where(poll.c.at <= after).scalar_subquery()
        kept = func.coalesce(last, watch.c.from_at)
        connection.execute(update(watch).where(watch.c.to_at > after).values(to_at=kept, due=kept))
        return connection.execute(delete(poll).where(poll.c.at > after)).rowcount


def stats_of(database: Database) -> Stats:
    """Return the size of a history; raise HistoryError where it is unreadable."""
    with database.read() as connection, connection.begin():
        rows = {
            table.name: connection.scalar(select(func.count()).select_from(table)) or 0
            for table in METADATA.sorted_tables
        }
        ends = [
            connection.scalar(select(column).order_by(order).limit(1))
            for column, order in ((watch.c.from_at, watch.c.from_at), (watch.c.to_at, watch.c.to_at.desc()))
        ]
        size = disk_bytes(database, connection)
        return Stats(rows, _table_bytes(connection, is_sqlite=database.file is not None), size, *ends)


def disk_bytes(database: Database, connection: Connection) -> int | None:
    """Return the bytes of a database on the disk."""
    if database.file is None:
        return connection.scalar(select(func.pg_database_size(func.current_database())))
    files = (database.file.with_name(f"{database.file.name}{end}") for end in ("", "-wal"))
    return sum(each.stat().st_size for each in files if each.exists())


def _table_bytes(connection: Connection, *, is_sqlite: bool) -> dict[str, int]:
    names = list(METADATA.tables)
    if not is_sqlite:
        return {each: connection.scalar(select(func.pg_total_relation_size(each))) or 0 for each in names}
    try:
        return {row.name: row.size for row in connection.execute(text(SQLITE_TABLE_BYTES))}
    except OperationalError:
        return {}
