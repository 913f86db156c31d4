"""What JSON documents are made of: the parts that tell what replicas said, without what rules conclude from it.

Times are ISO 8601 in UTC, what is not known is null. Parts that begin with Full are those of `--full`.
"""

import json
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field
from pydantic.dataclasses import dataclass

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Basis, FailureKind, ReplicaState, Role, Source, State
from dashboard.vllm.schemas.types import Count, Moment

T = TypeVar("T")
NativeValue = Annotated[Any, Field(description="native JSON")]
Time = Moment
Many = Annotated[tuple[T, ...], FailFast()]  # reading ends at the first mistake: a file can hold millions


class Part(BaseModel):
    """Every part of a document: no field but those named here."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())


class Coverage(Part):
    """How many targets there are, and how many could be read."""

    targets: int
    up: int
    partial: int
    down: int

    @property
    def answered(self) -> int:
        """Return how many could be read, in full or in part."""
        return self.up + self.partial


class Reason(Part):
    """Why a probe, and with it a replica, could not be read."""

    kind: FailureKind
    detail: str


class ToldPart(Part):
    """A value and its state."""

    value: NativeValue
    state: State


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class SettingPart:
    """A value with its state and source."""

    # no model: of 1,000 replicas there are 130,000, and as models they take 60 MB and twice the time to read
    value: NativeValue
    state: State
    source: Source


class ContradictionPart(Part):
    """Two sources of one replica that disagree on a setting; `kept` is from the more trusted one."""

    path: str
    kept: SettingPart
    other: SettingPart


class ProbePart(Part):
    """What became of one GET. Neither a failure nor answered: this replica has no such path."""

    path: str
    source: Source
    observed_at: Time
    status: Count | None
    size_bytes: Count
    elapsed_seconds: float
    answered: bool
    failure: Reason | None


class ReplicaPart(Part):
    """One vLLM API server."""

    replica: str = Field(description="scheme://host:port")
    name: str
    pool: str | None
    role: Role
    state: ReplicaState
    reason: Reason | None
    version: str | None
    started_at: Time | None
    observed_at: Time | None
    document: str | None
    cohort: str | None
    sources: Many[Source]
    labels: dict[str, str]
    target_stale: bool = Field(default=False, description="its source of targets cannot be read: last known target")


class FullReplicaPart(ReplicaPart):
    """One vLLM API server. From `fresh` on with --full only."""

    fresh: bool = Field(description="read within the last three intervals")
    served_model_names: Many[str]
    adapters: Many[str]
    adapter_paths: dict[str, str] = Field(default={}, description="by adapter, as far as it is reported")
    same_process: Many[str] = Field(description="other addresses of the same process")
    contradictions: Many[ContradictionPart]
    identity: dict[str, SettingPart]
    probes: Many[ProbePart]


class OfReplicaPart(Part):
    """A part of one replica, by the replica's id."""

    replica: str


class FingerprintPart(Part):
    """Digests of block hashes that an engine computed itself; null, with the reason, where it hashes none.

    Equal `engine`: equal tokens give equal block hashes. Equal `canonical` only: the block length stands between them.
    """

    model_config = ConfigDict(from_attributes=True)

    canonical: str | None
    engine: str | None
    reason: str | None


class EnginePart(OfReplicaPart):
    """KV cache capacity of one DP rank."""

    dp_rank: Count
    num_gpu_blocks: Count | None
    block_size: Count | None
    kv_cache_size_tokens: Count | None
    max_concurrency: float | None
    kv_cache_bytes: Count | None
    naive_tokens: Count | None
    max_model_len: Count | None
    basis: Basis
    fingerprint: FingerprintPart | None = Field(default=None, description="null: nobody tells")
    shares_sum: bool = Field(
        default=False, description="tokens and concurrency are those of all such engines of the replica together"
    )


class FullEnginePart(EnginePart):
    """KV cache capacity of one DP rank. The last three with --full only."""

    kv_cache_bytes_per_device: Count | None
    reason: str | None = Field(description="why a number is unknown or assumed")
    kv_cache_available_bytes: Count | None = Field(
        default=None, description="free for the KV cache on the first device when the engine started"
    )


class DevicePart(OfReplicaPart):
    """One accelerator of an engine."""

    dp_rank: Count
    rank: Count
    name: str
    total_memory_bytes: Count | None
    compute_capability: str | None
    kv_cache_bytes: Count | None
    compute_units: Count | None = None
    tensor_parallel_rank: Count | None = None
    pipeline_parallel_rank: Count | None = None


class KVCacheGroupPart(OfReplicaPart):
    """One KV cache group of an engine."""

    dp_rank: Count
    group_id: Count
    spec_type: str
    block_size: Count
    page_size_bytes: Count | None
    layers: Count
    sliding_window: Count | None
    attention_chunk_size: Count | None
    num_kv_heads: Count | None
    head_size: Count | None
    dtype: str | None


class FullKVCacheGroupPart(KVCacheGroupPart):
    """One KV cache group of an engine. The last four with --full only."""

    extra_retained_tokens: Count
    mamba_cache_mode: str | None
    num_speculative_blocks: Count | None
    num_prefill_checkpoint_blocks: Count | None


class DistinctionPart(ToldPart):
    """A setting that tells a cohort from the others."""

    path: str


class CohortPart(Part):
    """Replicas whose documents do not contradict each other."""

    cohort: str
    document: str
    replicas: Many[str]
    distinguishing: Many[DistinctionPart]


class ValuePart(ToldPart):
    """One of the values of a difference."""

    count: int
    cohorts: Many[str]


class DifferencePart(Part):
    """A setting whose values are not all equal in a pool."""

    path: str
    majority: ToldPart | None
    values: Many[ValuePart]


def coverage(fleet: Fleet) -> Coverage:
    """Count the replicas by state."""
    states = [replica.state for replica in fleet.replicas]
    return Coverage(
        targets=len(states),
        up=states.count(ReplicaState.UP),
        partial=states.count(ReplicaState.PARTIAL),
        down=states.count(ReplicaState.DOWN),
    )


def native(text: str) -> Any:
    """Return canonical JSON text as native JSON; what was not told has no text, and is null."""
    return json.loads(text) if text else None
