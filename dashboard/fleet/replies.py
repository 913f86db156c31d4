"""What one replica says in one poll: replies and their parts, results of probes, a snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from dashboard.fleet.targets import Failure, Target
from dashboard.fleet.words import Source, State


class Setting(NamedTuple):
    """One value: its canonical JSON text, how it stands, who said it."""

    value: str
    state: State
    source: Source


class Fingerprint(NamedTuple):
    """Digests of block hashes that an engine computed itself (docs/config-api.md); None, with a reason, without them.

    Equal `engine`: equal tokens give equal block hashes. Equal `canonical` only: the block length stands between them.
    """

    canonical: str | None = None
    engine: str | None = None
    reason: str | None = None


class EngineReport(NamedTuple):
    """What one reply says of one DP rank. `None` is what it does not say.

    `blocks_of_all` are the blocks of all engines of its API server, where there are several.
    """

    dp_rank: int
    num_gpu_blocks: int | None = None
    kv_cache_size_tokens: int | None = None
    max_concurrency: float | None = None
    blocks_of_all: int | None = None
    kv_cache_bytes_per_device: int | None = None
    fingerprint: Fingerprint | None = None  # None: nobody tells
    max_model_len: int | None = None  # its own, where it may have fitted it to its memory
    kv_cache_available_bytes: int | None = None


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


class KVCacheGroup(NamedTuple):
    """One KV cache group of an engine, as a configuration endpoint tells it."""

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


@dataclass(frozen=True, slots=True)
class Reply:
    """A probe's answer, parsed: foreign shapes end here.

    `settings` holds what may be compared and is shared between replicas that say the same;
    `identity` holds what must or may differ per replica. Both map a path to a `Setting`.
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


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One GET and what became of it. Neither `reply` nor `failure`: this replica has no such path.

    `raw` is the answer after redaction, cut to a limit; of `/metrics` only the lines used.
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
    """All that one replica said: the latest result of each probe, keyed by path."""

    target: Target
    observed_at: datetime
    probes: Mapping[str, ProbeResult]
