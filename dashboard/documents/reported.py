"""What another dashboard reports of its replicas: its full document, read again at each poll.

It is foreign: each part is read with the limits, the types and the redaction of a saved fleet, and one that cannot be
read costs only itself. All that it names gets the cluster that fleet.yaml gives it, so that it cannot name the replicas
of others. What is equal to the last read stays the same object.
"""

import marshal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import to_json

from dashboard.analysis.assembly import Fleet
from dashboard.documents.fleet import SCHEMA_VERSION
from dashboard.documents.models import LISTS, MAJOR, readers_of_reports
from dashboard.documents.secrets import clean_replica, clean_settings, clean_text
from dashboard.errors import UnreadableError
from dashboard.fleet import CLUSTER, Document, Replica, Role, Setting, Source, State
from dashboard.fleet.formatting import end_cut
from dashboard.fleet.grouping import grouped
from dashboard.fleet.history import Sighting, Sightings
from dashboard.fleet.replies import CLUSTER_MARK, reporter_of
from dashboard.fleet.traffic import Traffic
from dashboard.vllm.canonical import RecentResults
from dashboard.vllm.merging import document_id, version_of
from dashboard.vllm.reading import MIB, parse_json
from dashboard.vllm.replica import ROLES, pool_key, with_same_process
from vllm_fleet_provider.shared.redaction import redact, redact_known
from vllm_fleet_provider.shared.types import EARLIEST, LATEST

# Of one dashboard. 500 replicas of the simulated fleet have 4 MB and 0.4 million nodes.
MOST_BYTES, MOST_NODES, MOST_REPLICAS, MOST_DOCUMENTS = 64 * MIB, 5_000_000, 5_000, 1_000
MOST_POOLS = 500  # each costs a poll 10 ms, however few replicas it has
PART_BYTES = MIB  # of a replica or a document, as the answers that they are made of
LONGEST_ID, LONGEST_LABEL, MOST_LABELS = 2048, 1000, 100
LONGEST = 200  # characters of what a sentence quotes
OF_ANOTHER = "is reported by another dashboard; list that one in dashboards of this fleet.yaml"
# What changes at each poll, or is derived again here.
VOLATILE = ("observed_at", "probes", "traffic", "first_seen", "since", "absent_at", "cohort", "same_process")

_shared: RecentResults[Any] = RecentResults()  # one object for equal engines, devices and the like of many replicas


class ReportedFleet(NamedTuple):
    """The replicas of another dashboard, with the times of their last reads in seconds since 1970, by id."""

    replicas: tuple[Replica, ...] = ()
    documents: Mapping[str, Document] = {}
    traffic: Mapping[str, Mapping[int, Traffic]] = {}
    read_at: Mapping[str, float] = {}
    first_seen: Mapping[str, datetime] = {}


def with_reported(read: Fleet, reported: Iterable[ReportedFleet]) -> Fleet:
    """Return a fleet of which nothing is derived yet with the replicas of other dashboards.

    Of a replica that two of one cluster report the first is used whose source answers.
    """
    others = [*reported]
    if not others:
        return read
    found: dict[str, tuple[Replica, ReportedFleet | None]] = {each.id: (each, None) for each in read.replicas}
    for source in others:
        for replica in source.replicas:
            known = found.get(replica.id)
            if known is None or (known[0].target_stale and not replica.target_stale):
                found[replica.id] = replica, source
    documents, traffic, read_at = dict(read.documents), dict(read.traffic), dict(read.scraped_at)
    for key, (replica, owner) in found.items():
        if owner is not None:
            found[key] = _adopted(documents, replica, owner), owner
            if key in owner.traffic:
                traffic[key] = owner.traffic[key]
            if key in owner.read_at:
                read_at[key] = owner.read_at[key]
    replicas = tuple(replica for replica, _ in found.values())
    return replace(read, replicas=replicas, documents=documents, traffic=traffic, scraped_at=read_at)


def _adopted(documents: dict[str, Document], replica: Replica, owner: ReportedFleet) -> Replica:
    """Return a replica whose document is among those of a fleet.

    The id of a document is short: who computes for hours has settings with that of others. They get another one.
    """
    if replica.document is None:
        return replica
    own = owner.documents[replica.document]
    other = documents.setdefault(own.id, own).settings
    if other == own.settings or _contents(other) == _contents(own.settings):
        return replica
    salt = Setting(to_json(replica.labels[CLUSTER]).decode(), State.REPORTED, Source.MODELS)
    key = document_id({**own.settings, CLUSTER: salt})
    documents[key] = replace(own, id=key)
    return replace(replica, document=key)


def _contents(settings: Mapping[str, Setting]) -> dict[str, tuple[str, str]]:
    return {path: (each.value, each.state) for path, each in settings.items()}


def with_first_seen(sightings: Sightings, reported: Iterable[ReportedFleet]) -> Sightings:
    """Return the sightings of the history with those of replicas that other dashboards saw earlier."""
    replicas = dict(sightings.replicas)
    for key, at in (item for each in reported for item in each.first_seen.items()):
        own = replicas.get(key)
        if own is None or at < own.first_seen:
            replicas[key] = Sighting(at, at) if own is None else own._replace(first_seen=at)
    return replace(sightings, replicas=replicas) if replicas != sightings.replicas else sightings


class _Known(NamedTuple):
    """A replica as it was read last: the hash of what was read, and whether its own dashboard called it fresh."""

    content: int
    replica: Replica
    fresh: bool


class ReportReader:
    """Reads the documents of one dashboard, one after the other. `refused` are sentences on parts of the last one."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        """Read nothing yet. The labels, with that of the cluster, win over those in a document."""
        self._labels = labels
        self._prefix = f"{labels[CLUSTER]}{CLUSTER_MARK}"
        self._known: dict[str, _Known] = {}  # by own id
        self._documents: dict[str, tuple[int, Document]] = {}  # by the key in the document
        self._traffic: dict[tuple[str, int], tuple[int, Traffic]] = {}
        self._read = ReportedFleet()
        self._unread: set[str] = set()  # own ids of replicas that only an earlier document has
        self.refused: list[str] = []
        self.at: datetime | None = None  # the time of the last document

    def read(self, body: bytes) -> None:
        """Read a whole document. Raise UnreadableError with a predicate, and keep the last one."""
        if len(body) > MOST_BYTES:
            raise UnreadableError("too_large", f"answers with more than {MOST_BYTES // MIB} MiB")
        found = parse_json(body, MOST_NODES)
        at = _checked(found)
        self.refused = []
        documents = self._read_documents(found["documents"])
        rows = [each for each in found["replicas"] if isinstance(each, dict)]
        parts = [_by_replica(found.get(name)) for name in LISTS]
        known: dict[str, _Known] = {}
        read_at: dict[str, float] = {}
        first_seen: dict[str, datetime] = {}
        self._unread = set()
        for row in rows:
            key: Any = row.get("replica")
            if fault := _fault_of_id(key):
                self.refused.append(fault)
                continue
            own, times = self._own(key), [_moment(row.get(name)) for name in ("observed_at", "first_seen")]
            try:
                known[own] = self._read_replica(own, row, [each.get(key) for each in parts], documents)
            except (ValidationError, UnreadableError, ValueError, ArithmeticError) as error:
                self.refused.append(f"replica {end_cut(key, LONGEST)}: {_reason(error)}")
                if own not in self._known:
                    continue
                known[own] = self._known[own]  # as it was read last
                self._unread.add(own)
            if times[0] is not None:
                read_at[own] = times[0].timestamp()
            if times[1] is not None:
                first_seen[own] = times[1]
        self._limit_pools(known)
        replicas = with_same_process([each.replica for each in known.values()])
        for each in replicas:
            if known[each.id].replica is not each:
                known[each.id] = known[each.id]._replace(replica=each)
        self._known = known
        self._read = ReportedFleet(
            replicas,
            {each.id: each for each in documents.values()},
            self._read_traffic(found.get("traffic")),
            read_at,
            first_seen,
        )
        self.at = at

    def report(self, now: datetime, seconds: float, *, answers: bool) -> ReportedFleet:
        """Return the last document's replicas at a time. One that was read longer ago than `seconds` is not fresh.

        `answers`: the dashboard answered now. Else its replicas are marked stale.
        """
        since, latest = now.timestamp() - seconds, now.timestamp()
        read_at = {key: min(at, latest) for key, at in self._read.read_at.items()}  # a clock that is ahead is now
        first_seen = {key: min(at, now) for key, at in self._read.first_seen.items()}
        changed = False
        for key, each in self._known.items():
            fresh = each.fresh and read_at.get(key, 0.0) >= since
            stale = not answers or key in self._unread
            if (each.replica.fresh, each.replica.target_stale) != (fresh, stale):
                self._known[key] = each._replace(replica=replace(each.replica, fresh=fresh, target_stale=stale))
                changed = True
        if changed:
            self._read = self._read._replace(replicas=tuple(each.replica for each in self._known.values()))
        return self._read._replace(read_at=read_at, first_seen=first_seen)

    def _limit_pools(self, known: dict[str, _Known]) -> None:
        """Leave out the replicas of pools beyond the most."""
        kept = {*islice(dict.fromkeys(each.replica.pool for each in known.values()), MOST_POOLS)}
        for own in [own for own, each in known.items() if each.replica.pool not in kept]:
            del known[own]
            shown = end_cut(own.removeprefix(self._prefix), LONGEST)
            self.refused.append(f"replica {shown}: more than {MOST_POOLS:,} pools are reported")

    def _own(self, key: str) -> str:
        """Return the id of a replica here."""
        return f"{self._prefix}{clean_text(key)}"

    def _read_replica(
        self, own: str, row: dict[str, Any], parts: list[list[Any] | None], documents: Mapping[str, Document]
    ) -> _Known:
        """Return a replica of the document; raise for one that is no replica."""
        observed_at = row.get("observed_at")
        for name in VOLATILE:
            row.pop(name, None)
        document = documents.get(str(row.get("document"))) if row.get("document") is not None else None
        if document is None and row.get("document") is not None:
            raise UnreadableError("schema", "its document is missing or unreadable")
        content, known = _hash((document and document.id, row, parts)), self._known.get(own)
        if known is not None and known.content == content:
            return known
        clean = clean_replica(row) | {"observed_at": observed_at, "probes": [], "same_process": []}
        written = {"replicas": [clean], **{name: _clean(each or []) for name, each in zip(LISTS, parts, strict=True)}}
        found = readers_of_reports()["replica"].validate_json(to_json(written), strict=True)
        (read,) = found["replicas"]
        labels = {**read.labels, **self._labels}
        if len(labels) > MOST_LABELS or any(len(text) > LONGEST_LABEL for each in labels.items() for text in each):
            raise UnreadableError(
                "schema", f"more than {MOST_LABELS} labels, or one longer than {LONGEST_LABEL} characters"
            )
        name, cluster = labels.get("name") or read.name, labels[CLUSTER]
        failure = read.failure and replace(read.failure, detail=f"Dashboard of {cluster}: {read.failure.detail}")
        if not name or len(name) > LONGEST_ID:
            raise UnreadableError("schema", "its name is empty or too long")
        role = Role(labels["role"]) if labels.get("role") in ROLES else read.role
        rows = {part: tuple(each for _, each in found[part]) for part in LISTS}
        for part, unique in LISTS.items():
            keys = [tuple(getattr(each, key) for key in unique) for each in rows[part]]
            if len(set(keys)) < len(keys):
                raise UnreadableError("schema", f"{part} has a duplicate")
        replica = replace(
            read,
            id=own,
            name=f"{cluster}/{name}",  # other clusters have the same names
            failure=failure,
            labels=_share(labels),
            pool=None if read.pool is None else pool_key(labels, read.served_model_names, role),
            role=role,
            document=document and document.id,
            same_digest_as=read.same_digest_as and self._own(read.same_digest_as),
            set_arguments=_share(read.set_arguments),
            target_stale=False,
            **{part: _share(each) for part, each in rows.items()},
        )
        return _Known(content, replica, read.fresh)

    def _read_documents(self, found: Mapping[str, Any]) -> dict[str, Document]:
        """Return the documents by their key in the file; each has the id of its content here."""
        read: dict[str, tuple[int, Document]] = {}
        for key, settings in found.items():
            known = self._documents.get(key)
            try:
                content = _hash(settings)
                if known is not None and known[0] == content:
                    read[key] = known
                    continue
                written = to_json(clean_settings(settings))
                clean = readers_of_reports()["settings"].validate_json(written, strict=True)
                read[key] = content, Document(document_id(clean), version_of(clean), clean)
            except (ValidationError, UnreadableError, ValueError, ArithmeticError) as error:
                self.refused.append(f"document {end_cut(key, LONGEST)}: {_reason(error)}")
        self._documents = read
        return {key: document for key, (_, document) in read.items()}

    def _read_traffic(self, found: Any) -> Mapping[str, Mapping[int, Traffic]]:
        """Return the traffic of engines by replica and rank; only that which changed is read."""
        read: dict[tuple[str, int], tuple[int, Traffic]] = {}
        changed: list[tuple[tuple[str, int], int, dict[str, Any]]] = []
        for row in _objects(found):
            key, rank = self._own(str(row.get("replica"))[: LONGEST_ID + 1]), row.get("dp_rank")
            if key not in self._known or type(rank) is not int or (key, rank) in read:
                continue
            content, known = hash(marshal.dumps(row, 2)), self._traffic.get((key, rank))  # bounded by its types
            if known is not None and known[0] == content:
                read[key, rank] = known
            else:
                changed.append(((key, rank), content, row))
        reader = readers_of_reports()["traffic"]
        try:
            rows = [_clean(row) if row.get("refused") else row for _, _, row in changed]  # else it has no text
            new = reader.validate_json(to_json(rows), strict=True)
            read |= {place: (content, own.traffic) for (place, content, _), (_, own) in zip(changed, new, strict=True)}
        except ValidationError:  # of one engine: the others are read one by one
            for place, content, row in changed:
                try:
                    ((_, own),) = reader.validate_json(to_json([_clean(row)]), strict=True)
                    read[place] = content, own.traffic
                except ValidationError as error:
                    self.refused.append(f"traffic of {end_cut(str(row.get('replica')), LONGEST)}: {_reason(error)}")
        self._traffic = read
        traffic: dict[str, dict[int, Traffic]] = {}
        for (key, rank), (_, own) in read.items():
            traffic.setdefault(key, {})[rank] = own
        return traffic


def _fault_of_id(key: Any) -> str | None:
    if not isinstance(key, str) or not key or len(key) > LONGEST_ID:
        return "a replica has no id"
    if reporter_of(key) is not None:  # else the ids of two hubs that list each other would never end
        return f"replica {end_cut(key, LONGEST)}: {OF_ANOTHER}"
    return None


def _clean(part: Any) -> Any:
    return redact_known(redact(part))


def _hash(part: Any) -> int:
    """Return the hash of a part of a document. Raise UnreadableError for one that is too large to be read."""
    packed = marshal.dumps(part, 2)
    if len(packed) > PART_BYTES:
        raise UnreadableError("too_large", f"larger than {PART_BYTES // MIB} MiB")
    return hash(packed)


def _checked(found: Any) -> datetime:
    """Return the time of a document. Raise UnreadableError for another document, or another version."""
    if not isinstance(found, dict) or not {"schema_version", "replicas", "documents"} <= found.keys():
        raise UnreadableError("schema", "answers with something that is no full document of a fleet")
    version = found["schema_version"]
    if not isinstance(version, str) or version.partition(".")[0] != MAJOR:
        raise UnreadableError(
            "schema",
            f"has a document of schema version {end_cut(repr(version), 20)}, this dashboard reads {MAJOR}.x "
            f"(its own: {SCHEMA_VERSION}); update the older dashboard",
        )
    at = _moment(found.get("data_as_of"))
    if at is None or not isinstance(found["replicas"], list) or not isinstance(found["documents"], dict):
        raise UnreadableError("schema", "has a document without data_as_of, replicas or documents")
    for name, most in (("replicas", MOST_REPLICAS), ("documents", MOST_DOCUMENTS)):
        if len(found[name]) > most:
            raise UnreadableError(
                "too_large", f"reports more than {most:,} {name}; run more dashboards, of one cluster each"
            )
    return at


def _moment(value: Any) -> datetime | None:
    """Return a time of JSON; None for anything else."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return at.astimezone(UTC) if at is not None and at.tzinfo is not None and EARLIEST <= at <= LATEST else None


def _objects(found: Any) -> Iterable[dict[str, Any]]:
    return (each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()


def _by_replica(found: Any) -> dict[str, list[Any]]:
    """Return the rows of a list by their replica."""
    return grouped((key, row) for row in _objects(found) if isinstance(key := row.get("replica"), str))


def _share(value: Any) -> Any:
    key = (type(value), tuple(value.items())) if isinstance(value, dict) else value
    return _shared.get(key, lambda: value)


def _reason(error: Exception) -> str:
    """Return the first mistake of a part, without the part."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(step) for step in first["loc"] if step not in {"replicas", 0})
        return end_cut(f"{place}: {first['msg']}", LONGEST)
    return end_cut(error.detail if isinstance(error, UnreadableError) else str(error), LONGEST)
