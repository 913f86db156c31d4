"""Replicas as rows: when a span ends, and the most changes of one replica that are recorded on a day."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, func, select

from dashboard.analysis.assembly import Fleet, assemble
from dashboard.fleet import Document, ProbeResult, Replica, has_same_content
from dashboard.fleet.formatting import iso
from dashboard.store.history.bodies import Content
from dashboard.store.history.parts import RecordedReplica
from dashboard.store.history.schema import replica, replica_span

MOST_CHANGES = 200  # on a day (UTC)
CHANGE_BYTES = 20_000  # of what changed in settings; each so many count as one more change
REPORT_BYTES = 100_000  # the same of everything else, which is not compared

ReplicaKey = tuple[str, str]  # address, pod
_ANSWER = attrgetter("path", "source", "status", "failure")


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


def replica_contents(pool: str | None, parts: RecordedReplica) -> tuple[Content, Content]:
    """Return process and answers, each in the group of similar ones."""
    return Content(parts.process, group=f"process {pool}"), Content(parts.answers, group=f"answers {pool}")


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
        """Know no change yet."""
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
        """Count a change."""
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
