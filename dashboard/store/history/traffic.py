"""Traffic in the history: what replicas with the same settings counted together, in five minutes or an hour each.

Traffic of replicas is kept of the last poll only: that of a month would take more than everything else.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from pydantic_core import from_json, to_json

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.grouping import grouped
from dashboard.fleet.times import EPOCH, MICROSECOND
from dashboard.fleet.traffic import COUNTERS, GAUGES, Traffic, TrafficSum, in_sequence, summed
from dashboard.store.history.schema import meta, traffic
from dashboard.store.history.spans import storable

TICK, HOUR, DAY = timedelta(minutes=5), timedelta(hours=1), timedelta(days=1)
KEPT_TICKS = 3 * DAY  # older ones are merged into hours
AROUND = 2 * TICK  # before a past time, and the five minutes that it is in: as the window of a poll by default
ENGINES = "engines"  # in `meta`
_COLUMNS = ("seconds", *COUNTERS, *GAUGES)  # in the order of `Traffic`


class TrafficSums:
    """Adds up what polls counted, until five minutes of the clock are over."""

    def __init__(self) -> None:
        self._since = EPOCH
        self._sums: dict[tuple[str, str], Traffic] = {}  # by pool and document

    def add(self, fleet: Fleet, at: datetime) -> None:
        """Add what a recorded poll counted; what was added in other five minutes is forgotten: see `write`."""
        if _begin(at, TICK) != self._since:
            self.clear()
            self._since = _begin(at, TICK)
        alike: dict[tuple[str, str], list[Traffic]] = defaultdict(list)
        for key, counted in fleet.counted.items():
            one = fleet.by_id[key]
            if one.pool is not None and not one.is_second_address:
                alike[one.pool, one.document or ""].append(counted)
        for group, parts in alike.items():
            before = self._sums.get(group)
            rose = summed(parts)
            self._sums[group] = in_sequence((before, rose)) if before else rose

    def write(self, connection: sa.Connection, at: datetime | None = None) -> None:
        """Record what was added; at a poll only if that was before the five minutes of its time."""
        if self._sums and (at is None or _begin(at, TICK) != self._since):
            rows = [_row(self._since, TICK, storable(pool), key, own) for (pool, key), own in self._sums.items()]
            connection.execute(traffic.insert(), rows)

    def clear(self) -> None:
        self._sums = {}


def read_traffic(
    connection: sa.Connection, since: datetime, until: datetime, pool: str | None = None, step: timedelta = TICK
) -> list[TrafficSum]:
    """Return the sums that touch a period, of one pool or of all: those that begin within one `step` together."""
    c = traffic.c
    begin = _number(c.from_at) // _literal(step) * _literal(step)
    query = _sums(begin.label("begin"), c.pool, c.document)
    query = query.where(c.from_at > since - HOUR, c.from_at < until, c.to_at > since)
    if pool is not None:
        query = query.where(c.pool == storable(pool))
    rows = connection.execute(query)
    return sorted(
        TrafficSum(EPOCH + row.begin * MICROSECOND, row.end, row.pool, row.document, _traffic(row)) for row in rows
    )


def traffic_around(connection: sa.Connection, at: datetime) -> dict[tuple[str, str], Traffic]:
    """Return the traffic around a time by pool and document: of 15 minutes at most, or of the hour that it is in."""
    sums = read_traffic(connection, at - AROUND, at)
    found = grouped(((each.pool, each.document), each.traffic) for each in sums)
    return {key: in_sequence(parts) for key, parts in found.items()}


def traffic_of_day(
    connection: sa.Connection, until: datetime
) -> tuple[dict[str, dict[str, Traffic]], dict[str, float]]:
    """Return the traffic of the day before a time by pool and document, and how many seconds each pool was counted."""
    c = traffic.c
    of_day = c.from_at >= until - DAY, c.to_at <= until
    found: dict[str, dict[str, Traffic]] = defaultdict(dict)
    for row in connection.execute(_sums(c.pool, c.document).where(*of_day)):
        found[row.pool][row.document] = _traffic(row)
    seconds = sa.func.max(c.seconds).label("seconds")
    ticks = sa.select(c.pool, seconds).where(*of_day).group_by(c.pool, c.from_at).subquery().c
    counted = connection.execute(
        sa.select(ticks.pool, sa.func.sum(ticks.seconds).label("seconds")).group_by(ticks.pool)
    )
    return found, {row.pool: row.seconds for row in counted}


def write_engines(connection: sa.Connection, engines: Mapping[str, Mapping[int, Traffic]]) -> None:
    """Keep the traffic of the last poll, for instances that follow the one that records."""
    connection.execute(sa.delete(meta).where(meta.c.key == ENGINES))
    rows = {key: {rank: tuple(own) for rank, own in ranks.items()} for key, ranks in engines.items()}
    connection.execute(meta.insert().values(key=ENGINES, value=to_json(rows).decode()))


def read_engines(connection: sa.Connection) -> dict[str, dict[int, Traffic]]:
    """Return the traffic of the last poll by replica and DP rank."""
    rows = from_json(connection.scalar(sa.select(meta.c.value).where(meta.c.key == ENGINES)) or "{}")
    return {
        key: {int(rank): Traffic._make((*numbers, tuple(refused))) for rank, (*numbers, refused) in ranks.items()}
        for key, ranks in rows.items()
    }


def merge_ticks(connection: sa.Connection, now: datetime) -> int:
    """Merge the first five minutes that are old enough into their hour; return the number of rows that were merged."""
    c = traffic.c
    is_tick = _number(c.to_at) - _number(c.from_at) < _literal(HOUR)
    first = connection.scalar(
        sa.select(sa.func.min(c.from_at)).where(c.from_at < _begin(now - KEPT_TICKS, HOUR), is_tick)
    )
    if first is None:
        return 0
    begin = _begin(first, HOUR)
    of_hour = c.from_at >= begin, c.from_at < begin + HOUR
    merged = connection.execute(_sums(c.pool, c.document).where(*of_hour)).all()
    number = connection.execute(sa.delete(traffic).where(*of_hour)).rowcount
    connection.execute(
        traffic.insert(), [_row(begin, HOUR, each.pool, each.document, _traffic(each)) for each in merged]
    )
    return number


def _sums(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select sums of all that is equal in some columns, and when it ended."""
    c = traffic.c
    totals = (sa.func.sum(c[name]).label(name) for name in ("seconds", *COUNTERS))
    most = (sa.func.max(c[name]).label(name) for name in GAUGES)
    return sa.select(*columns, sa.func.max(c.to_at).label("end"), *totals, *most).group_by(*columns)


def _row(begin: datetime, width: timedelta, pool: str, document: str, own: Traffic) -> dict[str, Any]:
    head = {"from_at": begin, "to_at": begin + width, "pool": pool, "document": document}
    return head | {name: getattr(own, name) for name in _COLUMNS}


def _traffic(row: sa.Row[Any]) -> Traffic:
    return Traffic(*row[-len(_COLUMNS) :])


def _begin(at: datetime, width: timedelta) -> datetime:
    """Return when the five minutes, or the hour, of a time began."""
    return at - (at - EPOCH) % width


def _number(time: sa.ColumnElement[datetime]) -> sa.ColumnElement[int]:
    return sa.type_coerce(time, sa.BigInteger)


def _literal(width: timedelta) -> sa.ColumnElement[int]:
    return sa.literal_column(str(width // MICROSECOND), sa.BigInteger)
