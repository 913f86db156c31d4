"""What is known of one replica, with its document and its engines."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from dashboard.fleet.replies import Device, Fingerprint, KVCacheGroup, ProbeResult, Setting
from dashboard.fleet.targets import Failure
from dashboard.fleet.words import Basis, ReplicaState, Role, Source


class Contradiction(NamedTuple):
    """Two sources of one replica that disagree on a setting that means the same to both."""

    path: str
    kept: Setting
    other: Setting


@dataclass(frozen=True, slots=True)
class Document:
    """All comparable settings of a replica; replicas that agree in all of them share one."""

    id: str
    version: str | None
    settings: Mapping[str, Setting]


class Engine(NamedTuple):
    """KV cache capacity of one DP rank. Bytes are those of its devices together."""

    dp_rank: int
    num_gpu_blocks: int | None
    block_size: int | None
    kv_cache_size_tokens: int | None
    max_concurrency: float | None
    kv_cache_bytes: int | None
    kv_cache_bytes_per_device: int | None
    naive_tokens: int | None
    max_model_len: int | None
    basis: Basis
    reason: str | None = None  # why a number is unknown or assumed
    fingerprint: Fingerprint | None = None  # None: nobody tells
    shares_sum: bool = False  # tokens and concurrency are those of all such engines of the replica together
    kv_cache_available_bytes: int | None = None  # on its first device, when it started


@dataclass(frozen=True, slots=True)
class Replica:
    """One vLLM API server and all that is known of it."""

    id: str
    name: str
    labels: Mapping[str, str]
    pool: str | None
    role: Role
    state: ReplicaState
    failure: Failure | None
    fresh: bool
    version: str | None
    started_at: datetime | None
    observed_at: datetime | None
    document: str | None
    identity: Mapping[str, Setting]
    sources: tuple[Source, ...]
    contradictions: tuple[Contradiction, ...]
    served_model_names: tuple[str, ...]
    adapters: Mapping[str, str | None]  # LoRA adapters: name -> path, None: not reported
    engines: tuple[Engine, ...]
    devices: tuple[Device, ...]
    kv_cache_groups: tuple[KVCacheGroup, ...]
    probes: tuple[ProbeResult, ...]
    same_process: tuple[str, ...] = ()  # ids of replicas with the same instance_id
    target_stale: bool = False  # its source of targets cannot be read: this is the last that it listed

    @property
    def adding_engines(self) -> tuple[Engine, ...]:
        """Return the engines whose tokens add up: of a replica whose engines share one sum, the first."""
        return self.engines[:1] if any(engine.shares_sum for engine in self.engines) else self.engines

    @property
    def is_second_address(self) -> bool:
        """Whether an earlier address of the same process stands for it: only that one is counted."""
        return any(other < self.id for other in self.same_process)
