"""Spans that a writer goes on with, those of replicas among them: what ends one, and the most changes of a day."""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, func, select, tuple_

from dashboard.analysis.assembly import Fleet, assemble
from dashboard.fleet import Document, ProbeResult, Replica, has_same_content
from dashboard.fleet.formatting import iso
from dashboard.fleet.history import Sighting
from dashboard.store.history.bodies import Content
from dashboard.store.history.schema import KEYS, body, chunks, document_span, fleet_span, replica, replica_span, watch

# The columns that end a span when they change, of spans without a body.
STATES = {
    "finding_span": ("severity", "suppressed", "ruleset", "replicas"),
    "cohort_span": ("letter", "replicas"),
    "difference_span": (),
}
SIGHTING = Sighting._fields
MOST_CHANGES = 200  # on a day (UTC)
CHANGE_BYTES = 20_000  # of what changed in settings; each so many count as one more change
REPORT_BYTES = 100_000  # the same of everything else, which is not compared

ReplicaKey = tuple[str, str]  # address, pod
_ANSWER = attrgetter("path", "source", "status", "failure")


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
    return Sighting(*(row[name] for name in SIGHTING))


def first_seen(connection: Connection, table: Table, keys: Collection[tuple[Any, ...]]) -> dict[Any, datetime]:
    """Return when each of some things was recorded first; what never was is left out."""
    columns = [table.c[name] for name in KEYS[table]]
    found: dict[Any, datetime] = {}
    for some in chunks(keys, each=len(columns)):
        query = select(*columns, func.min(table.c.first_seen)).where(tuple_(*columns).in_(some)).group_by(*columns)
        found |= {tuple(key): first for *key, first in connection.execute(query)}
    return found


def replica_key(one: Replica) -> ReplicaKey:
    """Return what identifies a replica: with another pod a reused address is another replica."""
    labels = one.labels
    pod = labels.get("pod_uid") or "/".join(labels[name] for name in ("namespace", "pod") if name in labels)
    return storable(one.id), storable(pod)


def storable(text: str) -> str:
    """Return a foreign text as every database stores it: PostgreSQL has no zero bytes."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def is_same(now: Replica, then: Replica) -> bool:
    """Return whether a replica's state lasts."""
    if now is then:
        return True
    same_times = now.fresh or now.observed_at == then.observed_at
    same_probes = len(now.probes) == len(then.probes) and all(map(_is_same_answer, now.probes, then.probes))
    return same_times and same_probes and has_same_content((now,), (then,))


def _is_same_answer(now: ProbeResult, then: ProbeResult) -> bool:
    """Return whether two results differ at most in their times and sizes."""
    if now is then:
        return True
    sources = [each.reply.source if each.reply else None for each in (now, then)]
    return sources[0] == sources[1] and _ANSWER(now) == _ANSWER(then)


def replica_state(one: Replica, contents: Sequence[Content]) -> Hashable:
    """Return what ends a span when it changes; of a fresh replica the time of its answers is no state."""
    return (*(each.sha for each in contents), one.document, one.fresh, None if one.fresh else one.observed_at)


def replica_columns(one: Replica) -> dict[str, Any]:
    """Return the columns of a span that say what a replica is."""
    names = ("started_at", "document", "fresh", "observed_at")
    texts = {name: getattr(one, name) for name in ("name", "pool", "version")}
    return {
        "state": str(one.state),
        "reason": str(one.failure.kind) if one.failure else None,
        **{name: getattr(one, name) for name in names},
        **{name: None if text is None else storable(text) for name, text in texts.items()},
    }


class ChangeLimit:
    """Counts the recorded changes of each replica on the present day."""

    def __init__(self) -> None:
        self._day: date | None = None
        self._counts: Counter[ReplicaKey] = Counter()
        self.names: dict[str, str] = {}  # of the replicas that reached the limit today, by id

    def load(self, connection: Connection, last: datetime) -> None:
        """Count the changes that were recorded on the day of the last poll."""
        self._day = last.date()
        c = replica_span.c
        number = (
            select(replica.c.address, replica.c.pod, func.count())
            .join(replica, replica.c.id == c.replica_id)
            .where(c.from_at >= datetime.combine(self._day, datetime.min.time(), last.tzinfo))
            .group_by(replica.c.address, replica.c.pod)
        )
        self._counts.update({(address, pod): count for address, pod, count in connection.execute(number)})

    def held(self, fleet: Fleet, recorded: Mapping[ReplicaKey, Replica], at: datetime) -> dict[str, Replica]:
        """Return, by id, replicas as they were recorded last that have more changes than are recorded today."""
        if at.date() != self._day:
            self._day, self._counts, self.names = at.date(), Counter(), {}
        reached = {key for key, number in self._counts.items() if number >= MOST_CHANGES}
        held: dict[str, Replica] = {}
        for now in fleet.replicas if reached else ():
            key = replica_key(now)
            if key in reached and key in recorded and not is_same(now, recorded[key]):
                held[now.id] = recorded[key]
                self.names[now.id] = now.name
        return held

    def add(self, key: ReplicaKey, settings_bytes: int, report_bytes: int) -> None:
        self._counts[key] += 1 + settings_bytes // CHANGE_BYTES + report_bytes // REPORT_BYTES


def changed_bytes(
    known: Mapping[str, Document], before: Replica, documents: Mapping[str, Document], now: Replica
) -> int:
    """Return the bytes of settings that are new or differ."""
    old = known[before.document].settings if before.document and before.document in known else {}
    new = documents[now.document].settings if now.document and now.document in documents else {}
    return sum(len(path) + len(each.value or "") for path, each in new.items() if old.get(path) != each)


def with_replicas(fleet: Fleet, held: Mapping[str, Replica], before: Fleet, at: datetime) -> Fleet:
    """Return a fleet with other replicas in place of those of these ids; their documents are in `before`."""
    replicas = tuple(held.get(each.id, each) for each in fleet.replicas)
    known = {**before.documents, **fleet.documents}
    documents = {each.document: known[each.document] for each in replicas if each.document is not None}
    return assemble(replace(fleet, replicas=replicas, documents=documents), at, before=before)


def limit_text(name: str, limited_at: datetime) -> str:
    """Return why the history has no later changes of a replica."""
    return (
        f"{name} changed more than {MOST_CHANGES} times a day, the most that the history records: its changes "
        f"from {iso(limited_at)} until the end of that day are missing."
    )
