"""The types derived from replies: replicas, engines, documents, pools, cohorts, differences; baselines and notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from dashboard.fleet.replies import (
    Argument,
    Basis,
    Device,
    EngineFingerprint,
    Failure,
    JsonText,
    KVCacheGroup,
    ProbeResult,
    ReplicaState,
    Role,
    Setting,
    Source,
    State,
    reporter_of,
)
from vllm_fleet_provider.shared.types import Moment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Codes = NDArray[np.int32]

Letters = Mapping[str, Mapping[str, str]]  # of cohorts, by pool and document
NO_LETTERS: Letters = MappingProxyType({})
CLUSTER = "cluster"  # the label that tells pools with one name apart


class Tolerance(NamedTuple):
    """Several allowed values: a set of canonical JSON texts, or a range of numbers, ends included."""

    any_of: tuple[JsonText, ...] = ()
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The expected settings of a pool. Paths are vLLM's own; values are canonical JSON text.

    `pool` is a name or a glob, `ignored` are globs over paths, `comments` are the comments of the file by path, and
    `file` is the file's name.
    """

    name: str
    pool: str
    expected: Mapping[str, JsonText] = field(default_factory=dict)
    tolerated: Mapping[str, Tolerance] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    comments: Mapping[str, str] = field(default_factory=dict)
    file: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A note on a finding or a section, and the owner of its subject; the last change is `at` a time, by its author.

    The author is who signed in; empty without a sign-in.
    """

    text: str
    owner: str = ""
    at: Moment | None = None
    author: str = ""


Notes = Mapping[str, Note]  # by a finding's id, or by the anchor of a part of the review


class Contradiction(NamedTuple):
    """Two sources of one replica that report different values of one setting with one meaning."""

    path: str
    kept: Setting
    other: Setting


class Coverage(NamedTuple):
    """The number of targets, by the state of their replicas."""

    targets: int = 0
    up: int = 0
    partial: int = 0
    down: int = 0

    @property
    def answered(self) -> int:
        """The number of replicas that were read, in full or in part."""
        return self.up + self.partial


@dataclass(frozen=True, slots=True)
class Document:
    """All comparable settings of a replica; replicas with equal settings share one document."""

    id: str
    version: str | None
    settings: Mapping[str, Setting]


class Engine(NamedTuple):
    """The KV cache capacity of one DP rank. `kv_cache_bytes` is the sum over its devices."""

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
    fingerprint: EngineFingerprint | None = None  # None: not reported
    shares_sum: bool = False  # tokens and concurrency are the sum of all such engines of the replica
    kv_cache_available_bytes: int | None = None  # on its first device, at its start
    sleep_level: int | None = None  # 0, 1 or 2 while it sleeps: its KV cache adds to no sum


@dataclass(frozen=True, slots=True)
class Replica:
    """One vLLM API server with everything that its snapshot contains."""

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
    set_arguments: tuple[Argument, ...] | None = None  # None: not reported
    target_stale: bool = False  # its source of targets cannot be read: the last known target
    same_digest_as: str | None = None  # id of the replica whose settings these are: their digests are equal

    @property
    def adding_engines(self) -> tuple[Engine, ...]:
        """The engines whose tokens add up: of those that are awake all, or the first where they report one sum."""
        awake = tuple(engine for engine in self.engines if engine.sleep_level is None)
        return awake[:1] if any(engine.shares_sum for engine in awake) else awake

    @property
    def is_reported(self) -> bool:
        """Whether another dashboard reports it: it is not polled."""
        return reporter_of(self.id) is not None

    @property
    def is_second_address(self) -> bool:
        """Whether another address of the same process is earlier: only the first address is counted."""
        return bool(self.same_process) and min(self.same_process) < self.id

    @property
    def is_counted(self) -> bool:
        """Whether sums count it: it was read lately, and is no second address."""
        return self.fresh and not self.is_second_address


_NAMES = tuple(each.name for each in fields(Replica))
_VALUES = attrgetter(*_NAMES)
_FRESH, _OBSERVED_AT, _PROBES = map(_NAMES.index, ("fresh", "observed_at", "probes"))
# What pages and rules use of a replica: all but the time of its answers and the raw answers.
_CONTENT = attrgetter(*(each for each in _NAMES if each not in {"observed_at", "probes"}))
_BUT_STARTS = attrgetter(*(each for each in _NAMES if each not in {"observed_at", "probes", "started_at"}))


def with_answers(
    replica: Replica, probes: tuple[ProbeResult, ...], *, fresh: bool, observed_at: datetime | None
) -> Replica:
    """Return a replica with answers of another time. A fifth of the cost of dataclasses.replace."""
    values = list(_VALUES(replica))
    values[_FRESH], values[_OBSERVED_AT], values[_PROBES] = fresh, observed_at, probes
    return Replica(*values)


def last_read(replica: Replica, scraped_at: Mapping[str, float]) -> datetime | None:
    """Return when a replica was read or scraped last: `scraped_at` in seconds since 1970, by id.

    Its own times are those of the last change, if later.
    """
    at = scraped_at.get(replica.id) if replica.observed_at else None
    return replica.observed_at if at is None else datetime.fromtimestamp(at, UTC)


def has_same_content(replicas: Sequence[Replica], before: Sequence[Replica], *, but_starts: bool = False) -> bool:
    """Return whether all replicas are equal apart from the times of their answers, or also of their starts."""
    content = _BUT_STARTS if but_starts else _CONTENT
    return len(replicas) == len(before) and all(
        now is then or content(now) == content(then) for now, then in zip(replicas, before, strict=True)
    )


class SettingValue(NamedTuple):
    """A value and its state, without its source."""

    value: JsonText
    state: State


class SettingChange(NamedTuple):
    """A setting with different values on two sides: before and after, or the current one and the one to set."""

    path: str
    before: SettingValue
    after: SettingValue


@dataclass(frozen=True, slots=True)
class Cohort:
    """Replicas of a pool whose documents do not contradict each other.

    `document` is the most complete one. `settings` are those of all members together; the replicas `read_in_part`
    report fewer.
    """

    letter: str
    document: str
    documents: tuple[str, ...]
    replicas: tuple[str, ...]
    settings: Mapping[str, Setting]
    read_in_part: tuple[str, ...] = ()
    distinguishing: Mapping[str, SettingValue] = field(default_factory=dict)  # the fewest settings, by path
    documents_by_replica: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ValueCount:
    """One of the values of a difference: the number of fresh replicas with this value, and their cohorts."""

    value: JsonText
    state: State
    count: int
    cohorts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting with several values in a pool. `majority` is None for a tie, and for fewer than three replicas."""

    path: str
    majority: SettingValue | None
    values: tuple[ValueCount, ...]


def cohort_letters(pools: Iterable[Pool]) -> dict[str, str]:
    """Return the letter of each replica's cohort by the replica's id; a replica that was never read has none."""
    return {member: cohort.letter for pool in pools for cohort in pool.cohorts for member in cohort.replicas}


@dataclass(frozen=True, slots=True, eq=False)
class CodeTable:
    """Settings of some documents as integers, which compare/encoding.py explains.

    `codes[i, j]` is the value of `paths[j]` in document i, `values[code]` the value of a code. Paths are sorted. The
    order of codes has no meaning. `sections` has the codes of sections that are not compared: of those that are only
    ever null or empty, where other documents have leaves.
    """

    paths: tuple[str, ...]
    codes: Codes
    values: tuple[SettingValue, ...]
    sections: Mapping[str, Codes]


@dataclass(frozen=True, slots=True)
class Pool:
    """One compared pool. The counts of paths are those that a view of the differences hides.

    `name` is its key: `cluster/name`, or the name alone where replicas have no label `cluster`. `documents`
    are the ids of all documents of its replicas, sorted; `table` has a row for each.
    """

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
    documents: tuple[str, ...]
    table: CodeTable = field(compare=False, repr=False)
    cluster: str = ""

    @property
    def name_within(self) -> str:
        """The name within its cluster."""
        return self.name.removeprefix(f"{self.cluster}/") if self.cluster else self.name
