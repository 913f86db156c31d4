"""What is derived from replies: replicas, engines, documents, pools, cohorts, differences; baselines and notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from dashboard.fleet.replies import (
    Basis,
    Device,
    Failure,
    Fingerprint,
    JsonText,
    KVCacheGroup,
    ProbeResult,
    ReplicaState,
    Role,
    Setting,
    Source,
    State,
)


class Tolerance(NamedTuple):
    """Values that are as good as each other: a set of canonical JSON texts, or a range of numbers, ends included."""

    any_of: tuple[JsonText, ...] = ()
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the replicas of a pool should tell. Paths are vLLM's own; values are canonical JSON text.

    `pool` is a name or a glob, `ignored` are globs over paths that do not matter, `comments` what people wrote
    beside a path, and `file` is what the file is called.
    """

    name: str
    pool: str
    expected: Mapping[str, JsonText] = field(default_factory=dict)
    tolerated: Mapping[str, Tolerance] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    comments: Mapping[str, str] = field(default_factory=dict)
    file: str = ""


class Note(NamedTuple):
    """A note and who answers for what it speaks of; `at` is when it was written last."""

    text: str
    owner: str = ""
    at: datetime | None = None


Notes = Mapping[str, Note]  # by a finding's id, or by the anchor of a part of the review


class Contradiction(NamedTuple):
    """Two sources of one replica that disagree on a setting that means the same to both."""

    path: str
    kept: Setting
    other: Setting


class Coverage(NamedTuple):
    """How many targets there are, and how many could be read."""

    targets: int = 0
    up: int = 0
    partial: int = 0
    down: int = 0

    @property
    def answered(self) -> int:
        """Return how many could be read, in full or in part."""
        return self.up + self.partial


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


class SettingValue(NamedTuple):
    """A value and how it stands, without who said it."""

    value: JsonText
    state: State


class SettingChange(NamedTuple):
    """A setting with different values on two sides: before and after, or its own and the one to set."""

    path: str
    before: SettingValue
    after: SettingValue


class Distinction(NamedTuple):
    """A setting that tells a cohort from the others."""

    path: str
    value: JsonText
    state: State


@dataclass(frozen=True, slots=True)
class Cohort:
    """Replicas of a pool whose documents do not contradict each other.

    `document` is the most completely read one; `settings` is what the members say together;
    `read_in_part` names the replicas whose own document says less than that.
    """

    letter: str
    document: str
    documents: tuple[str, ...]
    replicas: tuple[str, ...]
    settings: Mapping[str, Setting]
    read_in_part: tuple[str, ...] = ()
    distinguishing: tuple[Distinction, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)  # replica id -> id of its own document


@dataclass(frozen=True, slots=True)
class ValueCount:
    """One of the values of a difference: how many fresh replicas have it, in which cohorts."""

    value: JsonText
    state: State
    count: int
    cohorts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting whose values are not all equal in a pool. `majority` is None on a tie or too few."""

    path: str
    majority: SettingValue | None
    values: tuple[ValueCount, ...]


def cohort_letters(pools: Iterable[Pool]) -> dict[str, str]:
    """Return the letter of each replica's cohort, by the replica's id; who was never read has none."""
    return {member: cohort.letter for pool in pools for cohort in pool.cohorts for member in cohort.replicas}


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool, compared. Counts of paths say what a view of the differences hides."""

    name: str
    role: Role
    replicas: tuple[str, ...]
    fresh: int
    majority_document: str | None
    cohorts: tuple[Cohort, ...]
    differences: tuple[Difference, ...]
    equal: int
    identity: int
    ignored: tuple[str, ...]
