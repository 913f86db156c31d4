"""What happened in a range of time, derived from the edges of spans."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from pydantic_core import from_json
from sqlalchemy import Connection, Table, func, or_, select

from dashboard.analysis.changes.comparison import is_beyond
from dashboard.analysis.changes.events import BETWEEN_POOLS, Event, EventKind
from dashboard.analysis.changes.settings import document_changes
from dashboard.capacity.sums import capacity_of
from dashboard.fleet import ReplicaState, SettingChange
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import Extent
from dashboard.store.history.bodies import read_bodies, read_parts, recorded_replicas
from dashboard.store.history.schema import finding_span, fleet_span, poll, replica, replica_span, watch
from dashboard.store.history.timeline import read_settings

ROLLING = timedelta(hours=1)  # the longest time between the restarts of two replicas that are one event
MOST_MEASURED = 200  # spans of restarts whose capacity is read: each takes a millisecond
SpanRow = Mapping[Any, Any]


class _ReplicaChange(NamedTuple):
    """A change of one replica, as an event without its name: its span, the one before, and both documents."""

    event: Event
    row: SpanRow
    before: SpanRow | None = None
    documents: tuple[str, str] | None = None  # where its settings did


def read_events(connection: Connection, since: datetime, until: datetime) -> list[Event]:
    """Return what happened after one time, until another one, the first event first; gaps are not among them.

    What the first poll of the history has is no event: nobody looked before.
    """
    first = connection.scalar(select(func.min(watch.c.from_at)))
    since = max(since, first or since)
    rows = _rows_between(connection, fleet_span, since, until)
    bodies = read_bodies(connection, {row["body"] for row in rows})
    shells = [(row, bodies[row["body"]]) for row in rows]
    reading = _EventReader(connection, shells[-1][1] if shells else b"", since, until)
    return sorted([*reading.rule_sets(shells), *_rolling(reading.replicas()), *reading.findings()], key=event_place)


def _rolling(events: Iterable[Event]) -> Iterator[Event]:
    """Yield events, equal restarts of one replica of a pool after another as one: from the first to the last."""
    rolling: dict[tuple[object, ...], Event] = {}
    for event in sorted(events, key=event_place):
        key, before = (event.pools, event.changes), rolling.get((event.pools, event.changes))
        if event.kind is not EventKind.RESTARTED:
            yield event
        elif before is None or event.at - before.at > ROLLING or not {*event.replicas}.isdisjoint(before.replicas):
            if before is not None:
                yield before
            rolling[key] = event
        else:
            counted = [each.tokens for each in (before, event) if each.tokens]
            tokens = (sum(old for old, _ in counted), sum(new for _, new in counted)) if counted else None
            replicas = tuple(sorted((*before.replicas, *event.replicas)))
            rolling[key] = before._replace(at=event.at, replicas=replicas, tokens=tokens)
    yield from rolling.values()


def rule_set_at(connection: Connection, at: datetime) -> int:
    """Return the rule set that evaluated a recorded poll."""
    last = _rows_between(connection, fleet_span, at, at)[-1]
    (content,) = read_bodies(connection, [last["body"]]).values()
    return int(from_json(content)["rule_set"])


class _EventReader:
    """Reads the events of one range."""

    def __init__(self, connection: Connection, shell: bytes, since: datetime, until: datetime) -> None:
        self._connection, self._shell = connection, shell
        self._since, self._until = since, until
        self._polls: dict[datetime, datetime | None] = {}  # by time of a poll, the one before
        self._renewed: set[datetime] = set()  # polls with another rule set than the one before

    def rule_sets(self, shells: Sequence[tuple[SpanRow, bytes]]) -> Iterator[Event]:
        """Yield changes of the rule set: findings that begin with one may be no new problem."""
        numbers = [(row, from_json(content)["rule_set"]) for row, content in shells]
        for (then, before), (row, now) in pairwise(numbers):
            if before != now and then["to_at"] == row["from_at"]:
                self._renewed.add(row["from_at"])
                yield self._event(EventKind.RULES, row["from_at"], before=str(before), now=str(now))

    def replicas(self) -> Iterator[Event]:
        """Yield what happened to replicas; those with the same change at the same poll are one event."""
        found = list(self._replica_changes())
        settings = self._setting_changes({each.documents for each in found if each.documents})
        alike = grouped((each.event._replace(changes=settings.get(each.documents, ())), each) for each in found)
        tokens = self._tokens(alike)
        for event, same in alike.items():
            # Without changes: the same settings, reported in another way, and other facts of the process.
            if (event.kind is EventKind.CAPACITY and event not in tokens) or (
                event.kind is EventKind.SETTINGS and not event.changes
            ):
                continue
            replicas = tuple(sorted((each.row["address"], each.row["name"]) for each in same))
            yield event._replace(replicas=replicas, tokens=tokens.get(event))

    def _replica_changes(self) -> Iterator[_ReplicaChange]:
        """Yield what changed of each replica.

        That it was not up for less than ROLLING until a restart is part of the restart.
        """
        every = _rows_between(self._connection, replica_span, self._since, self._until)
        for rows in grouped((row["replica_id"], row) for row in every).values():
            before: SpanRow | None = None
            started, document = None, None  # as last reported
            away: list[_ReplicaChange] = []  # its states since it was up
            for row in rows:
                if row["from_at"] > self._since:
                    if before is None or before["to_at"] != row["from_at"]:
                        yield from away
                        away = []
                        yield _ReplicaChange(self._of_pool(EventKind.ADDED, row["from_at"], row), row)
                    else:
                        changes = list(self._changes(before, row, started, document))
                        away += [each for each in changes if each.event.kind is EventKind.STATE]
                        yield from (each for each in changes if each.event.kind is not EventKind.STATE)
                        if row["state"] == ReplicaState.UP:
                            is_restart = any(each.event.kind is EventKind.RESTARTED for each in changes)
                            if away and not (is_restart and row["from_at"] - away[0].event.at <= ROLLING):
                                yield from away
                            away = []
                before, started, document = row, row["started_at"] or started, row["document"] or document
            yield from away
            for row in self._ends(rows):
                yield _ReplicaChange(self._of_pool(EventKind.REMOVED, row["to_at"], row), row)

    def _changes(
        self, before: SpanRow, row: SpanRow, started: datetime | None, document: str | None
    ) -> Iterator[_ReplicaChange]:
        """Yield what changed between two spans that follow each other; `started` and `document` were last reported."""
        at, now = row["from_at"], row["document"]
        is_restarted = None not in {started, row["started_at"]} and started != row["started_at"]
        documents = (document, now) if document and now and document != now else None
        if is_restarted:
            yield _ReplicaChange(self._of_pool(EventKind.RESTARTED, at, row), row, before, documents)
        elif documents is not None:
            yield _ReplicaChange(self._of_pool(EventKind.SETTINGS, at, row), row, before, documents)
        elif before["process"] != row["process"]:
            yield _ReplicaChange(self._of_pool(EventKind.CAPACITY, at, row), row, before)
        if before["state"] != row["state"]:
            reason = f" ({row['reason']})" if row["reason"] else ""
            state = self._of_pool(EventKind.STATE, at, row, before=before["state"], now=f"{row['state']}{reason}")
            yield _ReplicaChange(state, row, before)

    def _of_pool(self, kind: EventKind, at: datetime, row: SpanRow, **texts: str) -> Event:
        return self._event(kind, at, pools=() if row["pool"] is None else (row["pool"],), **texts)

    def _ends(self, rows: Sequence[SpanRow]) -> Iterator[SpanRow]:
        """Yield, of the spans of one thing, those that ended in the range without another one that follows."""
        following = [row["from_at"] for row in rows[1:]]
        for row, then in zip(rows, [*following, None], strict=True):
            end = row["to_at"]
            if end is not None and self._since < end <= self._until and end != then:
                yield row

    def _setting_changes(self, wanted: set[tuple[str, str]]) -> dict[tuple[str, str] | None, tuple[SettingChange, ...]]:
        """Return which settings differ between documents, pair by pair."""
        documents = read_settings(self._connection, self._until, sorted({key for pair in wanted for key in pair}))
        return {
            (old, new): document_changes(documents[old], documents[new])
            for old, new in wanted
            if old in documents and new in documents
        }

    def _tokens(self, alike: Mapping[Event, Sequence[_ReplicaChange]]) -> dict[Event, tuple[int, int]]:
        """Return the KV tokens before and after of changes where they clearly differ; of too many restarts none."""
        pairs = {
            event: [
                (each.before, each.row)
                for each in same
                if each.before is not None and each.before["process"] != each.row["process"]
            ]
            for event, same in alike.items()
        }
        rows = {row["id"]: row for each in pairs.values() for pair in each for row in pair}
        if len(rows) > MOST_MEASURED:
            return {}
        stored = recorded_replicas(self._connection, list(rows.values()))
        # One by one: a fleet has a replica once.
        read = [read_parts(self._shell, self._until, [each]).replicas[0] for each in stored]
        known = {key: capacity_of([one]) for key, one in zip(rows, read, strict=True)}
        tokens = {key: 0 if one.unknown else int(one.tokens.value or 0) for key, one in known.items()}
        sums = {
            same: (sum(tokens[then["id"]] for then, _ in each), sum(tokens[row["id"]] for _, row in each))
            for same, each in pairs.items()
            if all(tokens[row["id"]] for pair in each for row in pair)
        }
        return {same: both for same, both in sums.items() if is_beyond(*both)}

    def findings(self) -> Iterator[Event]:
        """Yield findings that began, ended, spread, or changed their severity or suppression."""
        every = _rows_between(self._connection, finding_span, self._since, self._until)
        for rows in grouped((row["fingerprint"], row) for row in every).values():
            before: SpanRow | None = None
            extent: Extent | None = None  # the last one that is known
            for row in rows:
                if row["from_at"] > self._since:
                    if before is None or before["to_at"] != row["from_at"]:
                        extent = None
                        yield self._finding(EventKind.FINDING_BEGAN, row["from_at"], row)
                    elif _standing(before) != _standing(row):
                        changed = self._finding(EventKind.SEVERITY, row["from_at"], row)
                        yield changed._replace(before=_standing(before), now=_standing(row))
                    now = _extent(row)
                    if before and extent and now and now.exceeds(extent) and before["ruleset"] == row["ruleset"]:
                        spread = self._finding(EventKind.SPREAD, row["from_at"], row)
                        yield spread._replace(spread=(extent.replicas, now.replicas))
                before, extent = row, _extent(row) or extent
            for row in self._ends(rows):
                yield self._finding(EventKind.FINDING_ENDED, row["to_at"], row)

    def _finding(self, kind: EventKind, at: datetime, row: SpanRow) -> Event:
        return self._event(
            kind,
            at,
            pools=tuple(row["subject"].split(BETWEEN_POOLS)),
            now=row["severity"],
            rule=row["rule"],
            sentence=row["sentence"],
            fingerprint=row["fingerprint"],
            is_suppressed=row["suppressed"],
            is_new_rule_set=at in self._renewed,
        )

    def _event(self, kind: EventKind, at: datetime, **parts: Any) -> Event:
        if at not in self._polls:
            self._polls[at] = self._poll_before(at)
        return Event(kind, at, self._polls[at], **parts)

    def _poll_before(self, at: datetime) -> datetime | None:
        """Return the poll before another one; None where polls of that time are no longer kept."""
        ends = self._connection.execute(
            select(watch.c.from_at, watch.c.to_at)
            .where(watch.c.from_at <= at)
            .order_by(watch.c.from_at.desc())
            .limit(2)
        ).all()
        if ends and ends[0].from_at == at:
            return ends[1].to_at if len(ends) > 1 else None
        last: datetime | None = self._connection.scalar(select(func.max(poll.c.at)).where(poll.c.at < at))
        return last


def _extent(row: SpanRow) -> Extent | None:
    return None if row["replicas"] is None else Extent(row["replicas"], row["total"])


def _standing(row: SpanRow) -> str:
    return f"{row['severity']}{', suppressed' if row['suppressed'] else ''}"


def _rows_between(connection: Connection, table: Table, since: datetime, until: datetime) -> Sequence[SpanRow]:
    """Return the spans that touch a range, the first one first."""
    query = select(table)
    if table is replica_span:
        query = select(table, replica.c.address).join(replica, replica.c.id == table.c.replica_id)
    touches = or_(table.c.to_at.is_(None), table.c.to_at > since)
    query = query.where(table.c.from_at <= until, touches).order_by(table.c.from_at, table.c.id)
    return connection.execute(query).mappings().all()


def event_place(event: Event) -> tuple[object, ...]:
    """Return the key that sorts events by their time."""
    return event.at, list(EventKind).index(event.kind), event.pools, event.replicas, event.fingerprint
