"""A saved fleet read back: what `poll --format json --full` printed, judged again without a network.

The replicas stand as they stood when the poll ended: whether a rollout goes on is asked of that time. Whether a
suppression is expired is asked of the day on which somebody looks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from dashboard.analysis.assembly import Fleet, assembled, inspected
from dashboard.errors import SnapshotError, UnreadableError
from dashboard.fleet import (
    Contradiction,
    Device,
    Document,
    Engine,
    Failure,
    Fingerprint,
    KVCacheGroup,
    ProbeResult,
    Replica,
    Reply,
    Setting,
    Source,
    State,
)
from dashboard.fleet.formatting import end_cut
from dashboard.report.fleet.document import MOST_KNOWN, SCHEMA_VERSION, FullFleetDocument
from dashboard.report.fleet.policy_part import policy_from
from dashboard.report.parts import FingerprintPart, FullReplicaPart, OfReplicaPart, ProbePart, Reason, SettingPart
from dashboard.rules.policy import Policy
from dashboard.vllm.canonical import canonical_text, is_short, tidy
from dashboard.vllm.merging import version_of
from dashboard.vllm.reading import SAVED_FLEET, json_fault, node_count

MAX_BYTES = SAVED_FLEET.max_bytes  # 1,000 replicas of the benchmark take 23 MB, indented
COMMAND = "poll --format json --full"
LONGEST = 400  # characters of what a sentence says of the file
Row = TypeVar("Row", Engine, Device, KVCacheGroup)


def read_snapshot(raw: bytes, policy: Policy | None = None, today: date | None = None) -> Fleet:
    """Return the fleet that was saved, judged under `policy`; raise SnapshotError when it cannot be.

    Without a policy it is judged under the one that it was saved with, if there is one. `today` decides which
    suppressions are expired: the day of the poll unless told. What the file says of pools and findings is not looked
    at: both are made anew. Of a probe that was answered only that is known, not the answer.
    """
    document = _document(raw)
    _check(document)
    try:
        documents = {key: _settings_document(key, settings) for key, settings in document.documents.items()}
        replicas = list(_replicas(document))
    except UnreadableError as error:
        raise _wrong(error.detail) from None
    polled_at = document.data_as_of.astimezone(UTC)
    fleet = assembled(document.fleet, replicas, documents, polled_at=polled_at, ignore=document.ignored)
    kept = policy_from(document.policy) if document.policy else Policy()
    fleet = replace(fleet, policy=policy or kept, discovery_errors=document.discovery_errors)
    return inspected(fleet, polled_at, today)


def check_nodes(raw: bytes) -> None:
    """Raise SnapshotError where a file has more nodes than are read: to be called before anything is made of it."""
    if node_count(raw, SAVED_FLEET.max_nodes) > SAVED_FLEET.max_nodes:
        raise SnapshotError(
            f"The snapshot has more than {SAVED_FLEET.max_nodes:,} JSON nodes; "
            f"save one pool at a time, with {COMMAND} --pool."
        )


def _document(raw: bytes) -> FullFleetDocument:
    if len(raw) > MAX_BYTES:
        most = MAX_BYTES // 2**20
        raise SnapshotError(
            f"The snapshot is larger than the {most} MiB that are read; save one pool at a time, with {COMMAND} --pool."
        )
    check_nodes(raw)
    try:
        return FullFleetDocument.model_validate_json(raw, strict=True)
    except ValidationError as error:
        raise _misread(raw, error) from None


def _misread(raw: bytes, error: ValidationError) -> SnapshotError:
    """Say why a file is no snapshot: what it is instead, else the first mistake in it."""
    try:
        told = from_json(raw, allow_inf_nan=False)
    except ValueError as reason:
        return SnapshotError(f"The snapshot {json_fault(reason)}; copy it once more, or save one with {COMMAND}.")
    if not isinstance(told, dict) or not {"schema_version", "replicas"} <= told.keys():
        return SnapshotError(f"The snapshot holds no fleet; save one with {COMMAND}.")
    if (version := told["schema_version"]) != SCHEMA_VERSION:
        return SnapshotError(
            f"The snapshot is of schema version {end_cut(repr(version), 20)}, and this program reads {SCHEMA_VERSION}; "
            f"save it anew with {COMMAND} of this version."
        )
    if "documents" not in told:
        return SnapshotError(f"The snapshot was saved without --full; save it with {COMMAND}.")
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return _wrong(f"{_place(first['loc'])}: {first['msg']}")


def _place(steps: Iterable[int | str]) -> str:
    """Write where a mistake is: `replicas[3].state`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _wrong(what: str) -> SnapshotError:
    return SnapshotError(f"The snapshot is damaged at {end_cut(what, LONGEST)}; save it anew with {COMMAND}.")


def _check(document: FullFleetDocument) -> None:
    """Refuse what stands twice, and what belongs to a replica or a document that is not there."""
    for name, keys in _keys(document).items():
        twice = next((key for key, number in Counter(keys).items() if number > 1), None)
        if twice is not None:
            raise _wrong(f"{name}: {', '.join(map(str, twice))} stands there twice")
    known = {each.replica for each in document.replicas}
    for name, rows in _rows(document).items():
        for place, row in enumerate(rows):
            if row.replica not in known:
                raise _wrong(f"{name}[{place}].replica: there is no replica {row.replica}")
    for place, each in enumerate(document.replicas):
        if each.document is not None and each.document not in document.documents:
            raise _wrong(f"replicas[{place}].document: there is no document {each.document}")


def _rows(document: FullFleetDocument) -> Mapping[str, Iterable[OfReplicaPart]]:
    return {
        "engines": document.engines,
        "devices": document.devices,
        "kv_cache_groups": document.kv_cache_groups,
    }


def _keys(document: FullFleetDocument) -> Mapping[str, Iterable[tuple[object, ...]]]:
    """Return what must be there once, by the name of its list."""
    return {
        "replicas": ((each.replica,) for each in document.replicas),
        "engines": ((each.replica, each.dp_rank) for each in document.engines),
        "devices": ((each.replica, each.dp_rank, each.rank) for each in document.devices),
        "kv_cache_groups": ((each.replica, each.dp_rank, each.group_id) for each in document.kv_cache_groups),
    }


def _replicas(document: FullFleetDocument) -> Iterator[Replica]:
    engines, devices = _by_replica(Engine, document.engines), _by_replica(Device, document.devices)
    groups = _by_replica(KVCacheGroup, document.kv_cache_groups)
    for told in document.replicas:
        yield replace(
            _replica(told),
            engines=tuple(engines[told.replica]),
            devices=tuple(devices[told.replica]),
            kv_cache_groups=tuple(groups[told.replica]),
        )


def _by_replica(row: type[Row], parts: Iterable[OfReplicaPart]) -> Mapping[str, list[Row]]:
    """Turn parts into the rows that they were made of, by replica."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for part in parts:
        rows[part.replica].append(row(**{name: _cell(getattr(part, name)) for name in row._fields}))
    return rows


def _cell(told: Any) -> Any:
    return Fingerprint(**dict(told)) if isinstance(told, FingerprintPart) else told


def _replica(told: FullReplicaPart) -> Replica:
    """Return a replica as it is told, its engines, devices and KV cache groups apart."""
    return Replica(
        id=told.replica,
        name=told.name,
        labels=told.labels,
        pool=told.pool,
        role=told.role,
        state=told.state,
        failure=_failure(told.reason),
        fresh=told.fresh,
        version=told.version,
        started_at=_utc(told.started_at),
        observed_at=_utc(told.observed_at),
        document=told.document,
        identity=_settings(told.identity),
        sources=told.sources,
        contradictions=tuple(
            Contradiction(each.path, _setting(each.path, each.kept), _setting(each.path, each.other))
            for each in told.contradictions
        ),
        served_model_names=told.served_model_names,
        adapters={name: told.adapter_paths.get(name) for name in told.adapters},
        engines=(),
        devices=(),
        kv_cache_groups=(),
        probes=tuple(map(_probe, told.probes)),
        same_process=told.same_process,
        target_stale=told.target_stale,
    )


def _probe(told: ProbePart) -> ProbeResult:
    return ProbeResult(
        told.path,
        told.source,
        told.observed_at.astimezone(UTC),
        told.elapsed_seconds,
        told.status,
        told.size_bytes,
        reply=Reply(told.source) if told.answered else None,
        failure=_failure(told.failure),
    )


def _failure(told: Reason | None) -> Failure | None:
    return Failure(told.kind, told.detail) if told else None


def _utc(time: datetime | None) -> datetime | None:
    return time.astimezone(UTC) if time else None


def _settings_document(key: str, told: Mapping[str, SettingPart]) -> Document:
    settings = _settings(told)
    return Document(key, version_of(settings), settings)


def _settings(told: Mapping[str, SettingPart]) -> Mapping[str, Setting]:
    return {path: _setting(path, part) for path, part in told.items()}


def _setting(path: str, told: SettingPart) -> Setting:
    value = told.value
    make = _known if is_short(path, value) else _made
    return make(path, value, told.state, told.source)


def _made(path: str, value: Any, state: State, source: Source) -> Setting:
    return Setting(canonical_text(tidy(path, value)), state, source)


# One object for equal settings, as where they are polled: a thousand replicas say mostly the same. Typed: True is 1.
_known = lru_cache(maxsize=MOST_KNOWN, typed=True)(_made)
