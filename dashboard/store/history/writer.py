"""The only writer of a history: it records what a poll changed."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, select, update

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.documents.fleet import settings_json
from dashboard.fleet import ProbeResult, Replica, has_same_content
from dashboard.fleet.formatting import iso
from dashboard.rules.catalogue import RULE_SET
from dashboard.rules.findings import Finding
from dashboard.store.history.bodies import BodyWriter, Content, chunks
from dashboard.store.history.clock import ClockError
from dashboard.store.history.database import Database
from dashboard.store.history.parts import ReplicaParts, fleet_part, replica_parts
from dashboard.store.history.retention import KEPT, Retention, prune_step
from dashboard.store.history.schema import (
    EPOCH,
    body,
    document_span,
    finding_span,
    fleet_span,
    poll,
    replica,
    replica_span,
    watch,
)

FINGERPRINT_DIGITS = 16
PRUNE_PAUSE = timedelta(hours=1)  # after the start and after everything old was deleted; then a step at each poll
_ANSWER = attrgetter("path", "source", "status", "failure")
ReplicaKey = tuple[str, str]  # address, pod


class Open(NamedTuple):
    """A span that lasts: its row, and the state that ends it when it changes."""

    id: int
    state: Hashable


class Last(NamedTuple):
    """The last watch: its row, its last poll, and when the next poll is due."""

    id: int
    to_at: datetime
    due: datetime


def replica_key(one: Replica) -> ReplicaKey:
    """Return what identifies a replica: with another pod a reused address is another replica."""
    labels = one.labels
    pod = labels.get("pod_uid") or "/".join(labels[name] for name in ("namespace", "pod") if name in labels)
    return _storable(one.id), _storable(pod)


def fingerprint(finding: Finding) -> str:
    """Return the digest of rule, pools and setting paths: the same when values change."""
    content = json.dumps([finding.rule, sorted(finding.pools), sorted(finding.paths)])
    return hashlib.sha256(content.encode()).hexdigest()[:FINGERPRINT_DIGITS]


class HistoryWriter:
    """Records polls. After an error it opens the database again, and reads what was recorded last."""

    def __init__(self, database: Database, retention: Retention = KEPT) -> None:
        """Open nothing yet."""
        self.database = database
        self.retention = retention
        self._prune_at = EPOCH
        self._opened = ExitStack()
        self._files: list[tuple[int, int]] = []
        self._state: _State | None = None

    def record(self, fleet: Fleet, due: datetime) -> None:
        """Record a poll in one transaction; after `due` without another one there is a gap.

        Raise HistoryError where nothing was recorded.
        """
        if fleet.polled_at is None:
            return
        with self._closed_on_error():
            state = self._writing(fleet.name, fleet.polled_at)
            state.record(fleet, fleet.polled_at, due)
            if fleet.polled_at >= self._prune_at and not state.prune(fleet.polled_at, self.retention):
                self._prune_at = fleet.polled_at + PRUNE_PAUSE

    def open(self, fleet: str, now: datetime) -> None:
        """Become the only writer, if this is none yet; raise HistoryError where another one is."""
        with self._closed_on_error():
            self._writing(fleet, now)

    def _writing(self, fleet: str, now: datetime) -> "_State":
        if self._state is not None and (self._state.fleet != fleet or self._files != self.database.files()):
            self.close()
        if self._state is None:
            self._state = _State(self._opened.enter_context(self.database.written_by(fleet)), fleet)
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
            self.close()
            raise

    def close(self) -> None:
        """Let another process record."""
        self._state = None
        opened, self._opened = self._opened, ExitStack()
        opened.close()


class _State:
    """What was recorded last, in memory, and the connection to record more."""

    def __init__(self, connection: Connection, fleet: str) -> None:
        self.fleet = fleet
        self._connection = connection
        self._bodies = BodyWriter()
        self._before: Fleet | None = None  # as recorded by this process
        self._replicas: dict[ReplicaKey, Replica] = {}
        with connection.begin():
            self._last = _last_watch(connection)
            self._open = {table: _open_spans(connection, table) for table in STATES}
            rows = connection.execute(select(replica.c.address, replica.c.pod, replica.c.id))
            self._ids: dict[ReplicaKey, int] = {(address, pod): key for address, pod, key in rows}

    def record(self, fleet: Fleet, at: datetime, due: datetime) -> None:
        if self._last is not None and at <= self._last.to_at:
            raise ClockError(
                f"Not recorded: the last poll in the history is of {iso(self._last.to_at)}, later than this one. "
                "Correct the clock; if it was ahead then, delete those polls with history prune --after TIME."
            )
        with self._connection.begin():
            self._record_fleet(fleet, at)
            self._record_documents(fleet, at)
            self._record_replicas(fleet, at)
            self._record_findings(fleet, at)
            last = self._record_poll(fleet, at, due)
        self._last, self._before = last, fleet

    def prune(self, at: datetime, retention: Retention) -> int:
        return prune_step(self._connection, at, retention)

    def _record_fleet(self, fleet: Fleet, at: datetime) -> None:
        before = self._before
        names = ("policy", "ignored", "discovery_errors", "routers", "name", "inspection.notes")
        if before is not None and all(attrgetter(name)(before) == attrgetter(name)(fleet) for name in names):
            return
        content = Content(fleet_part(fleet, at))
        self._replace(fleet_span, {"": content.sha}, {"": content}, at)

    def _record_documents(self, fleet: Fleet, at: datetime) -> None:
        known = self._before.documents if self._before else {}
        opened = self._open[document_span]
        changed = {
            key: Content(settings_json(each.settings))
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
        now = {replica_key(each): each for each in fleet.replicas}
        opened = self._open[replica_span]
        looked_at = {
            key: each
            for key, each in now.items()
            if key not in self._replicas or not _is_same(each, self._replicas[key])
        }
        parts = dict(zip(looked_at, replica_parts(fleet, list(looked_at.values()), at), strict=True))
        contents = {key: _contents(each.pool, parts[key]) for key, each in looked_at.items()}
        states = {
            key: _replica_state(each, contents[key]) if key in contents else opened[key].state
            for key, each in now.items()
        }
        new = self._new(replica_span, states)
        ids = self._bodies.save(self._connection, [content for key in new for content in contents[key]])
        self._add_replicas(new, at)
        rows = {
            key: {
                "replica_id": self._ids[key],
                **_columns(now[key]),
                **{name: ids[each.sha] for name, each in zip(("process", "answers"), contents[key], strict=True)},
                "times": parts[key].times,
            }
            for key in new
        }
        self._change(replica_span, states, rows, at)
        self._replicas = now

    def _add_replicas(self, keys: Iterable[ReplicaKey], at: datetime) -> None:
        added = [key for key in keys if key not in self._ids]
        if added:
            rows = [{"address": address, "pod": pod, "first_seen": at} for address, pod in added]
            statement = replica.insert().returning(replica.c.id, sort_by_parameter_order=True)
            self._ids |= zip(added, self._connection.scalars(statement, rows), strict=True)

    def _record_findings(self, fleet: Fleet, at: datetime) -> None:
        if self._before is not None and self._before.inspection is fleet.inspection:
            return
        found: dict[str, list[Finding]] = defaultdict(list)
        for each in (*fleet.inspection.findings, *fleet.inspection.suppressed):
            found[fingerprint(each)].append(each)
        rows = {key: _finding_columns(same) for key, same in found.items()}
        states = {key: tuple(row[name] for name in STATES[finding_span]) for key, row in rows.items()}
        self._change(finding_span, states, {key: {**rows[key], "fingerprint": key} for key in rows}, at)

    def _record_poll(self, fleet: Fleet, at: datetime, due: datetime) -> Last:
        counts = fleet.coverage
        self._connection.execute(poll.insert().values(at=at, due=due, answered=counts.answered, total=counts.targets))
        if self._last is None or at > self._last.due:
            added = watch.insert().returning(watch.c.id)
            row = self._connection.execute(added, {"from_at": at, "to_at": at, "due": due}).scalar_one()
            return Last(row, at, due)
        self._connection.execute(update(watch).where(watch.c.id == self._last.id).values(to_at=at, due=due))
        return self._last._replace(to_at=at, due=due)

    def _new(self, table: Table, states: Mapping[Any, Hashable]) -> list[Any]:
        """Return the keys of spans that begin now."""
        opened = self._open[table]
        return [key for key, state in states.items() if key not in opened or opened[key].state != state]

    def _change(
        self, table: Table, states: Mapping[Any, Hashable], rows: Mapping[Any, dict[str, Any]], at: datetime
    ) -> None:
        """End the spans that are not in `states`, and begin the new ones."""
        opened = self._open[table]
        ended = [each.id for key, each in opened.items() if key not in states or states[key] != each.state]
        last_seen = self._last.to_at if self._last else at
        for some in chunks(ended):
            these = update(table).where(table.c.id.in_(some))
            self._connection.execute(these.values(to_at=at, last_seen=last_seen))
        new = self._new(table, states)
        if new:
            statement = table.insert().returning(table.c.id, sort_by_parameter_order=True)
            ids = self._connection.scalars(statement, [{"from_at": at, **rows[key]} for key in new]).all()
            begun = {key: Open(row, states[key]) for key, row in zip(new, ids, strict=True)}
        else:
            begun = {}
        if new or ended:
            self._open[table] = {key: begun.get(key) or opened[key] for key in states}


def _contents(pool: str | None, parts: ReplicaParts) -> tuple[Content, Content]:
    return Content(parts.process, group=f"process {pool}"), Content(parts.answers)


def _replica_state(one: Replica, contents: Sequence[Content]) -> Hashable:
    """Return what ends a span when it changes; of a fresh replica the time of its answers is no state."""
    return (*(each.sha for each in contents), one.document, one.fresh, None if one.fresh else one.observed_at)


def _columns(one: Replica) -> dict[str, Any]:
    names = ("started_at", "document", "fresh", "observed_at")
    texts = {name: getattr(one, name) for name in ("name", "pool", "version")}
    return {
        "state": str(one.state),
        "reason": str(one.failure.kind) if one.failure else None,
        **{name: getattr(one, name) for name in names},
        **{name: None if text is None else _storable(text) for name, text in texts.items()},
    }


def _storable(text: str) -> str:
    """Return a foreign text as every database stores it: PostgreSQL has no zero bytes."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def _finding_columns(same: Sequence[Finding]) -> dict[str, Any]:
    """Return the columns of findings with one fingerprint: the worst active one, else the worst suppressed one."""
    first = min(same, key=lambda each: (each.suppression is not None, each.severity.rank))
    return {
        "rule": first.rule,
        "subject": _storable(first.subject),
        "severity": str(first.severity),
        "suppressed": first.suppression is not None,
        "ruleset": RULE_SET,
        "findings": len(same),
        "sentence": _storable(first.sentence),
    }


def _is_same(now: Replica, then: Replica) -> bool:
    """Return whether a replica's state lasts."""
    same_times = now.fresh or now.observed_at == then.observed_at
    same_probes = len(now.probes) == len(then.probes) and all(map(_is_same_answer, now.probes, then.probes))
    return same_times and same_probes and has_same_content((now,), (then,))


def _is_same_answer(now: ProbeResult, then: ProbeResult) -> bool:
    """Return whether two results differ at most in their times and sizes."""
    if now is then:
        return True
    sources = [each.reply.source if each.reply else None for each in (now, then)]
    return sources[0] == sources[1] and _ANSWER(now) == _ANSWER(then)


# The columns of the state of each table's spans; None: the hash of its body.
STATES: Mapping[Table, tuple[str, ...]] = {
    fleet_span: (),
    document_span: (),
    replica_span: (),
    finding_span: ("severity", "suppressed", "ruleset"),
}


def _last_watch(connection: Connection) -> Last | None:
    c = watch.c
    row = connection.execute(select(c.id, c.to_at, c.due).order_by(c.from_at.desc()).limit(1)).one_or_none()
    return Last(*row) if row else None


def _open_spans(connection: Connection, table: Table) -> dict[Any, Open]:
    """Return the spans that last, by key."""
    lasts = table.c.to_at.is_(None)
    if table is finding_span:
        columns = (table.c[name] for name in STATES[table])
        rows = connection.execute(select(table.c.id, table.c.fingerprint, *columns).where(lasts))
        return {key: Open(row, tuple(state)) for row, key, *state in rows}
    if table is replica_span:
        process, answers = body.alias(), body.alias()
        c = table.c
        joined = (
            select(
                c.id, replica.c.address, replica.c.pod, process.c.sha, answers.c.sha, c.document, c.fresh, c.observed_at
            )
            .join(replica, replica.c.id == c.replica_id)
            .join(process, process.c.id == c.process)
            .join(answers, answers.c.id == c.answers)
        )
        return {
            (address, pod): Open(row, (bytes(one), bytes(other), document, fresh, None if fresh else observed_at))
            for row, address, pod, one, other, document, fresh, observed_at in connection.execute(joined.where(lasts))
        }
    key = table.c.document if table is document_span else None
    found = connection.execute(select(table, body.c.sha).join(body, body.c.id == table.c.body).where(lasts)).mappings()
    return {row[key] if key is not None else "": Open(row["id"], bytes(row["sha"])) for row in found}
