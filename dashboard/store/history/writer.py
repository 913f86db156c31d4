"""The only writer of a history: it records what a poll changed."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Table, select, update

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.events import BETWEEN_POOLS
from dashboard.config import HistoryOptions
from dashboard.documents.fleet import settings_json
from dashboard.errors import HistoryError
from dashboard.fleet import Replica
from dashboard.fleet.formatting import iso
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import NO_SIGHTINGS, Sighting, Sightings
from dashboard.fleet.times import EPOCH
from dashboard.rules.catalogue import RULE_SET, places
from dashboard.rules.findings import Finding, FindingLife
from dashboard.store.history import spans
from dashboard.store.history.bodies import BodyWriter, Content, fleet_part, replica_parts
from dashboard.store.history.database import Database
from dashboard.store.history.retention import disk_bytes, prune_step
from dashboard.store.history.schema import (
    KEYS,
    SPANS,
    chunks,
    cohort_span,
    difference_span,
    document_span,
    finding_span,
    fleet_span,
    poll,
    replica,
    replica_span,
    watch,
)
from dashboard.store.history.traffic import TrafficSums, write_engines

PRUNE_PAUSE = timedelta(hours=1)  # after the start and after everything old was deleted; then a step at each poll


class HistoryWriter:
    """Records polls. After an error it opens the database again, and reads what was recorded last."""

    def __init__(self, database: Database, options: HistoryOptions | None = None) -> None:
        self.database = database
        self.options = options or HistoryOptions()
        self.size_bytes: int | None = None  # after the last recorded poll
        self.limited: tuple[str, ...] = ()  # names of replicas with changes at it that are not recorded
        self._prune_at = EPOCH
        self._opened = ExitStack()
        self._files: list[tuple[int, int]] = []
        self._state: _RecordedState | None = None
        self._sums = TrafficSums()

    def record(self, fleet: Fleet, due: datetime) -> Sightings:
        """Record a poll in one transaction; after `due` without another one there is a gap. Return its sightings.

        Raise HistoryError where nothing was recorded.
        """
        if fleet.polled_at is None:
            return NO_SIGHTINGS
        with self._closed_on_error():
            state = self._writing(fleet.name, fleet.polled_at)
            state.record(fleet, fleet.polled_at, due, self._sums)
            if fleet.polled_at >= self._prune_at and not state.prune(fleet.polled_at, self.options):
                self._prune_at = fleet.polled_at + PRUNE_PAUSE
            self.size_bytes, self.limited = state.size_of(self.database), state.limited
            return state.sightings

    def open(self, fleet: str, now: datetime) -> None:
        """Become the only writer, if this is none yet; raise HistoryError where another one is."""
        with self._closed_on_error():
            self._writing(fleet, now)

    def _writing(self, fleet: str, now: datetime) -> "_RecordedState":
        if self._state is not None and (self._state.fleet != fleet or self._files != self.database.files()):
            self._close()
        if self._state is None:
            connection = self._opened.enter_context(self.database.written_by(fleet))
            with self.database.undamaged():
                self._state = _RecordedState(connection, fleet)
            self._files = self.database.files()
            self._prune_at = now + PRUNE_PAUSE  # somebody may see until then that the clock is wrong
        return self._state

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        """Close after an error. After a wrong clock, too: `history prune` may delete what is later."""
        try:
            with self.database.reported():
                yield
        except BaseException:
            self._close()
            raise

    def close(self) -> None:
        """Record the traffic of the last minutes, where that works, and let another process record."""
        if self._state is not None:
            with suppress(HistoryError), self.database.reported():
                self._state.write_traffic(self._sums)
        self._close()

    def _close(self) -> None:
        self._state = None
        opened, self._opened = self._opened, ExitStack()
        opened.close()


class _RecordedState:
    """What was recorded last, in memory, and the connection to record more."""

    def __init__(self, connection: Connection, fleet: str) -> None:
        self.fleet = fleet
        self._connection = connection
        self._is_shared = connection.dialect.name != "sqlite"
        self._bodies = BodyWriter()
        self._before: Fleet | None = None  # as recorded by this process
        self._replicas: dict[spans.ReplicaKey, Replica] = {}
        with connection.begin():
            self._last = spans.last_watch(connection)
            self._open = {table: spans.open_spans(connection, table) for table in SPANS}
            rows = connection.execute(select(replica.c.address, replica.c.pod, replica.c.id))
            self._ids: dict[spans.ReplicaKey, int] = {(address, pod): key for address, pod, key in rows}
            self._limit = spans.ChangeLimit()
            if self._last is not None:
                self._limit.load(connection, self._last.to_at)
        self.sightings = self._all_sightings()
        self._has_changed = False  # since the sightings were gathered

    def record(self, fleet: Fleet, at: datetime, due: datetime, sums: TrafficSums) -> None:
        if self._last is not None and at <= self._last.to_at:
            raise HistoryError(
                f"Not recorded: the last poll in the history is of {iso(self._last.to_at)}, later than this one. "
                "Correct the clock; if it was ahead then, delete those polls with history prune --after TIME."
            )
        with self._connection.begin():
            fleet = self._limited(fleet, at)
            self._record_fleet(fleet, at)
            self._record_documents(fleet, at)
            self._record_replicas(fleet, at)
            self._record_pools(fleet, at)
            self._record_findings(fleet, at)
            last = self._record_poll(fleet, at, due)
            sums.write(self._connection, at)
            if self._is_shared and (self._before is None or self._before.traffic != fleet.traffic):
                write_engines(self._connection, fleet.traffic)
        sums.add(fleet, at)
        self._last, self._before = last, fleet
        if self._has_changed:
            self.sightings, self._has_changed = self._all_sightings(), False

    def write_traffic(self, sums: TrafficSums) -> None:
        with self._connection.begin():
            sums.write(self._connection)
        sums.clear()

    def prune(self, at: datetime, options: HistoryOptions) -> int:
        deleted = prune_step(self._connection, at, options)
        if deleted:
            self._bodies = BodyWriter()  # a base may be deleted
        return deleted

    def _limited(self, fleet: Fleet, at: datetime) -> Fleet:
        """Return the fleet with each replica that changed too often today as it was recorded last."""
        known = set(self.limited)
        held = self._limit.held(fleet, self._replicas, at)
        opened = self._open[replica_span]
        for some in chunks([opened[spans.replica_key(each)].id for each in held.values() if each.name not in known]):
            self._connection.execute(update(replica_span).where(replica_span.c.id.in_(some)).values(limited_at=at))
        return spans.with_replicas(fleet, held, self._before, at) if held and self._before else fleet

    @property
    def limited(self) -> tuple[str, ...]:
        return tuple(self._limit.names.values())

    def size_of(self, database: Database) -> int | None:
        with self._connection.begin():
            return disk_bytes(database, self._connection)

    def _record_fleet(self, fleet: Fleet, at: datetime) -> None:
        before = self._before
        inspection = ("inspection.notes", "inspection.unconfirmed")
        names = ("policy", "ignored", "discovery_errors", "routers", "recent", "traffic_window", "name", *inspection)
        if before is not None and all(attrgetter(name)(before) == attrgetter(name)(fleet) for name in names):
            return
        shell = fleet_part(replace(fleet, sightings=NO_SIGHTINGS), at)  # those are columns of spans
        content = Content(shell, group="fleet")
        self._replace(fleet_span, {"": content.sha}, {"": content}, at)

    def _record_documents(self, fleet: Fleet, at: datetime) -> None:
        known = self._before.documents if self._before else {}
        opened = self._open[document_span]
        pools = {each.document: each.pool for each in fleet.replicas}
        changed = {
            key: Content(settings_json(each.settings), group=f"document {pools.get(key)}")
            for key, each in fleet.documents.items()
            if key not in known or known[key] != each
        }
        states = {key: changed[key].sha if key in changed else opened[key].state for key in fleet.documents}
        self._replace(document_span, states, changed, at)

    def _replace(
        self, table: Table, states: Mapping[Any, Hashable], contents: Mapping[Any, Content], at: datetime
    ) -> None:
        """Record spans of a body each; `contents` has those that may be new."""
        new = self._new(table, states)
        ids = self._bodies.save(self._connection, [contents[key] for key in new])
        name = {"document": None} if table is document_span else {}
        rows = [{**dict.fromkeys(name, key), "body": ids[contents[key].sha]} for key in new]
        self._change(table, states, dict(zip(new, rows, strict=True)), at)

    def _record_replicas(self, fleet: Fleet, at: datetime) -> None:
        now = {spans.replica_key(each): each for each in fleet.replicas}
        opened = self._open[replica_span]
        looked_at = {
            key: each
            for key, each in now.items()
            if key not in self._replicas or not spans.is_same(each, self._replicas[key])
        }
        parts = dict(zip(looked_at, replica_parts(fleet, list(looked_at.values()), at), strict=True))
        contents = {
            key: (
                Content(parts[key].process, group=f"process {each.pool}"),
                Content(parts[key].answers, group=f"answers {each.pool}"),
            )
            for key, each in looked_at.items()
        }
        states = {
            key: spans.replica_state(each, contents[key]) if key in contents else opened[key].state
            for key, each in now.items()
        }
        new = self._new(replica_span, states)
        ids = self._bodies.save(self._connection, [content for key in new for content in contents[key]])
        self._add_replicas(new)
        rows = {
            key: {
                "replica_id": self._ids[key],
                **spans.replica_columns(now[key]),
                **{name: ids[each.sha] for name, each in zip(("process", "answers"), contents[key], strict=True)},
                "times": parts[key].times,
            }
            for key in new
        }
        documents = self._before.documents if self._before else {}
        for key in new:
            if key in self._replicas:
                settings = spans.changed_bytes(documents, self._replicas[key], fleet.documents, now[key])
                self._limit.add(key, settings, sum(len(each.json) for each in contents[key]))
        self._change(replica_span, states, rows, at)
        self._replicas = now

    def _add_replicas(self, keys: Iterable[spans.ReplicaKey]) -> None:
        added = [key for key in keys if key not in self._ids]
        if added:
            rows = [{"address": address, "pod": pod} for address, pod in added]
            statement = replica.insert().returning(replica.c.id, sort_by_parameter_order=True)
            self._ids |= zip(added, self._connection.scalars(statement, rows), strict=True)

    def _record_pools(self, fleet: Fleet, at: datetime) -> None:
        if self._before is not None and [*map(id, fleet.pools)] == [*map(id, self._before.pools)]:
            return
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for pool in fleet.pools:
            for each in pool.cohorts:
                name, version = spans.storable(pool.name), fleet.documents[each.document].version
                rows[name, each.document] = {
                    "pool": name,
                    "document": each.document,
                    "letter": each.letter,
                    "replicas": len(each.replicas),
                    "version": None if version is None else spans.storable(version),
                }
        names = spans.STATES[cohort_span.name]
        self._change(cohort_span, {key: tuple(row[name] for name in names) for key, row in rows.items()}, rows, at)
        keys = {
            (spans.storable(pool.name), spans.storable(each.path)) for pool in fleet.pools for each in pool.differences
        }
        paths = {(pool, path): {"pool": pool, "path": path} for pool, path in keys}
        self._change(difference_span, dict.fromkeys(keys, ()), paths, at)

    def _record_findings(self, fleet: Fleet, at: datetime) -> None:
        """Record findings, also those that the poll could not see. What their spans have of their lives is as it is."""
        if self._before is not None and self._before.inspection is fleet.inspection:
            return
        every = (*fleet.inspection.findings, *fleet.inspection.suppressed)
        found = grouped((each.fingerprint, each) for each in every)
        lives, names = fleet.lives.lives, spans.STATES[finding_span.name]
        rows = {key: {**_finding_columns(same, lives.get(key)), "fingerprint": key} for key, same in found.items()}
        states = {key: tuple(row[name] for name in names) for key, row in rows.items()}
        sightings = {key: lives[key].sighting for key in rows if key in lives}
        self._change(finding_span, states, rows, at, sightings)

    def _record_poll(self, fleet: Fleet, at: datetime, due: datetime) -> spans.LastWatch:
        counts = fleet.coverage
        self._connection.execute(poll.insert().values(at=at, due=due, answered=counts.answered, total=counts.targets))
        if self._last is None or at > self._last.due:
            added = watch.insert().returning(watch.c.id)
            row = self._connection.execute(added, {"from_at": at, "to_at": at, "due": due}).scalar_one()
            return spans.LastWatch(row, at, due)
        self._connection.execute(update(watch).where(watch.c.id == self._last.id).values(to_at=at, due=due))
        return self._last._replace(to_at=at, due=due)

    def _new(self, table: Table, states: Mapping[Any, Hashable]) -> list[Any]:
        """Return the keys of spans that begin now."""
        opened = self._open[table]
        return [key for key, state in states.items() if key not in opened or opened[key].state != state]

    def _change(
        self,
        table: Table,
        states: Mapping[Any, Hashable],
        rows: Mapping[Any, dict[str, Any]],
        at: datetime,
        sighted: Mapping[Any, Sighting] = NO_SIGHTINGS.findings,
    ) -> None:
        """End the spans that are not in `states`, and begin the new ones: with the sightings that are known of them."""
        opened = self._open[table]
        ended = [each.id for key, each in opened.items() if key not in states or states[key] != each.state]
        last_seen = self._last.to_at if self._last else at
        for some in chunks(ended):
            these = update(table).where(table.c.id.in_(some))
            self._connection.execute(these.values(to_at=at, last_seen=last_seen))
        new = self._new(table, states)
        if new:
            sightings = self._sight(table, {key: rows[key] for key in new}, at, sighted) if table in KEYS else {}
            added = [{"from_at": at, **rows[key], **(sightings[key]._asdict() if sightings else {})} for key in new]
            statement = table.insert().returning(table.c.id, sort_by_parameter_order=True)
            ids = self._connection.scalars(statement, added).all()
            begun = {
                key: spans.OpenSpan(row, states[key], sightings.get(key)) for key, row in zip(new, ids, strict=True)
            }
        else:
            begun = {}
        if new or ended:
            self._open[table] = {key: begun.get(key) or opened[key] for key in states}
            self._has_changed = True

    def _sight(
        self, table: Table, rows: Mapping[Any, dict[str, Any]], at: datetime, sighted: Mapping[Any, Sighting]
    ) -> dict[Any, Sighting]:
        """Return the sighting of each span that begins: that of the span before, else a new one."""
        known = {key: each.sighting for key, each in self._open[table].items() if each.sighting and key in rows}
        names = {key: tuple(row[name] for name in KEYS[table]) for key, row in rows.items() if key not in known}
        first = spans.first_seen(self._connection, table, names.values())
        new = Sighting(at, at, self._last.to_at if self._last and table is not finding_span else None)
        begun = {key: sighted.get(key, new) for key in names}
        return known | {
            key: each._replace(first_seen=first.get(names[key], each.first_seen)) for key, each in begun.items()
        }

    def _all_sightings(self) -> Sightings:
        replicas, findings, cohorts, differences = (
            {key: each.sighting for key, each in self._open[table].items() if each.sighting} for table in KEYS
        )
        by_id = {address: each for (address, _), each in replicas.items()}
        return Sightings(findings, by_id, cohorts, differences)


def _finding_columns(same: Sequence[Finding], life: FindingLife | None) -> dict[str, Any]:
    """Return the columns of findings with one fingerprint: the worst active one, else the worst suppressed one."""
    first = min(same, key=lambda each: (each.suppression is not None, each.severity.rank))
    extent = life.extent if life else None
    return {
        "replicas": extent and extent.replicas,
        "total": extent and extent.total,
        "rule": first.rule,
        "subject": spans.storable(BETWEEN_POOLS.join(places(first))),
        "severity": str(first.severity),
        "suppressed": first.suppression is not None,
        "ruleset": RULE_SET,
        "findings": len(same),
        "sentence": spans.storable(first.sentence),
    }
