"""The JSON document of a fleet: what `poll --format json` prints and /api/v1/fleet answers.

The models are the contract: docs/fleet.schema.json is made of them. With `--full` it holds all that rules look at, so
that `load.read_snapshot` makes the same fleet of it.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, TypeVar

from pydantic import Field, TypeAdapter

from dashboard import __version__
from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Cohort, Device, Difference, Failure, ProbeResult, Replica, Setting, cohort_letters
from dashboard.fleet.formatting import safe_json
from dashboard.report.findings.document import finding_parts, fleet_tally, judged_pools
from dashboard.report.findings.document_parts import FindingPart, JudgedPoolPart, TallyPart
from dashboard.report.fleet.policy_part import PolicyPart, policy_part
from dashboard.report.fleet.prefix_sharing import PrefixSharingPart, prefix_sharing
from dashboard.report.parts import (
    CohortPart,
    ContradictionPart,
    Coverage,
    DevicePart,
    DifferencePart,
    DistinctionPart,
    EnginePart,
    FullEnginePart,
    FullKVCacheGroupPart,
    FullReplicaPart,
    KVCacheGroupPart,
    Many,
    OfReplicaPart,
    Part,
    ProbePart,
    Reason,
    ReplicaPart,
    SettingPart,
    Time,
    ToldPart,
    ValuePart,
    coverage,
    native,
)
from dashboard.rules.catalogue import RULE_SET
from dashboard.vllm.canonical import SHORT

SCHEMA_VERSION: Literal[2] = 2
MOST_KNOWN = 16_384  # settings that are written once: a fleet says the same a thousand times


class PoolPart(JudgedPoolPart):
    """One pool, judged and compared."""

    prefix_sharing: PrefixSharingPart
    majority_document: str | None
    cohorts: Many[CohortPart]
    differences: Many[DifferencePart]


class FleetDocument(Part):
    """A whole fleet at one time."""

    schema_version: Literal[2]
    program_version: str
    generated_at: Time
    data_as_of: Time = Field(description="when the poll ended")
    fleet: str
    coverage: Coverage
    tally: TallyPart
    ignored: Many[str] = Field(description="paths, or globs, that are left out of all comparing")
    notes: Many[str] = Field(description="options and baselines that match nothing, keys over plain http")
    discovery_errors: Many[str] = Field(default=(), description="sources of targets that cannot be read, and why")
    replicas: Many[ReplicaPart]
    engines: Many[EnginePart]
    devices: Many[DevicePart]
    kv_cache_groups: Many[KVCacheGroupPart]
    pools: Many[PoolPart]
    findings: Many[FindingPart]
    suppressed: Many[FindingPart]


class FullFleetDocument(FleetDocument):
    """A whole fleet at one time. Times are ISO 8601 in UTC, what is not known is null. `documents` with --full only."""

    replicas: Many[FullReplicaPart]
    engines: Many[FullEnginePart]
    kv_cache_groups: Many[FullKVCacheGroupPart]
    documents: dict[str, dict[str, SettingPart]]
    policy: PolicyPart | None = None  # polls that were saved before do not have it
    rule_set: int | None = Field(default=None, description="which rules judged it; null in polls saved before")


# What stands without --full, and with it.
_BRIEF_AND_FULL: tuple[tuple[type[Part], type[Part]], ...] = (
    (FleetDocument, FullFleetDocument),
    (ReplicaPart, FullReplicaPart),
    (EnginePart, FullEnginePart),
    (KVCacheGroupPart, FullKVCacheGroupPart),
)
P = TypeVar("P", bound=OfReplicaPart)


def to_document(fleet: Fleet, generated_at: datetime, *, full: bool = False) -> FleetDocument:
    """Return the document of a fleet that was polled and judged; `full` adds all that is needed to judge it again."""
    cohorts = cohort_letters(fleet.pools)
    told: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "program_version": __version__,
        "generated_at": generated_at,
        "data_as_of": fleet.polled_at,
        "fleet": fleet.name,
        "coverage": coverage(fleet),
        "tally": fleet_tally(fleet),
        "ignored": fleet.ignored,
        "notes": fleet.inspection.notes,
        "discovery_errors": fleet.discovery_errors,
        "replicas": tuple(_replica(replica, cohorts.get(replica.id), full=full) for replica in fleet.replicas),
        "engines": _of_replicas(FullEnginePart if full else EnginePart, fleet, "engines"),
        "devices": tuple(_device(replica, device) for replica in fleet.replicas for device in replica.devices),
        "kv_cache_groups": _of_replicas(FullKVCacheGroupPart if full else KVCacheGroupPart, fleet, "kv_cache_groups"),
        "pools": _pools(fleet),
        "findings": finding_parts(fleet, fleet.inspection.findings),
        "suppressed": finding_parts(fleet, fleet.inspection.suppressed),
    }
    if not full:
        return FleetDocument(**told)
    documents = {key: _settings(document.settings) for key, document in fleet.documents.items()}
    return FullFleetDocument(**told, documents=documents, policy=policy_part(fleet.policy), rule_set=RULE_SET)


def to_json(document: Part, *, indent: int | None = None) -> bytes:
    """Write a document."""
    return safe_json(TypeAdapter(type(document)).dump_json(document, indent=indent))  # not through a string: megabytes


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document, with and without --full: what only that adds is not required."""
    schema = FullFleetDocument.model_json_schema(mode="serialization")
    for brief, full in _BRIEF_AND_FULL:
        part = schema["$defs"].get(full.__name__, schema)
        part["required"] = [name for name in part["required"] if name in brief.model_fields]
    return schema


def _replica(replica: Replica, cohort: str | None, *, full: bool) -> ReplicaPart:
    brief = ReplicaPart(
        replica=replica.id,
        name=replica.name,
        pool=replica.pool,
        role=replica.role,
        state=replica.state,
        reason=_reason(replica.failure),
        version=replica.version,
        started_at=replica.started_at,
        observed_at=replica.observed_at,
        document=replica.document,
        cohort=cohort,
        sources=replica.sources,
        labels=dict(replica.labels),
        target_stale=replica.target_stale,
    )
    return _full_replica(replica, brief) if full else brief


def _full_replica(replica: Replica, brief: ReplicaPart) -> FullReplicaPart:
    return FullReplicaPart(
        **dict(brief),
        fresh=replica.fresh,
        served_model_names=replica.served_model_names,
        adapters=tuple(replica.adapters),
        adapter_paths={name: path for name, path in replica.adapters.items() if path is not None},
        same_process=replica.same_process,
        contradictions=tuple(
            ContradictionPart(path=each.path, kept=_setting(each.kept), other=_setting(each.other))
            for each in replica.contradictions
        ),
        identity=_settings(replica.identity),
        probes=tuple(map(_probe, replica.probes)),
    )


def _probe(result: ProbeResult) -> ProbePart:
    return ProbePart(
        path=result.path,
        source=result.reply.source if result.reply else result.source,
        observed_at=result.observed_at,
        status=result.status,
        size_bytes=result.size_bytes,
        elapsed_seconds=round(result.elapsed_seconds, 6),
        answered=result.reply is not None,
        failure=_reason(result.failure),
    )


def _reason(failure: Failure | None) -> Reason | None:
    return Reason(kind=failure.kind, detail=failure.detail) if failure else None


def _settings(settings: Mapping[str, Setting]) -> dict[str, SettingPart]:
    return {path: _setting(told) for path, told in settings.items()}


def _setting(told: Setting) -> SettingPart:
    return _known(told) if len(told.value) <= SHORT else _made(told)


def _made(told: Setting) -> SettingPart:
    return SettingPart(value=native(told.value), state=told.state, source=told.source)


_known = lru_cache(maxsize=MOST_KNOWN)(_made)


def _of_replicas(part: type[P], fleet: Fleet, name: str) -> tuple[P, ...]:
    """Return the engines or KV cache groups of all replicas, as parts that have the same fields."""
    fields = part.model_fields.keys() - {"replica"}
    return tuple(
        part(replica=replica.id, **{field: getattr(one, field) for field in fields})
        for replica in fleet.replicas
        for one in getattr(replica, name)
    )


def _device(replica: Replica, device: Device) -> DevicePart:
    on_each = {engine.dp_rank: engine.kv_cache_bytes_per_device for engine in replica.engines}
    return DevicePart(replica=replica.id, kv_cache_bytes=on_each.get(device.dp_rank), **device._asdict())


def _pools(fleet: Fleet) -> tuple[PoolPart, ...]:
    judged = judged_pools(fleet)
    replicas = {replica.id: replica for replica in fleet.replicas}
    return tuple(
        PoolPart(
            **dict(judged[pool.name]),
            prefix_sharing=prefix_sharing(pool, fleet, replicas),
            majority_document=pool.majority_document,
            cohorts=tuple(map(_cohort, pool.cohorts)),
            differences=tuple(map(_difference, pool.differences)),
        )
        for pool in fleet.pools
    )


def _cohort(cohort: Cohort) -> CohortPart:
    return CohortPart(
        cohort=cohort.letter,
        document=cohort.document,
        replicas=cohort.replicas,
        distinguishing=tuple(
            DistinctionPart(path=path, value=native(value), state=state) for path, value, state in cohort.distinguishing
        ),
    )


def _difference(difference: Difference) -> DifferencePart:
    majority = difference.majority
    return DifferencePart(
        path=difference.path,
        majority=ToldPart(value=native(majority.value), state=majority.state) if majority else None,
        values=tuple(
            ValuePart(value=native(each.value), state=each.state, count=each.count, cohorts=each.cohorts)
            for each in difference.values
        ),
    )
