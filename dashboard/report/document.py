"""The JSON document of a fleet: what `poll --format json` prints and /api/v1/fleet answers.

The models below are the contract: docs/fleet.schema.json is made of them.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from dashboard.models import Basis, FailureKind, ReplicaState, Role, Source, State, cohort_letters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dashboard.fleet import Fleet
    from dashboard.models import Cohort, Device, Difference, Engine, KVCacheGroup, Pool, ProbeResult, Replica, Setting

SCHEMA_VERSION = 1
ONLY_FULL: Any = {"documents": True, "replicas": {"__all__": {"identity", "probes"}}}  # left out without --full


class _Part(BaseModel):
    """Every part of the document: no field but those named here."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Coverage(_Part):
    """How many targets there are, and how many could be read."""

    targets: int
    up: int
    partial: int
    down: int


class Reason(_Part):
    """Why a probe, and with it a replica, could not be read."""

    kind: FailureKind
    detail: str


class SettingPart(_Part):
    """A value with its state and source."""

    value: Any = Field(description="native JSON")
    state: State
    source: Source


class ProbePart(_Part):
    """What became of one GET. Neither a failure nor answered: this replica has no such path."""

    path: str
    source: Source
    observed_at: datetime
    status: int | None
    size_bytes: int
    elapsed_seconds: float
    answered: bool
    failure: Reason | None


class ReplicaPart(_Part):
    """One vLLM API server. `identity` and `probes` with --full only."""

    replica: str = Field(description="scheme://host:port")
    name: str
    pool: str | None
    role: Role
    state: ReplicaState
    reason: Reason | None
    version: str | None
    started_at: datetime | None
    observed_at: datetime | None
    document: str | None
    cohort: str | None
    sources: list[Source]
    labels: dict[str, str]
    identity: dict[str, SettingPart] | None = None
    probes: list[ProbePart] | None = None


class EnginePart(_Part):
    """KV cache capacity of one DP rank."""

    replica: str
    dp_rank: int
    num_gpu_blocks: int | None
    block_size: int | None
    kv_cache_size_tokens: int | None
    max_concurrency: float | None
    kv_cache_bytes: int | None
    naive_tokens: int | None
    max_model_len: int | None
    basis: Basis


class DevicePart(_Part):
    """One accelerator of an engine."""

    replica: str
    dp_rank: int
    rank: int
    name: str
    total_memory_bytes: int | None
    compute_capability: str | None
    kv_cache_bytes: int | None


class KVCacheGroupPart(_Part):
    """One KV cache group of an engine."""

    replica: str
    dp_rank: int
    group_id: int
    spec_type: str
    block_size: int
    page_size_bytes: int | None
    layers: int
    sliding_window: int | None
    attention_chunk_size: int | None
    num_kv_heads: int | None
    head_size: int | None
    dtype: str | None


class ToldPart(_Part):
    """A value and its state."""

    value: Any
    state: State


class DistinctionPart(ToldPart):
    """A setting that tells a cohort from the others."""

    path: str


class CohortPart(_Part):
    """Replicas whose documents do not contradict each other."""

    cohort: str
    document: str
    replicas: list[str]
    distinguishing: list[DistinctionPart]


class ValuePart(ToldPart):
    """One of the values of a difference."""

    count: int
    cohorts: list[str]


class DifferencePart(_Part):
    """A setting whose values are not all equal in a pool."""

    path: str
    majority: ToldPart | None
    values: list[ValuePart]


class PoolPart(_Part):
    """One pool, compared."""

    pool: str
    replicas: int
    majority_document: str | None
    cohorts: list[CohortPart]
    differences: list[DifferencePart]


class FleetDocument(_Part):
    """A whole fleet at one time. Times are ISO 8601 in UTC, what is not known is null."""

    schema_version: int
    generated_at: datetime
    fleet: str
    coverage: Coverage
    replicas: list[ReplicaPart]
    engines: list[EnginePart]
    devices: list[DevicePart]
    kv_cache_groups: list[KVCacheGroupPart]
    pools: list[PoolPart]
    documents: dict[str, dict[str, SettingPart]] | None = None


def to_document(fleet: Fleet, generated_at: datetime, *, full: bool = False) -> FleetDocument:
    """Return the document of a fleet; `full` adds the settings of every document, identity and probes."""
    cohorts = cohort_letters(fleet.pools)
    return FleetDocument(
        schema_version=SCHEMA_VERSION,
        generated_at=generated_at,
        fleet=fleet.name,
        coverage=coverage(fleet),
        replicas=[_replica(replica, cohorts.get(replica.id), full=full) for replica in fleet.replicas],
        engines=[_engine(replica, engine) for replica in fleet.replicas for engine in replica.engines],
        devices=[_device(replica, device) for replica in fleet.replicas for device in replica.devices],
        kv_cache_groups=[_group(replica, group) for replica in fleet.replicas for group in replica.kv_cache_groups],
        pools=[_pool(pool) for pool in fleet.pools],
        documents={key: _settings(document.settings) for key, document in fleet.documents.items()} if full else None,
    )


def to_json(document: FleetDocument, *, indent: int | None = None) -> bytes:
    """Write the document; parts that only --full gives are left out without it."""
    exclude = ONLY_FULL if document.documents is None else None
    return document.model_dump_json(indent=indent, exclude=exclude).encode()


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document as it is written."""
    schema = FleetDocument.model_json_schema(mode="serialization")
    optional = {"FleetDocument": {"documents"}, "ReplicaPart": {"identity", "probes"}}
    for name, fields in optional.items():
        part = schema if name == "FleetDocument" else schema["$defs"][name]
        part["required"] = [field for field in part["required"] if field not in fields]
    return schema


def coverage(fleet: Fleet) -> Coverage:
    """Count the replicas by state."""
    states = [replica.state for replica in fleet.replicas]
    return Coverage(
        targets=len(states),
        up=states.count(ReplicaState.UP),
        partial=states.count(ReplicaState.PARTIAL),
        down=states.count(ReplicaState.DOWN),
    )


def _replica(replica: Replica, cohort: str | None, *, full: bool) -> ReplicaPart:
    failure = replica.failure
    return ReplicaPart(
        replica=replica.id,
        name=replica.name,
        pool=replica.pool,
        role=replica.role,
        state=replica.state,
        reason=Reason(kind=failure.kind, detail=failure.detail) if failure else None,
        version=replica.version,
        started_at=replica.started_at,
        observed_at=replica.observed_at,
        document=replica.document,
        cohort=cohort,
        sources=list(replica.sources),
        labels=dict(replica.labels),
        identity=_settings(replica.identity) if full else None,
        probes=_probes(replica.probes) if full else None,
    )


def _probes(results: Iterable[ProbeResult]) -> list[ProbePart]:
    return [
        ProbePart(
            path=result.path,
            source=result.source,
            observed_at=result.observed_at,
            status=result.status,
            size_bytes=result.size_bytes,
            elapsed_seconds=round(result.elapsed_seconds, 6),
            answered=result.reply is not None,
            failure=Reason(kind=result.failure.kind, detail=result.failure.detail) if result.failure else None,
        )
        for result in results
    ]


def _settings(settings: Mapping[str, Setting]) -> dict[str, SettingPart]:
    return {
        path: SettingPart(value=json.loads(told.value), state=told.state, source=told.source)
        for path, told in settings.items()
    }


def _engine(replica: Replica, engine: Engine) -> EnginePart:
    told = engine._asdict()
    return EnginePart(replica=replica.id, **{name: told[name] for name in EnginePart.model_fields if name in told})


def _device(replica: Replica, device: Device) -> DevicePart:
    on_each = {engine.dp_rank: engine.kv_cache_bytes_per_device for engine in replica.engines}
    return DevicePart(replica=replica.id, kv_cache_bytes=on_each.get(device.dp_rank), **device._asdict())


def _group(replica: Replica, group: KVCacheGroup) -> KVCacheGroupPart:
    told = group._asdict()
    return KVCacheGroupPart(
        replica=replica.id, **{name: told[name] for name in KVCacheGroupPart.model_fields if name in told}
    )


def _pool(pool: Pool) -> PoolPart:
    return PoolPart(
        pool=pool.name,
        replicas=len(pool.replicas),
        majority_document=pool.majority_document,
        cohorts=[_cohort(cohort) for cohort in pool.cohorts],
        differences=[_difference(difference) for difference in pool.differences],
    )


def _cohort(cohort: Cohort) -> CohortPart:
    return CohortPart(
        cohort=cohort.letter,
        document=cohort.document,
        replicas=list(cohort.replicas),
        distinguishing=[
            DistinctionPart(path=path, value=_native(value), state=state)
            for path, value, state in cohort.distinguishing
        ],
    )


def _difference(difference: Difference) -> DifferencePart:
    majority = difference.majority
    return DifferencePart(
        path=difference.path,
        majority=ToldPart(value=_native(majority.value), state=majority.state) if majority else None,
        values=[
            ValuePart(value=_native(each.value), state=each.state, count=each.count, cohorts=list(each.cohorts))
            for each in difference.values
        ],
    )


def _native(value: str) -> Any:
    return json.loads(value) if value else None
