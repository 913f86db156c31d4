"""`fleet` in the configuration API's answer: what our provider adds for a fleet view. Described in docs/config-api.md.

Version: a minor number is added fields, a major one another meaning. What could not be had is null, and named in
`unavailable`.
"""

from typing import Annotated, Any

from pydantic import Field

from dashboard.vllm.schemas.base import Count, Moment, Size, Text, Wire
from dashboard.vllm.schemas.devices import MAX_DEVICES, DeviceReply
from dashboard.vllm.schemas.kv_cache_groups import KVCacheGroups

SCHEMA_VERSION = "1.1"
MAX_ENGINES = 4096
MAX_ADAPTERS = 4096
MAX_UNAVAILABLE = 1024


class Unavailable(Wire):
    """A field that could not be had, as a path below the answer, and why, in one sentence."""

    field: Text = Field(description="Path of the field below the answer, such as `fleet.engines.max_concurrency`.")
    reason: Text = Field(description="Why, in one sentence. Never a text that vLLM or a file said.")


class Fingerprint(Wire):
    """Digests of two chained block hashes that the engine itself computed; null, with the reason, where it has none.

    `canonical`: at a block length that is the same everywhere. `engine`: at the length at which this engine hashes.
    Equal `engine` digests: equal tokens give equal block hashes (vllm/v1/core/kv_cache_utils.py, hash_block_tokens).
    """

    canonical: Text | None = Field(
        default=None,
        description="Digest of the hashes of two chained blocks of 16 tokens: blind to the block length.",
    )
    engine: Text | None = Field(
        default=None,
        description="The same at `hash_block_size` tokens. Equal: equal tokens give equal block hashes.",
    )
    reason: Text | None = Field(default=None, description="Why there is no digest, or what to know of it.")


class EngineDevice(DeviceReply):
    """One accelerator, and where it stands in the engine."""

    tensor_parallel_rank: Count | None = Field(
        default=None,
        description="Rank among its tensor-parallel workers (get_tp_group).",
    )
    pipeline_parallel_rank: Count | None = Field(
        default=None, description="Rank among its pipeline stages (get_pp_group)."
    )


class EngineInfo(Wire):
    """One data-parallel rank. `max_concurrency` is requests of `max_model_len` tokens; memory is in bytes."""

    data_parallel_rank: Count = Field(
        description="The DP rank, also of independent engines (parallel_config.data_parallel_index)."
    )
    num_gpu_blocks: Count | None = Field(
        default=None,
        description="Blocks that this engine gave to the KV cache (KVCacheConfig.num_blocks), never a sum over ranks.",
    )
    kv_cache_size_tokens: Count | None = Field(
        default=None,
        description="Tokens that fit, as vLLM counts and logs them: `KV cache size` (get_kv_cache_capacity).",
    )
    max_concurrency: float | None = Field(
        default=None,
        description="Requests of `max_model_len` tokens that fit at once: what vLLM logs as `Maximum concurrency`.",
    )
    max_model_len: Size | None = Field(
        default=None,
        description="Tokens of the longest request, after a fit to memory (model_config.max_model_len).",
    )
    kv_cache_bytes_per_device: Count | None = Field(
        default=None,
        description="Bytes that each device of the engine allocated for the KV cache (KVCacheTensor.size).",
    )
    kv_cache_available_bytes: Count | None = Field(
        default=None,
        description="Bytes that were free for the KV cache on the engine's first device when it started "
        "(EngineCore.available_gpu_memory_for_kv_cache).",
    )
    groups: KVCacheGroups = Field(
        default=(), description="All KV cache groups as the scheduler holds them, in the shape of `kv_cache.groups`."
    )
    devices: Annotated[tuple[EngineDevice, ...], Field(max_length=MAX_DEVICES)] = Field(
        default=(), description="The accelerators of this engine, one per worker."
    )
    fingerprint: Fingerprint = Field(
        default_factory=Fingerprint, description="What this engine hashes known blocks to."
    )
    started_at: Moment | None = Field(
        default=None,
        description="When the engine's process started (proc(5), /proc/pid/stat, field 22).",
    )


class Scheduling(Wire):
    """What the capacity formula needs (vllm/config/vllm.py)."""

    concurrent_batches: Size | None = Field(
        default=None,
        description="Batches in flight at once (VllmConfig.max_concurrent_batches).",
    )
    async_scheduling: bool | None = Field(
        default=None, description="Whether scheduling overlaps with execution (scheduler_config.async_scheduling)."
    )


class PrefixHashing(Wire):
    """How blocks are hashed; lengths in tokens.

    `seed_policy`: `default` is the root that is the same everywhere, `environment` one from PYTHONHASHSEED, `random`
    one per engine process. The seed itself is never told.
    """

    enabled: bool | None = Field(
        default=None,
        description="Whether the engine caches prefixes (cache_config.enable_prefix_caching), as it decided at start.",
    )
    algorithm: Text | None = Field(
        default=None, description="The hash function (cache_config.prefix_caching_hash_algo)."
    )
    hash_block_size: Size | None = Field(
        default=None,
        description="Tokens that one hash covers: cut prompts by it (KVCacheConfig.hash_block_size).",
    )
    match_unit: Size | None = Field(
        default=None,
        description="Tokens of which matches are a multiple, as asked for (cache_config.prefix_match_unit).",
    )
    alignment: Size | None = Field(
        default=None,
        description="Tokens of which the length of a hit is a multiple (KVCacheConfig.cache_hit_alignment_tokens); "
        "null where vLLM does not tell it, as 0.26.",
    )
    lookahead_tokens: Count | None = Field(
        default=None,
        description="Tokens after a block that its hash also covers (VllmConfig.num_hash_lookahead_tokens, vLLM 0.33); "
        "0 where only the block's own tokens count. New in 1.1.",
    )
    seed_policy: Text | None = Field(
        default=None,
        description="`default`, `environment` or `random`: where the root of the hashes comes from.",
    )
    engines_agree: bool | None = Field(
        default=None,
        description="Whether all engines of this server have one `fingerprint.engine`; null where one has none. "
        "True of a single engine, which says nothing.",
    )


class KVEvents(Wire):
    """Where the engine publishes what its prefix cache holds."""

    enabled: bool | None = Field(
        default=None, description="Whether KV events are published (kv_events_config.enable_kv_cache_events)."
    )
    publisher: Text | None = Field(default=None, description="The kind of publisher, such as `zmq`.")
    endpoint: Text | None = Field(
        default=None,
        description="Where, as configured; each DP rank adds its number to the port.",
    )
    topic: Text | None = Field(default=None, description="The topic.")


class KVTransfer(Wire):
    """The connector; all null without one."""

    connector: Text | None = Field(default=None, description="The connector (kv_transfer_config.kv_connector).")
    role: Text | None = Field(default=None, description="`kv_producer`, `kv_consumer` or `kv_both`.")
    engine_id: Text | None = Field(default=None, description="The id by which other engines know this one.")
    compatibility: dict[str, Any] | None = Field(
        default=None,
        description="What connectors compare before they transfer; null without a connector (nixl/metadata.py).",
    )


class ModelFiles(Wire):
    """Which files are served: names and revisions as asked for."""

    revision: Text | None = Field(
        default=None, description="As asked for (model_config.revision); null is the default branch."
    )
    code_revision: Text | None = Field(
        default=None, description="Of the model's own code (model_config.code_revision)."
    )
    tokenizer: Text | None = Field(default=None, description="Name or folder (model_config.tokenizer).")
    tokenizer_revision: Text | None = Field(default=None, description="As asked for (model_config.tokenizer_revision).")


class Chat(Wire):
    """How conversations become tokens."""

    template_digest: Text | None = Field(
        default=None,
        description="16 hex digits of the SHA-256 of the chat template in force; null without one.",
    )
    template_content_format: Text | None = Field(
        default=None, description="As asked for: `auto`, `string` or `openai`."
    )
    tool_call_parser: Text | None = Field(default=None, description="The parser of tool calls; null without one.")
    reasoning_parser: Text | None = Field(default=None, description="The parser of reasoning; empty without one.")
    enable_auto_tool_choice: bool | None = Field(default=None, description="Whether the model may choose tools itself.")


class Adapter(Wire):
    """A LoRA adapter that is loaded now."""

    name: Text = Field(description="The name that requests use.")
    path: Text | None = Field(
        default=None,
        description="Where it was loaded from; since 0.32 a part of the block hash (vllm/v1/core/kv_cache_utils.py).",
    )


class FleetExtension(Wire):
    """All that the provider adds."""

    schema_version: Text = Field(description="Version of `fleet`, as `major.minor`.")
    provider_version: Text | None = Field(default=None, description="Version of the provider.")
    vllm_version: Text | None = Field(default=None, description="Version of vLLM (vllm.__version__).")
    started_at: Moment | None = Field(
        default=None, description="When the first engine process of this server started. Another value is a restart."
    )
    data_parallel_rank: Count | None = Field(
        default=None, description="The rank that the sections beside `fleet` speak of."
    )
    engines: Annotated[tuple[EngineInfo, ...], Field(max_length=MAX_ENGINES)] = Field(
        default=(), description="Every engine behind this API server, by DP rank."
    )
    scheduling: Scheduling = Field(default_factory=Scheduling, description="What the capacity formula needs.")
    prefix_hashing: PrefixHashing = Field(default_factory=PrefixHashing, description="How blocks are hashed.")
    kv_events: KVEvents = Field(
        default_factory=KVEvents, description="Where the engine publishes what its prefix cache holds."
    )
    kv_transfer: KVTransfer = Field(default_factory=KVTransfer, description="What moves KV cache between engines.")
    model: ModelFiles = Field(default_factory=ModelFiles, description="Which files are served.")
    chat: Chat = Field(default_factory=Chat, description="How conversations become tokens.")
    adapters: Annotated[tuple[Adapter, ...], Field(max_length=MAX_ADAPTERS)] = Field(
        default=(), description="LoRA adapters that are loaded now."
    )
    settings: dict[str, Any] | None = Field(
        default=None,
        description="With `full=true`: all of `VllmConfig` by path; secrets are `[redacted]`.",
    )
    environment: dict[str, Any] | None = Field(
        default=None,
        description="With `full=true`: vLLM's own variables, but those with KEY in their name.",
    )
    unavailable: Annotated[tuple[Unavailable, ...], Field(max_length=MAX_UNAVAILABLE)] = Field(
        default=(), description="What could not be had: every such field is null or empty."
    )
