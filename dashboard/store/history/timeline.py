"""Timelines of a history: the database counts, so that a period of any length has a bounded number of rows."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic_core import from_json, to_json

from dashboard.analysis.changes.events import BETWEEN_POOLS
from dashboard.analysis.timeline import CountChange, MarkKind, Period, TimelineGroup, TimelineMark, stepped
from dashboard.compare.encoding import is_comparable
from dashboard.fleet import Document, SettingValue, State
from dashboard.fleet.formatting import count
from dashboard.fleet.times import EPOCH, MICROSECOND
from dashboard.rules.findings import Severity
from dashboard.store.history import schema
from dashboard.store.history.bodies import read_bodies, read_members, read_parts

# PostgreSQL takes no parameters in what a query groups by.
NOTHING: sa.ColumnElement[str] = sa.literal_column("''")
ONE: sa.ColumnElement[int] = sa.literal_column("1", sa.BigInteger)
MOST_ROWS = 2_000  # of marks: the newest
MOST_DOCUMENTS = 200  # whose value of a setting is read; each takes 0.1 ms
NO_VALUE = SettingValue("null", State.ABSENT)
STATE, VERSION, DOCUMENT = "state", "version", "document"  # what the timeline of a replica shows

SqlCondition = sa.ColumnElement[bool]


def read_cohorts(connection: sa.Connection, period: Period, pool: str | None) -> list[TimelineGroup]:
    """Return the cohorts of all pools or of one; the key of a group is a document."""
    c = schema.cohort_span.c
    wanted = [c.pool == pool] if pool is not None else []
    return _groups(connection, schema.cohort_span, period, (c.pool, c.document, c.version), c.replicas, wanted)


def read_documents(connection: sa.Connection, period: Period, pool: str | None) -> list[TimelineGroup]:
    """Return how many replicas of all pools, or of one, had which document."""
    c = schema.replica_span.c
    wanted: list[SqlCondition] = [c.document.is_not(None), c.pool.is_not(None)]
    wanted += [c.pool == pool] if pool is not None else []
    return _groups(connection, schema.replica_span, period, (c.pool, c.document, c.version), ONE, wanted)


def read_replica(connection: sa.Connection, period: Period, address: str) -> list[TimelineGroup]:
    """Return state, version and document of a replica over time: the pool of a group is what its key is."""
    ids = connection.scalars(sa.select(schema.replica.c.id).where(schema.replica.c.address == address)).all()
    c = schema.replica_span.c
    found = []
    for name, column in ((STATE, c.state), (VERSION, c.version), (DOCUMENT, c.document)):
        names: list[sa.ColumnElement[Any]] = [
            sa.literal_column(f"'{name}'"),
            column,
            c.version if name == DOCUMENT else NOTHING,
        ]
        found += _groups(
            connection, schema.replica_span, period, names, ONE, [c.replica_id.in_(ids), column.is_not(None)]
        )
    return found


def read_restarts(
    connection: sa.Connection, period: Period, pool: str | None = None, address: str | None = None
) -> Iterator[TimelineMark]:
    """Yield restarts, those of a pool in one column together: a replica reports another start than before."""
    c = schema.replica_span.c
    before = sa.func.lag(c.started_at).over(partition_by=c.replica_id, order_by=c.from_at).label("before")
    spans = sa.select(c.replica_id, c.name, c.pool, c.from_at, c.started_at, before).where(
        c.started_at.is_not(None), c.from_at <= period.until, sa.or_(c.to_at.is_(None), c.to_at > period.since)
    )
    if pool is not None:
        spans = spans.where(c.pool == pool)
    if address is not None:
        spans = spans.where(c.replica_id.in_(sa.select(schema.replica.c.id).where(schema.replica.c.address == address)))
    each = spans.subquery().c
    names = [sa.func.coalesce(each.pool, NOTHING).label("pool")]
    query = _by_column(period, names, each.from_at, sa.func.min(each.name).label("name"))
    for row in _newest(connection, query.where(each.before != each.started_at, each.from_at > period.since)):
        text = f"{row.name} restarted" if row.number == 1 else f"{count(row.number, 'restart')}, {row.name} among them"
        yield TimelineMark(MarkKind.RESTART, _time(row.first), _time(row.last), (row.pool,), text, row.number)


def read_findings(connection: sa.Connection, period: Period, pool: str | None) -> Iterator[TimelineMark]:
    """Yield when critical findings and warnings began, became more severe, spread and ended.

    Those of a subject and column are one. Those that the recording began with, and those of another rule set, have no
    beginning; suppressed ones no mark.
    """
    c = schema.finding_span.c
    counted = sa.and_(c.severity.in_((MarkKind.CRITICAL, MarkKind.WARNING)), c.suppressed.is_(False))
    began = sa.and_(c.from_at > period.since, c.from_at <= period.until, c.from_at == c.since, c.absent_at.is_not(None))
    later, earlier = schema.finding_span.alias(), schema.finding_span.alias()
    goes_on = sa.exists().where(later.c.fingerprint == c.fingerprint, later.c.from_at == c.to_at)
    ended = sa.and_(c.to_at > period.since, c.to_at <= period.until, ~goes_on)
    then = earlier.c
    follows = sa.and_(then.fingerprint == c.fingerprint, then.to_at == c.from_at, then.ruleset == c.ruleset)
    is_worse = sa.or_(
        then.severity == Severity.INFO, sa.and_(then.severity == MarkKind.WARNING, c.severity != then.severity)
    )
    # As Extent.exceeds: more replicas, and a larger share.
    is_spread = sa.and_(
        c.severity == then.severity, c.replicas > then.replicas, c.replicas * then.total > then.replicas * c.total
    )
    worse = sa.and_(c.from_at > period.since, c.from_at <= period.until, follows, sa.or_(is_worse, is_spread))
    sentence = sa.func.min(c.sentence).label("sentence")
    new: sa.ColumnElement[str] = sa.func.coalesce(NOTHING, NOTHING)  # PostgreSQL groups by no bare constant
    for time, happened, before in ((c.from_at, began, new), (c.from_at, worse, then.severity), (c.to_at, ended, new)):
        names = [c.subject, c.severity, before.label("before")]
        query = _by_column(period, names, time, sentence).where(counted, happened)
        for row in _newest(connection, query):
            pools = tuple(row.subject.split(BETWEEN_POOLS))
            if pool is None or pool in pools:
                kind = MarkKind(row.severity) if time is c.from_at else MarkKind.ENDED
                yield TimelineMark(kind, _time(row.first), _time(row.last), pools, row.sentence, row.number, row.before)


def read_values(
    connection: sa.Connection, until: datetime, path: str, documents: Sequence[str]
) -> dict[str, SettingValue]:
    """Return the value of a setting by document, without secrets; absent where the document does not have it.

    Of too many documents the first ones are read.
    """
    known = read_settings(connection, until, documents[:MOST_DOCUMENTS], path)
    settings = {document: each.settings.get(path) for document, each in known.items()}
    return {document: SettingValue(each.value, each.state) if each else NO_VALUE for document, each in settings.items()}


def read_settings(
    connection: sa.Connection, until: datetime, documents: Sequence[str], path: str | None = None
) -> Mapping[str, Document]:
    """Return documents without secrets, those that the history has, with all settings or with one of them."""
    last = sa.select(schema.fleet_span.c.body).order_by(schema.fleet_span.c.from_at.desc()).limit(1)
    shell = read_bodies(connection, connection.scalars(last).all())
    bodies: dict[str, int] = {}
    c = schema.document_span.c
    for some in schema.chunks(documents):
        rows = connection.execute(sa.select(c.document, c.body).where(c.document.in_(some)).order_by(c.from_at))
        bodies |= {row.document: row.body for row in rows}
    if path is None:
        contents = read_bodies(connection, set(bodies.values()))
    else:
        read = read_members(connection, set(bodies.values()), path)
        contents = {key: to_json(settings) for key, settings in read.items()}
    wanted = {document: contents[body] for document, body in bodies.items()}
    return read_parts(next(iter(shell.values())), until, documents=wanted).documents if wanted else {}


def contradicts(connection: sa.Connection, document: str, other: str) -> bool:
    """Return whether two documents have different values of a setting; two of one cohort do not."""
    one, two = (_settings(connection, each) for each in (document, other))
    both = [(one[path], two[path]) for path in one.keys() & two.keys()]
    return any(
        each["value"] != then["value"] and is_comparable(State(each["state"])) and is_comparable(State(then["state"]))
        for each, then in both
    )


def _settings(connection: sa.Connection, document: str) -> dict[str, Any]:
    query = sa.select(schema.document_span.c.body).where(schema.document_span.c.document == document).limit(1)
    bodies = read_bodies(connection, connection.scalars(query).all())
    settings: dict[str, Any] = from_json(next(iter(bodies.values()), b"{}"))
    return settings


def _groups(
    connection: sa.Connection,
    table: sa.Table,
    period: Period,
    names: Sequence[sa.ColumnElement[Any]],
    number: sa.ColumnElement[int],
    wanted: Sequence[SqlCondition],
) -> list[TimelineGroup]:
    """Count spans by names (what stands for pool, key and version) at the start of a period and by column of it."""
    c = table.c
    named = [
        sa.func.coalesce(each, NOTHING).label(name)
        for each, name in zip(names, ("pool", "key", "version"), strict=True)
    ]
    touches = sa.and_(c.from_at <= period.since, sa.or_(c.to_at.is_(None), c.to_at > period.since))
    numbers = sa.select(*named, sa.func.sum(number).label("number")).where(touches, *wanted).group_by(*named)
    at_start = {(row.pool, row.key, row.version): int(row.number) for row in connection.execute(numbers)}
    edges = sa.union_all(
        *(
            sa.select(*named, time.label("at"), by.label("by")).where(
                time > period.since, time <= period.until, *wanted
            )
            for time, by in ((c.from_at, number), (c.to_at, -number))
        )
    ).subquery()
    each = edges.c
    by = sa.func.sum(each.by)
    query = _by_column(period, [each.pool, each.key, each.version], each.at, by.label("by")).having(by != 0)
    rows = connection.execute(query)
    changes = [
        CountChange(row.pool, row.key, row.version, row.column, _time(row.first), _time(row.last), int(row.by))
        for row in rows
    ]
    return stepped(period, at_start, changes)


def _by_column(
    period: Period, names: Sequence[sa.ColumnElement[Any]], time: sa.ColumnElement[Any], *more: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    """Select names with their number, first and last time, and more, by column of a period."""
    at = sa.type_coerce(time, sa.BigInteger)
    since, width = _literal((period.since - EPOCH) // MICROSECOND + 1), _literal(max(period.column // MICROSECOND, 1))
    column = ((at - since) // width).label("column")
    times = (sa.func.min(at).label("first"), sa.func.max(at).label("last"))
    return sa.select(*names, column, *times, sa.func.count().label("number"), *more).group_by(*names, column)


def _newest(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[Any]:
    yield from connection.execute(query.order_by(query.selected_columns["first"].desc()).limit(MOST_ROWS))


def _literal(number: int) -> sa.ColumnElement[int]:
    return sa.literal_column(str(number), sa.BigInteger)


def _time(number: int) -> datetime:
    return EPOCH + number * MICROSECOND
