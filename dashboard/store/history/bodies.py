"""A fleet taken apart into JSON that spans share, and put together again; and the bodies that store it.

Every part is a part of the document that `poll --format json --full` writes: one declaration says what is kept. A body
is stored once by its hash, compressed; of one that is like another only what differs.
"""

import hashlib
import json
import zlib
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json
from sqlalchemy import Connection, Row, select

from dashboard.analysis.assembly import Fleet
from dashboard.documents.fleet import fleet_json, unconfirmed_object
from dashboard.documents.load import read_saved
from dashboard.documents.models import LISTS, make_setting
from dashboard.documents.secrets import clean_fleet, clean_settings
from dashboard.errors import HistoryError, SnapshotError, UnreadableError
from dashboard.fleet import Document, ProbeResult, Replica, Setting
from dashboard.fleet.formatting import iso
from dashboard.fleet.history import NO_SIGHTINGS, Sighting
from dashboard.fleet.times import EPOCH, MICROSECOND
from dashboard.rules.findings import Inspection
from dashboard.store.history.schema import body, chunks
from dashboard.vllm.merging import version_of

BATCH = 100  # replicas that are written or read at once: their JSON takes memory for a moment
# What a start of the process decides. The rest is mostly that of other replicas, too.
PROCESS = ("name", "labels", "started_at", "same_process", "contradictions", "identity", "set_arguments", *LISTS)
# Not in a part: columns of the span, the letter of the cohort, which is derived, and traffic, of which there are sums.
COLUMNS = ("document", "observed_at", "cohort", "traffic", *Sighting._fields)
TIMES = ("observed_at", "elapsed_seconds", "size_bytes")  # of a probe: they differ at every poll
FLEET_TIMES = ("generated_at", "data_as_of")
IDENTITY = "identity"
NESTED = (list, dict)  # values that have no hash
KnownSettings = dict[Hashable, tuple[str, Setting]]  # path and setting by what is stored of them
LEVEL = 6  # zlib's own default
MOST_BYTES = 32 * 2**20  # of a body, unpacked; an answer has 1 MiB at most
WINDOW = 1 << zlib.MAX_WBITS  # of zlib: what it sees of a base
MOST_BASES, MOST_GROUPS = 4, 64  # bases of a group, and groups, that a writer knows
# A body with more than this share of changes is a new base; with all bases only one with most of it changed.
FEW_CHANGES, MANY_CHANGES = 0.1, 0.9
DAMAGE = (zlib.error, ValueError, LookupError, TypeError, AttributeError, RecursionError)


class RecordedReplica(NamedTuple):
    """A replica as JSON without times, the times of its answers, and two columns of its span."""

    process: bytes
    answers: bytes
    times: str
    document: str | None
    observed_at: datetime | None


def fleet_part(fleet: Fleet, at: datetime) -> bytes:
    """Return what belongs to no replica as JSON: options in force, notes, rule set, unconfirmed findings, and so on."""
    whole = _written(fleet, (), at)
    whole["unconfirmed"] = unconfirmed_object(fleet.inspection)
    return to_json({name: part for name, part in whole.items() if name not in FLEET_TIMES})


def replica_parts(fleet: Fleet, replicas: Sequence[Replica], at: datetime) -> Iterator[RecordedReplica]:
    fleet = replace(fleet, sightings=NO_SIGHTINGS)  # else each batch would write all of them
    for first in range(0, len(replicas), BATCH):
        batch = replicas[first : first + BATCH]
        whole = _written(fleet, batch, at)
        lists: dict[str, dict[str, list[Any]]] = {each.id: {name: [] for name in LISTS} for each in batch}
        for name in LISTS:
            for row in whole[name]:
                lists[row.pop("replica")][name].append(row)
        for written, one in zip(whole["replicas"], batch, strict=True):
            parts = {name: part for name, part in (*written.items(), *lists[one.id].items()) if name not in COLUMNS}
            parts["probes"] = [
                {name: part for name, part in each.items() if name not in TIMES} for each in parts["probes"]
            ]
            process = to_json({name: parts.pop(name) for name in PROCESS})
            times = _times(fleet.as_read(one).probes)
            yield RecordedReplica(process, to_json(parts), times, one.document, one.observed_at)


def _times(probes: Iterable[ProbeResult]) -> str:
    """Return the times of answers as JSON: microseconds since 1970, microseconds until the answer, bytes."""
    rows = [
        ((each.observed_at - EPOCH) // MICROSECOND, round(each.elapsed_seconds * 1e6), each.size_bytes)
        for each in probes
    ]
    return json.dumps(rows, separators=(",", ":"))


def _written(fleet: Fleet, replicas: Sequence[Replica], at: datetime) -> dict[str, Any]:
    notes = Inspection(notes=fleet.inspection.notes)
    part = replace(fleet, replicas=tuple(replicas), documents={}, pools=(), inspection=notes, traffic={})
    written: dict[str, Any] = from_json(fleet_json(part, at, full=True))
    return written


def read_parts(
    shell: bytes, at: datetime, replicas: Sequence[RecordedReplica] = (), documents: Mapping[str, bytes] | None = None
) -> Fleet:
    """Return the fleet of parts without secrets, nothing derived yet; raise HistoryError for parts that are none.

    `shell` is a `fleet_part`.
    """
    known: KnownSettings = {}
    try:
        whole = {**from_json(shell), **dict.fromkeys(FLEET_TIMES, at.isoformat())}
        identities = [_read_settings(_add(whole, stored), known) for stored in replicas]
        read = {key: _read_settings(from_json(content), known) for key, content in (documents or {}).items()}
        saved, _ = read_saved(to_json(clean_fleet(whole)))
    except (
        SnapshotError,
        UnreadableError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
    ) as error:
        raise HistoryError(
            f"The history has data of {iso(at)} that this version cannot read; use the version that recorded it."
        ) from error
    placed = tuple(
        replace(each, identity=identity, document=stored.document, observed_at=stored.observed_at)
        for each, identity, stored in zip(saved.replicas, identities, replicas, strict=True)
    )
    kept = {key: Document(key, version_of(settings), settings) for key, settings in read.items()}
    return replace(saved, replicas=placed, documents=kept)


def recorded_replicas(connection: Connection, rows: Sequence[Mapping[Any, Any]]) -> list[RecordedReplica]:
    """Return the replicas of which these are the spans."""
    bodies = read_bodies(connection, {row[name] for row in rows for name in ("process", "answers")})
    return [
        RecordedReplica(
            bodies[row["process"]], bodies[row["answers"]], row["times"], row["document"], row["observed_at"]
        )
        for row in rows
    ]


def _add(whole: dict[str, Any], stored: RecordedReplica) -> dict[str, Any]:
    """Add a replica without its identity settings, and return these."""
    written = {**from_json(stored.process), **from_json(stored.answers), **dict.fromkeys(COLUMNS)}
    for name in LISTS:
        whole[name] += [{**row, "replica": written["replica"]} for row in written.pop(name)]
    for probe, (observed, elapsed, size) in zip(written["probes"], json.loads(stored.times), strict=True):
        observed_at = (EPOCH + timedelta(microseconds=observed)).isoformat()
        probe |= dict(zip(TIMES, (observed_at, elapsed / 1e6, size), strict=True))
    identity: dict[str, Any] = written[IDENTITY]
    whole["replicas"].append(written | {IDENTITY: {}})
    return identity


def _read_settings(stored: Mapping[str, Any], known: KnownSettings) -> dict[str, Setting]:
    """Return settings without secrets. Each one is checked and made once: replicas have mostly equal ones."""
    settings = {}
    for path, each in stored.items():
        value = each["value"]
        key = path, repr(value) if isinstance(value, NESTED) else value, type(value), each["state"], each["source"]
        if (found := known.get(key)) is None:
            ((name, clean),) = clean_settings({path: each}).items()
            found = known[key] = name, make_setting(name, **clean)
        name, settings[name] = found
    return settings


@dataclass(frozen=True)
class Content:
    """JSON to store, and the group of similar ones; without a group it is stored whole."""

    json: bytes
    group: str = ""

    @cached_property
    def sha(self) -> bytes:
        return hashlib.sha256(self.json).digest()


class BodyBase(NamedTuple):
    """A body that is stored whole: its row, JSON, and a large one's parsed JSON."""

    id: int
    json: bytes
    parsed: Any


class BodyWriter:
    """Stores bodies. The first ones of a group are the bases of the others, of which only what differs is stored."""

    def __init__(self) -> None:
        self._bases: OrderedDict[str, list[BodyBase]] = OrderedDict()

    def save(self, connection: Connection, contents: Iterable[Content]) -> dict[bytes, int]:
        """Return the id of each body by its hash; new ones are stored."""
        wanted = {each.sha: each for each in contents}
        ids = _known_ids(connection, wanted)
        rows = []
        for sha, content in wanted.items():
            if sha in ids:
                continue
            change = self._change(content)
            if change is None and content.group:
                row = {"sha": sha, "content": compress(content.json)}
                ids[sha] = connection.execute(body.insert().returning(body.c.id), row).scalar_one()
                self._add_base(content, ids[sha])
            else:
                rows.append({"sha": sha, "base": None, "content": compress(content.json)} | (change or {}))
        if rows:
            added = connection.execute(body.insert().returning(body.c.sha, body.c.id), rows)
            ids |= {bytes(sha): key for sha, key in added}
        return ids

    def _change(self, content: Content) -> dict[str, Any] | None:
        """Return the columns of a body that is stored as the change of a base; None for one that is stored whole.

        zlib finds what a small one shares with its base, but of a large base it sees the end only: then it is the
        difference of the JSON. A group has more than one base: a pool may have different settings, and a rollout
        changes many.
        """
        bases = self._bases.get(content.group, [])
        if len(content.json) <= WINDOW:
            for base in bases:
                if len(base.json) <= WINDOW:
                    return {"base": base.id, "content": compress(content.json, base.json)}
        large = [each for each in bases if len(each.json) > WINDOW]
        written = from_json(content.json) if large else None
        if not isinstance(written, dict):
            return None
        found: list[tuple[int, dict[str, Any], BodyBase]] = []
        for base in reversed(large):
            change = difference(base.parsed, written)
            found.append((len(to_json(change)), change, base))
            if found[-1][0] <= FEW_CHANGES * len(content.json):
                break
        size, change, base = min(found, key=itemgetter(0))
        if size > (FEW_CHANGES if len(bases) < MOST_BASES else MANY_CHANGES) * len(content.json):
            return None
        spellings = (change, {**change, "ascii": True})
        exact = next((each for each in spellings if _joined(base.parsed, each) == content.json), None)
        if exact is None:
            return None
        bases.remove(base)
        bases.append(base)  # the last one used
        self._bases.move_to_end(content.group)
        return {"base": base.id, "content": compress(to_json(exact), base.json)}

    def _add_base(self, content: Content, key: int) -> None:
        bases = self._bases.setdefault(content.group, [])
        bases.append(_base(key, content.json))
        del bases[:-MOST_BASES]
        self._bases.move_to_end(content.group)
        while len(self._bases) > MOST_GROUPS:
            self._bases.popitem(last=False)


def read_bodies(connection: Connection, ids: Collection[int]) -> dict[int, bytes]:
    """Return bodies by their id; raise HistoryError for a damaged one."""
    rows, bases = _with_bases(connection, ids)
    return {key: bases[key].json if key in bases else _read(row, bases.get(row.base)) for key, row in rows.items()}


def read_members(connection: Connection, ids: Collection[int], name: str) -> dict[int, dict[str, Any]]:
    """Return, by their id, bodies that are objects with one of their members only, if they have it.

    Raise HistoryError for a damaged one. The hash of a large body that is stored as a change is not compared: to join
    it takes most of the time, and zlib has a checksum of the change.
    """
    rows, bases = _with_bases(connection, ids)
    found = {}
    for key, row in rows.items():
        base = bases.get(row.base)
        with _damaged(row):
            if key in bases:
                found[key] = _member(bases[key].parsed or from_json(bases[key].json), name)
            elif base is None or base.parsed is None:
                found[key] = _member(from_json(_read(row, base)), name)
            else:
                change = from_json(decompress(row.content, base.json))
                parts = {part: _member(change.get(part, {}), name) for part in ("set", "within")}
                found[key] = join(_member(base.parsed, name), {**change, **parts})
    return found


def _member(written: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: written[name]} if name in written else {}


def _with_bases(connection: Connection, ids: Collection[int]) -> tuple[dict[int, Row[Any]], dict[int, BodyBase]]:
    """Return the rows of bodies, and the bases that they refer to."""
    rows = _rows(connection, ids)
    wanted = {row.base for row in rows.values() if row.base is not None}
    missing = _rows(connection, wanted - rows.keys())
    return rows, {key: _base(key, _read(rows.get(key) or missing[key])) for key in wanted}


def _base(key: int, content: bytes) -> BodyBase:
    return BodyBase(key, content, from_json(content) if len(content) > WINDOW else None)


def _read(row: Row[Any], base: BodyBase | None = None) -> bytes:
    with _damaged(row):
        content = decompress(row.content, base.json if base else b"")
        if base is not None and base.parsed is not None:
            content = _joined(base.parsed, from_json(content))
        if hashlib.sha256(content).digest() != row.sha:
            raise ValueError("another body")
    return content


@contextmanager
def _damaged(row: Row[Any]) -> Iterator[None]:
    """Raise HistoryError for what a damaged row causes."""
    try:
        yield
    except DAMAGE:
        raise HistoryError(
            f"The history is damaged: body {row.id} was changed or cut; restore a copy of the history."
        ) from None


def difference(base: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return what differs in a JSON object: values that are set, names that are removed, and changes within values."""
    values: dict[str, Any] = {}
    within: dict[str, Any] = {}
    for name, value in written.items():
        before = base.get(name)
        if name in base and value == before:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            within[name] = difference(before, value)
        else:
            values[name] = value
    found = {"set": values, "removed": [name for name in base if name not in written], "within": within}
    return {name: part for name, part in found.items() if part}


def join(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object with this difference to a base; names in alphabetical order stay so."""
    whole = {name: value for name, value in base.items() if name not in change.get("removed", ())}
    whole |= change.get("set", {})
    whole |= {name: join(base[name], part) for name, part in change.get("within", {}).items()}
    return dict(sorted(whole.items())) if list(base) == sorted(base) else whole


def _joined(base: Mapping[str, Any], change: Mapping[str, Any]) -> bytes:
    """Return the JSON of a body. Settings are written by the standard library: `ascii`; everything else by pydantic."""
    whole = join(base, change)
    return json.dumps(whole, separators=(",", ":")).encode() if "ascii" in change else to_json(whole)


def compress(content: bytes, base: bytes = b"") -> bytes:
    """Compress JSON with the end of a similar one as zlib's dictionary (RFC 1950, 2.2)."""
    compressor = zlib.compressobj(LEVEL, zdict=base[-WINDOW:]) if base else zlib.compressobj(LEVEL)
    return compressor.compress(content) + compressor.flush()


def decompress(content: bytes, base: bytes = b"") -> bytes:
    """Return what was compressed with a base; raise ValueError or zlib.error where it is damaged or too large."""
    reader = zlib.decompressobj(zdict=base[-WINDOW:]) if base else zlib.decompressobj()
    read = reader.decompress(content, MOST_BYTES + 1)
    if len(read) > MOST_BYTES or not reader.eof:
        raise ValueError("too large, or cut off")
    return read


def _known_ids(connection: Connection, shas: Collection[bytes]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for some in chunks(shas):
        rows = connection.execute(select(body.c.sha, body.c.id).where(body.c.sha.in_(some)))
        found |= {bytes(sha): key for sha, key in rows}
    return found


def _rows(connection: Connection, ids: Collection[int]) -> dict[int, Row[Any]]:
    found: dict[int, Row[Any]] = {}
    for some in chunks(ids):
        found |= {row.id: row for row in connection.execute(select(body).where(body.c.id.in_(some)))}
    return found
