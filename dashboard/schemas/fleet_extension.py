"""`fleet` in the configuration API's answer: what our provider adds for a fleet view. Described in docs/config-api.md.

Version: a minor number is added fields, a major one another meaning. What could not be had is null, and named in
`unavailable`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from dashboard.schemas.base import Count, Moment, Size, Text, Wire
from dashboard.schemas.devices import MAX_DEVICES, DeviceReply
from dashboard.schemas.kv_cache_groups import KVCacheGroups

SCHEMA_VERSION = "1.0"
MAX_ENGINES = 4096
MAX_ADAPTERS = 4096
MAX_UNAVAILABLE = 1024


class Unavailable(Wire):
    """A field that could not be had, as a path below the answer, and why, in one sentence."""

    field: Text
    reason: Text


class Fingerprint(Wire):
    """Digests of two chained block hashes that the engine itself computed; null, with the reason, where it has none.

    `canonical`: at a block length that is the same everywhere. `engine`: at the length at which this engine hashes.
    Equal `engine` digests: equal tokens give equal block hashes (vllm/v1/core/kv_cache_utils.py, hash_block_tokens).
    """

    canonical: Text | None = None
    engine: Text | None = None
    reason: Text | None = None


class EngineDevice(DeviceReply):
    """One accelerator, and where it stands in the engine."""

    tensor_parallel_rank: Count | None = None
    pipeline_parallel_rank: Count | None = None


class EngineInfo(Wire):
    """One data-parallel rank. `max_concurrency` is requests of `max_model_len` tokens; memory is in bytes."""

    data_parallel_rank: Count
    num_gpu_blocks: Count | None = None
    kv_cache_size_tokens: Count | None = None
    max_concurrency: float | None = None
    max_model_len: Size | None = None
    kv_cache_bytes_per_device: Count | None = None
    groups: KVCacheGroups = ()
    devices: Annotated[tuple[EngineDevice, ...], Field(max_length=MAX_DEVICES)] = ()
    fingerprint: Fingerprint = Field(default_factory=Fingerprint)
    started_at: Moment | None = None


class Scheduling(Wire):
    """What the capacity formula needs: batches in flight at once (vllm/config/vllm.py, max_concurrent_batches)."""

    concurrent_batches: Size | None = None
    async_scheduling: bool | None = None


class PrefixHashing(Wire):
    """How blocks are hashed. Lengths in tokens.

    `hash_block_size`: tokens that one hash covers. `match_unit`: as asked for. `alignment`: tokens of which a hit's
    length is a multiple. `seed_policy`: `default` (the root that is the same everywhere), `environment`
    (PYTHONHASHSEED is set), `random` (a root per engine process); never the seed. `engines_agree`: whether all engines
    of this server hash alike.
    """

    enabled: bool | None = None
    algorithm: Text | None = None
    hash_block_size: Size | None = None
    match_unit: Size | None = None
    alignment: Size | None = None
    seed_policy: Text | None = None
    engines_agree: bool | None = None


class KVEvents(Wire):
    """Where the engine publishes what its prefix cache holds, as configured; ranks add their number to the port."""

    enabled: bool | None = None
    publisher: Text | None = None
    endpoint: Text | None = None
    topic: Text | None = None


class KVTransfer(Wire):
    """The connector, and what both sides of a transfer must agree on; all null without a connector."""

    connector: Text | None = None
    role: Text | None = None
    engine_id: Text | None = None
    compatibility: dict[str, Any] | None = None


class ModelFiles(Wire):
    """Which files are served: names and revisions as asked for."""

    revision: Text | None = None
    code_revision: Text | None = None
    tokenizer: Text | None = None
    tokenizer_revision: Text | None = None


class Chat(Wire):
    """How conversations become tokens. `template_digest`: of the template's text; null where there is none."""

    template_digest: Text | None = None
    template_content_format: Text | None = None
    tool_call_parser: Text | None = None
    reasoning_parser: Text | None = None
    enable_auto_tool_choice: bool | None = None


class Adapter(Wire):
    """A LoRA adapter that is loaded now."""

    name: Text
    path: Text | None = None


class FleetExtension(Wire):
    """All that the provider adds. `settings` (by path) and `environment` (by variable) with `?full=true` only."""

    schema_version: Text
    provider_version: Text | None = None
    vllm_version: Text | None = None
    started_at: Moment | None = None
    data_parallel_rank: Count | None = None
    engines: Annotated[tuple[EngineInfo, ...], Field(max_length=MAX_ENGINES)] = ()
    scheduling: Scheduling = Field(default_factory=Scheduling)
    prefix_hashing: PrefixHashing = Field(default_factory=PrefixHashing)
    kv_events: KVEvents = Field(default_factory=KVEvents)
    kv_transfer: KVTransfer = Field(default_factory=KVTransfer)
    model: ModelFiles = Field(default_factory=ModelFiles)
    chat: Chat = Field(default_factory=Chat)
    adapters: Annotated[tuple[Adapter, ...], Field(max_length=MAX_ADAPTERS)] = ()
    settings: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    unavailable: Annotated[tuple[Unavailable, ...], Field(max_length=MAX_UNAVAILABLE)] = ()
