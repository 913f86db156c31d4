"""Reading a history: the fleet of a time, and the gaps between polls."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import from_json
from sqlalchemy import Connection, Table, func, or_, select

from dashboard.analysis.assembly import Fleet, assemble
from dashboard.analysis.changes.events import Event, gap_event
from dashboard.analysis.lifecycle import resumed
from dashboard.analysis.timeline import Period, Timeline, bounded, merged, moves
from dashboard.errors import HistoryError
from dashboard.fleet import Document, Gap, Letters, Replica
from dashboard.fleet.formatting import iso, setting_text
from dashboard.fleet.history import Sightings, UsualTraffic
from dashboard.fleet.times import DAY, EPOCH, MICROSECOND
from dashboard.fleet.traffic import TrafficSum, summed
from dashboard.garbage import uncollected
from dashboard.store.history import timeline
from dashboard.store.history.audit import AuditTable
from dashboard.store.history.bodies import BATCH, read_bodies, read_parts, recorded_replicas
from dashboard.store.history.database import Database
from dashboard.store.history.events import event_place, read_events, rule_set_at
from dashboard.store.history.schema import (
    cohort_span,
    difference_span,
    document_span,
    finding_span,
    fleet_span,
    poll,
    replica_span,
    watch,
)
from dashboard.store.history.spans import SIGHTING, key_of, limit_text, sighting_of
from dashboard.store.history.traffic import TICK, read_engines, read_traffic, traffic_around, traffic_of_day

NOT_READ = "not read"  # the value of documents that are too many
REPLICA_COLUMNS = (
    "id",
    "from_at",
    "document",
    "process",
    "answers",
    "observed_at",
    "times",
    "name",
    "limited_at",
    *SIGHTING,
)


class HistoryReader:
    """Reads a history, also next to its writer. Documents and replicas of the last fleet are kept for the next one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.audit = AuditTable(database)
        self._documents: dict[int, Document] = {}  # by the row of their span, as below
        self._replicas: dict[int, Replica] = {}
        self._before: Fleet | None = None

    @uncollected()
    def fleet_at(self, time: datetime, like: Fleet | None = None, *, is_last: bool = False) -> Fleet:
        """Return the fleet of the last poll at a time or before; raise HistoryError before the first.

        Settings, states and capacity are those of the poll. Of a fresh replica the time of its answers is that of the
        poll, except where its state began then; times of single answers are those of the beginning. What a fleet `like`
        it derived from equal replicas is reused. `is_last` is the last poll, of which the traffic of replicas is kept.
        """
        with self._database.read() as connection, connection.begin():
            at, _ = self._poll_at(connection, time)
            (row,) = _rows_at(connection, fleet_span, at)
            shell = read_bodies(connection, [row["body"]])[row["body"]]
            documents = self._documents_at(connection, shell, at)
            rows = _rows_at(connection, replica_span, at)
            replicas = self._replicas_at(connection, shell, at, rows)
            sightings = _sightings_at(connection, at, zip(replicas, rows, strict=True))
            letters = _letters_of(_rows_at(connection, cohort_span, at))
            engines = read_engines(connection) if is_last else {}
            traffic = None if engines else traffic_around(connection, at)
        with self._database.undamaged():
            saved = replace(read_parts(shell, at), replicas=replicas, documents=documents, letters=letters)
            saved = replace(saved, traffic={each.id: engines[each.id] for each in replicas if each.id in engines})
            fleet = assemble(saved, at, before=self._before or like)
            unrecorded = tuple(
                limit_text(row["name"], since)
                for row in rows
                if (since := row["limited_at"]) is not None and since <= at and since.date() == at.date()
            )
        whole = from_json(shell)
        self._before = fleet = replace(
            fleet,
            inspection=replace(fleet.inspection, notes=tuple(whole["notes"])),
            unrecorded=unrecorded,
            generation=-((at - EPOCH) // MICROSECOND),
            sightings=sightings,
            recorded_traffic=traffic,
        )
        return replace(fleet, lives=resumed(fleet, whole["rule_set"]))

    def letters(self) -> Letters:
        """Return the letters of all cohorts in the history, of a document the last one."""
        c = cohort_span.c
        query = select(c.pool, c.document, c.letter).group_by(c.pool, c.document, c.letter).order_by(func.max(c.id))
        with self._database.read() as connection, connection.begin():
            return _letters_of(connection.execute(query).mappings())

    def first_poll(self) -> datetime | None:
        """Return the time of the first poll; None before it."""
        with self._database.read() as connection, connection.begin():
            return _first_poll(connection)

    def day_until(self, until: datetime) -> datetime:
        """Return the time 24 hours before, in whole seconds; that of the first poll where no poll is so old."""
        day = (until - DAY).replace(microsecond=0)
        return max(day, self.first_poll() or day)

    def poll_at(self, time: datetime) -> tuple[datetime, Gap | None]:
        """Return the last poll at a time or before, and the gap that the time is in; raise HistoryError for none."""
        with self._database.read() as connection, connection.begin():
            return self._poll_at(connection, time)

    def _poll_at(self, connection: Connection, time: datetime) -> tuple[datetime, Gap | None]:
        """Return the last poll at a time or before, and the gap that the time is in."""
        query = select(watch).where(watch.c.from_at <= time).order_by(watch.c.from_at.desc()).limit(1)
        found = connection.execute(query).one_or_none()
        if found is None:
            first = _first_poll(connection)
            begins = f"the first one is of {iso(first)}. Choose a later time" if first else "none was recorded yet"
            raise HistoryError(f"The history has no poll at {iso(time)} or before; {begins}.")
        if time < found.to_at:
            exact = connection.scalar(
                select(poll.c.at)
                .where(poll.c.at <= time, poll.c.at >= found.from_at)
                .order_by(poll.c.at.desc())
                .limit(1)
            )
            return exact or time, None  # the time of an older poll is not kept
        if time <= found.due:
            return found.to_at, None
        after = select(watch.c.from_at).where(watch.c.from_at > time).order_by(watch.c.from_at).limit(1)
        return found.to_at, Gap(found.to_at, connection.scalar(after))

    def _documents_at(self, connection: Connection, shell: bytes, at: datetime) -> dict[str, Document]:
        rows = _rows_at(connection, document_span, at)
        new = [row for row in rows if row["id"] not in self._documents]
        if new:
            bodies = read_bodies(connection, {row["body"] for row in new})
            read = read_parts(shell, at, documents={row["document"]: bodies[row["body"]] for row in new}).documents
            self._documents |= {row["id"]: read[row["document"]] for row in new}
        self._documents = {row["id"]: self._documents[row["id"]] for row in rows}
        return {each.id: each for each in sorted(self._documents.values(), key=lambda each: each.id)}

    def _replicas_at(
        self, connection: Connection, shell: bytes, at: datetime, rows: Sequence[Any]
    ) -> tuple[Replica, ...]:
        new = [row for row in rows if row["id"] not in self._replicas]
        for first in range(0, len(new), BATCH):
            batch = new[first : first + BATCH]
            read = read_parts(shell, at, recorded_replicas(connection, batch)).replicas
            self._replicas |= {row["id"]: one for row, one in zip(batch, read, strict=True)}
        self._replicas = {row["id"]: self._replicas[row["id"]] for row in rows}
        return tuple(
            replace(each, observed_at=at) if each.fresh and row["from_at"] != at else each
            for row, each in zip(rows, self._replicas.values(), strict=True)
        )

    def gaps(self, since: datetime, until: datetime) -> tuple[Gap, ...]:
        """Return the gaps between polls that touch a period; the time before the first poll is one."""
        query = select(watch).where(watch.c.from_at <= until).order_by(watch.c.from_at)
        with self._database.read() as connection, connection.begin():
            watches = connection.execute(query).all()
        ends: list[tuple[datetime | None, datetime]] = [(each.to_at, each.due) for each in watches]
        begins: list[datetime | None] = [each.from_at for each in watches]
        between = zip([(None, since), *ends], [*begins, None], strict=True)
        return tuple(
            Gap(end if end is not None else since, begin)
            for (end, due), begin in between
            if (begin if begin is not None else until) > max(due, since)
        )

    def rule_set_at(self, time: datetime) -> int:
        """Return the rule set that evaluated the last poll at a time."""
        with self._database.read() as connection, connection.begin():
            at, _ = self._poll_at(connection, time)
            return rule_set_at(connection, at)

    def events(self, since: datetime, until: datetime) -> tuple[Event, ...]:
        """Return what happened after one time, until another one, gaps among it; the first event first."""
        with self._database.read() as connection, connection.begin():
            found = read_events(connection, since, until)
        gaps = (gap_event(each, until) for each in self.gaps(since, until))
        return tuple(sorted([*found, *gaps], key=event_place))

    def traffic(
        self, since: datetime, until: datetime, pool: str | None = None, step: timedelta = TICK
    ) -> list[TrafficSum]:
        """Return the sums of counters that touch a period, of one pool or of all, the first one first.

        They are of five minutes each, older ones of an hour; those that begin within one longer `step` are added up.
        """
        with self._database.read() as connection, connection.begin():
            return read_traffic(connection, since, until, pool, step)

    def usual_traffic(self, at: datetime) -> dict[str, UsualTraffic]:
        """Return the traffic of each pool in the day before a time."""
        with self._database.read() as connection, connection.begin():
            found, seconds = traffic_of_day(connection, at)
            most = {
                pool: max(sorted(own), key=lambda each: own[each].prompt_tokens or 0) for pool, own in found.items()
            }
            documents = timeline.read_settings(connection, at, list(most.values()))
        return {
            pool: UsualTraffic(summed(own.values())._replace(seconds=seconds[pool]), documents.get(most[pool]))
            for pool, own in found.items()
        }

    def timeline(self, period: Period, pool: str | None = None) -> Timeline:
        """Return cohorts and marks of all pools, or of one; the key of a group is a document."""
        with self._database.read() as connection, connection.begin():
            groups = timeline.read_cohorts(connection, period, pool)
            restarts = list(timeline.read_restarts(connection, period, pool))
            findings = list(timeline.read_findings(connection, period, pool))
            moved = moves(groups, lambda one, other: not timeline.contradicts(connection, one, other))
        marks = bounded([*moved, *restarts, *findings], period)
        return Timeline(period, tuple(groups), marks, self.gaps(*period))

    def replica_timeline(self, period: Period, address: str) -> Timeline:
        """Return state, version, document and restarts of a replica: see `read_replica`."""
        with self._database.read() as connection, connection.begin():
            groups = timeline.read_replica(connection, period, address)
            restarts = bounded(timeline.read_restarts(connection, period, address=address), period)
        return Timeline(period, tuple(groups), restarts, self.gaps(*period))

    def setting_timeline(self, period: Period, path: str, pool: str | None = None) -> Timeline:
        """Return how many replicas had which value of a setting; the key of a group is the text of the value."""
        with self._database.read() as connection, connection.begin():
            groups = timeline.read_documents(connection, period, pool)
            largest = sorted(groups, key=lambda each: -each.weight)
            values = timeline.read_values(
                connection, period.until, path, tuple(dict.fromkeys(each.key for each in largest))
            )
        texts = {document: setting_text(*value) for document, value in values.items()}
        named = [each._replace(key=texts.get(each.key, NOT_READ), version="") for each in groups]
        alike = merged(named, lambda each: (each.pool, each.key))
        return Timeline(period, tuple(alike.values()), gaps=self.gaps(*period))


def _first_poll(connection: Connection) -> datetime | None:
    first: datetime | None = connection.scalar(select(watch.c.from_at).order_by(watch.c.from_at).limit(1))
    return first


def _letters_of(rows: Iterable[Any]) -> Letters:
    letters: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        letters[row["pool"]][row["document"]] = row["letter"]
    return letters


def _sightings_at(connection: Connection, at: datetime, replicas: Iterable[tuple[Replica, Any]]) -> Sightings:
    findings, cohorts, differences = (
        {key_of(table, row): sighting_of(row) for row in _rows_at(connection, table, at)}
        for table in (finding_span, cohort_span, difference_span)
    )
    return Sightings(findings, {one.id: sighting_of(row) for one, row in replicas}, cohorts, differences)


def _rows_at(connection: Connection, table: Table, at: datetime) -> list[Any]:
    """Return the spans at the time of a poll, in the order of their rows."""
    lasts = or_(table.c.to_at.is_(None), table.c.to_at > at)
    query = select(table).where(table.c.from_at <= at, lasts).order_by(table.c.id)
    if table is replica_span:
        query = query.with_only_columns(*(table.c[name] for name in REPLICA_COLUMNS))
    return list(connection.execute(query).mappings())
