"""A fleet taken apart into JSON that spans share, and put together again.

Every part is a part of the document that `poll --format json --full` writes: one declaration says what is kept.
"""

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

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
from dashboard.vllm.merging import version_of

BATCH = 100  # replicas that are written or read at once: their JSON takes memory for a moment
# What a start of the process decides. The rest is mostly that of other replicas, too.
PROCESS = ("name", "labels", "started_at", "same_process", "contradictions", "identity", "set_arguments", *LISTS)
# Not in a part: columns of the span, and the letter of the cohort, which is derived.
COLUMNS = ("document", "observed_at", "cohort", *Sighting._fields)
TIMES = ("observed_at", "elapsed_seconds", "size_bytes")  # of a probe: they differ at every poll
FLEET_TIMES = ("generated_at", "data_as_of")
IDENTITY = "identity"
NESTED = (list, dict)  # values that have no hash
KnownSettings = dict[Hashable, tuple[str, Setting]]  # path and setting by what is stored of them


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
    """Yield the parts of replicas of a fleet."""
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
    part = replace(fleet, replicas=tuple(replicas), documents={}, pools=(), inspection=notes)
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
