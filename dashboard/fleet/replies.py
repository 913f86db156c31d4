"""Targets, failures, replies and their parts, and the enums that they use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

from dashboard.fleet.traffic import Traffic

JsonText = Annotated[str, "canonical JSON text"]  # 16, "auto", [1,2]; empty where there is no value


class State(StrEnum):
    """The state of a setting in one document."""

    REPORTED = "reported"
    NULL = "null"  # an option that is not set: a value like any other
    ABSENT = "absent"  # not reported by any source
    UNSUPPORTED = "unsupported"  # this vLLM version has no such setting
    REDACTED = "redacted"
    UNKNOWN = "unknown"  # null where the engine sets the value later


class Source(StrEnum):
    """The source of a setting, in the order of trust."""

    PROVIDER = "provider"  # our plugin inside vLLM
    SERVER_INFO = "server_info"
    GRPC = "grpc"  # of vLLM's Rust frontend
    CONFIG_API = "config_api"
    PLUGIN = "plugin"
    METRICS = "metrics"
    MODELS = "models"
    VERSION = "version"
    KV_EVENT_SOURCES = "kv_event_sources"


class ReplicaState(StrEnum):
    """Whether a replica was read."""

    UP = "up"
    PARTIAL = "partial"
    DOWN = "down"


class Role(StrEnum):
    """The role of a replica among those that serve one model together. An encoder has no KV cache."""

    PREFILL = "prefill"
    DECODE = "decode"
    BOTH = "both"
    ENCODER = "encoder"


class Basis(StrEnum):
    """The basis of a capacity."""

    REPORTED = "reported"
    DERIVED = "derived"
    ASSUMED = "assumed"  # an upper bound
    UNKNOWN = "unknown"


class FailureKind(StrEnum):
    """Why a probe gave no reply."""

    DNS = "dns"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    TLS = "tls"
    PROTOCOL = "protocol"
    UNAUTHORIZED = "unauthorized"
    STATUS = "status"
    TOO_LARGE = "too_large"
    DECODE = "decode"
    SCHEMA = "schema"
    TARGET = "target"
    FRONTEND = "frontend"  # it answers without any data of its engine
    NOT_VLLM = "not_vllm"  # another server answers, such as SGLang


FILE_SCHEME = "file://"  # begins the id of a replica that was imported: it is not polled, its answers have no time

CLUSTER_MARK = "+"  # in a replica that another dashboard reports, between its cluster and its id there


def reporter_of(replica: str) -> str | None:
    """Return the cluster whose dashboard reports a replica, by its id; None where it is polled.

    Clusters of a hub may use the same addresses for different machines.
    """
    cluster, mark, _ = replica.partition("://")[0].rpartition(CLUSTER_MARK)
    return cluster if mark else None


def address_of(replica: str) -> str:
    """Return the address of a replica, by its id."""
    return replica.removeprefix(f"{reporter_of(replica)}{CLUSTER_MARK}")


@dataclass(frozen=True, slots=True)
class Failure:
    """An expected failure as data: its kind, and one sentence."""

    kind: FailureKind
    detail: str


@dataclass(frozen=True, slots=True)
class Credentials:
    """The places of a target's secrets, never the secrets themselves."""

    token_env: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None


# A series that ends without a mark stays for 5 minutes. Prometheus advises against intervals above 2 minutes
# (https://prometheus.io/docs/prometheus/latest/querying/basics/#staleness); half a minute is for a late scrape.
STALE_SECONDS = 150.0


@dataclass(frozen=True, slots=True)
class ScrapedMetrics:
    """What Prometheus has of a replica: the lines of its /metrics that are read, empty for a replica that is down.

    `at` is the time (UTC) of the first scrape with these lines: a later one with equal lines makes no new object.
    `falls_back`: a replica whose lines lack digests is asked directly.
    """

    lines: bytes
    at: datetime
    falls_back: bool


class TargetAccess(IntEnum):
    """What is sent to a target: a source that others write names any address, to get the fleet's API key."""

    NAMED = 0  # a source names it: no API key
    ALLOWED = 1  # a source names it, inside `targets_allowed`, or a pod's own port: its API key
    LISTED = 2  # fleet.yaml or a file of file_sd lists it: its API key, and it may be a link-local address


GRPC_PORT = "grpc_port"  # the label with the port of vLLM's gRPC


@dataclass(frozen=True, slots=True)
class Target:
    """An address to poll, with labels. `failure` is set where the address is no URL; `scraped` by Prometheus."""

    id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    credentials: Credentials | None = None
    stale: bool = False
    failure: Failure | None = None
    scraped: ScrapedMetrics | None = None
    access: TargetAccess = TargetAccess.LISTED


class SourceStatus(NamedTuple):
    """A source of targets: its name and kind, the ids of its targets, its last success (UTC), and why it fails now."""

    name: str
    kind: str
    targets: tuple[str, ...]
    succeeded_at: datetime | None = None
    failure: str | None = None


class ReceiverStatus(NamedTuple):
    """A receiver of notifications: its host, its last success (UTC), how many wait for it, and why it fails now.

    `kind` is alertmanager, webhook or slack; `name` is empty for an Alertmanager. `pending` is None where another
    instance notifies.
    """

    kind: str
    name: str
    host: str
    succeeded_at: datetime | None = None
    pending: int | None = 0
    error: str | None = None


MOST_CONFLICTS = 100  # a whole source that disagrees is one mistake


class LabelConflict(NamedTuple):
    """A label of a target on which two sources disagree: the value in use and its source, the other and its source."""

    target: str
    label: str
    value: str
    source: str
    other: str
    other_source: str


class Setting(NamedTuple):
    """One value as canonical JSON text, with its state and its source."""

    value: JsonText
    state: State
    source: Source


class Argument(NamedTuple):
    """An argument that a server was started with: `--block-size`, `--compilation-config.mode`, or a variable.

    `source` is command_line, config_file or environment.
    """

    name: str
    source: str


class EngineFingerprint(NamedTuple):
    """Digests of block hashes that an engine computed itself (docs/config-api.md); None with a `reason`.

    Equal `engine`: equal tokens have equal block hashes. Only equal `canonical`: the block lengths differ.
    """

    canonical: str | None = None
    engine: str | None = None
    reason: str | None = None


class EngineReport(NamedTuple):
    """The data of one reply on one DP rank; None is not reported.

    `blocks_of_all` is the sum over the engines of its API server, where there are several.
    """

    dp_rank: int
    num_gpu_blocks: int | None = None
    kv_cache_size_tokens: int | None = None
    max_concurrency: float | None = None
    blocks_of_all: int | None = None
    kv_cache_bytes_per_device: int | None = None
    fingerprint: EngineFingerprint | None = None  # None: not reported
    max_model_len: int | None = None  # of this engine: vLLM may have reduced it to fit the memory
    kv_cache_available_bytes: int | None = None
    sleep_level: int | None = None  # 0, 1 or 2 while it sleeps; None: awake, or not reported


class WorkerMemory(NamedTuple):
    """What the worker of a device measured at its start, in bytes; None is not reported (docs/config-api.md)."""

    total_bytes: int | None = None
    free_bytes: int | None = None
    requested_bytes: int | None = None
    weights_bytes: int | None = None
    non_torch_bytes: int | None = None
    activation_bytes: int | None = None
    cuda_graph_bytes: int | None = None
    available_bytes: int | None = None
    reason: str | None = None


class Device(NamedTuple):
    """One accelerator of an engine; memory in bytes."""

    dp_rank: int
    rank: int
    name: str
    total_memory_bytes: int | None = None
    compute_capability: str | None = None
    compute_units: int | None = None
    tensor_parallel_rank: int | None = None
    pipeline_parallel_rank: int | None = None
    memory: WorkerMemory | None = None  # None: not reported


class KVCacheGroup(NamedTuple):
    """One KV cache group of an engine, as a configuration endpoint reports it."""

    dp_rank: int
    group_id: int
    spec_type: str
    block_size: int
    page_size_bytes: int | None
    layers: int
    sliding_window: int | None = None
    extra_retained_tokens: int = 0
    attention_chunk_size: int | None = None
    num_kv_heads: int | None = None
    head_size: int | None = None
    dtype: str | None = None
    mamba_cache_mode: str | None = None
    num_speculative_blocks: int | None = None
    num_prefill_checkpoint_blocks: int | None = None
    dcp_sharded: bool | None = None  # whether decode context parallelism divides its tokens
    host_resident: bool | None = None  # whether it is in host memory, in a pool of its own


@dataclass(frozen=True, slots=True)
class Reply:
    """A probe's parsed answer.

    `settings` are comparable, and shared between replicas with equal answers; `identity` settings differ per replica.
    """

    source: Source
    settings: Mapping[str, Setting] = field(default_factory=dict)
    identity: Mapping[str, Setting] = field(default_factory=dict)
    version: str | None = None
    started_at: datetime | None = None
    counters: float | None = None
    served_model_names: tuple[str, ...] = ()
    adapters: Mapping[str, str | None] = field(default_factory=dict)  # LoRA adapters: name -> path, None: not reported
    engines: tuple[EngineReport, ...] = ()
    devices: tuple[Device, ...] = ()
    kv_cache_groups: tuple[KVCacheGroup, ...] = ()
    not_understood: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] | None = None  # that the server was started with; None: not reported
    digests: Mapping[str, str] = field(default_factory=dict)  # that /metrics reports, or that the provider's answer has


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One GET or gRPC call and its result. Neither `reply` nor `failure`: this replica has no such path.

    `raw` is the redacted answer, cut to a limit; of `/metrics` only the lines that are read.
    """

    path: str
    source: Source
    observed_at: datetime
    elapsed_seconds: float
    status: int | None = None
    size_bytes: int = 0
    raw: bytes = b""
    reply: Reply | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The latest result of each probe of one replica, by path.

    `same_digest_as` is the id of the replica that gave the settings, because both have equal digests on /metrics.
    `is_scraped`: the replica was not asked, and its times are those of `ScrapedMetrics.at`. `traffic` is that of its
    engines by DP rank, where they were read twice; `counted` is what they counted between the last two reads, in the
    poll that read them.
    """

    target: Target
    observed_at: datetime
    probes: Mapping[str, ProbeResult]
    same_digest_as: str | None = None
    is_scraped: bool = False
    traffic: Mapping[int, Traffic] = field(default_factory=dict)
    counted: Mapping[int, Traffic] = field(default_factory=dict)
