"""GET /inference/v1/config and /v1/config: the configuration API (vllm-project/vllm#38147, #38149), with `fleet`.

`GET /v1/server/config` answers with the same sections except devices and the runtime part of `kv_cache`. `fleet` is the
extension of our provider (docs/config-api.md): a new minor version adds fields, a new major version changes meanings.
Unavailable fields are null and listed in `unavailable`.
"""

from typing import Annotated, Any

from pydantic import Field

from vllm_fleet_provider.shared.types import (
    MAX_DEVICES,
    Count,
    DeviceReply,
    Devices,
    KVCacheGroups,
    LimitedText,
    Moment,
    Size,
    Wire,
    optional,
    section,
)

SCHEMA_VERSION = "1.4"
MAX_ENGINES = 4096
MAX_ADAPTERS = 4096
MAX_ARGUMENTS = 4096
MAX_UNAVAILABLE = 1024


class Unavailable(Wire):
    """A field without a value, as a path below the answer, and the reason in one sentence."""

    field: LimitedText = Field(
        description="Path of the field below the answer, such as `fleet.engines.max_concurrency`."
    )
    reason: LimitedText = Field(description="Why, in one sentence. Never text from vLLM or from a file.")


class Fingerprint(Wire):
    """Digests of two chained block hashes, computed by the engine itself; null with a reason where unavailable.

    Equal `engine` digests: equal tokens give equal hashes of `hash_block_size` tokens (vllm/v1/core/kv_cache_utils.py,
    hash_block_tokens). A KV cache block of a group may be several of them: it has the hash of the last one.
    """

    canonical: LimitedText | None = optional(
        "Digest of the hashes of two chained 16-token blocks: same length everywhere."
    )
    engine: LimitedText | None = optional(
        "The same at `hash_block_size` tokens. Equal: equal tokens give equal hashes of that length. "
        "Sharing also needs equal `block_size` of each KV cache group."
    )
    reason: LimitedText | None = optional("Why there is no digest, or a remark on it.")


class DeviceMemory(Wire):
    """What the worker of a device measured at its start, in bytes (vllm/v1/worker/gpu_worker.py). New in 1.2.

    Weights, non-torch, activation, CUDA graphs and available make up `requested_bytes`. Null with a reason where the
    worker did not measure it. Not yet seen on a GPU.
    """

    total_bytes: Count | None = optional("Memory of the device (init_snapshot.total_memory).")
    free_bytes: Count | None = optional("Free before the model was loaded (init_snapshot.free_memory).")
    requested_bytes: Count | None = optional("Share of `gpu_memory_utilization` (requested_memory).")
    weights_bytes: Count | None = optional("Weights of the model (model_runner.model_memory_usage).")
    non_torch_bytes: Count | None = optional(
        "Other memory in use after the profile run: of NCCL, of the attention backend (non_torch_memory; since 0.27 "
        "total_consumed without the weights)."
    )
    activation_bytes: Count | None = optional("Peak of the activations (peak_activation_memory without CUDA graphs).")
    cuda_graph_bytes: Count | None = optional("Set aside for CUDA graphs (cudagraph_memory_estimate).")
    available_bytes: Count | None = optional("Left for the KV cache (available_kv_cache_memory_bytes).")
    reason: LimitedText | None = optional("Why a value is null.")


class EngineDevice(DeviceReply):
    """One accelerator, with its ranks in the engine."""

    tensor_parallel_rank: Count | None = optional("Tensor-parallel rank (get_tp_group).")
    pipeline_parallel_rank: Count | None = optional("Pipeline stage (get_pp_group).")
    memory: DeviceMemory = section(DeviceMemory, "What its worker measured at the start.")


class EngineInfo(Wire):
    """One data-parallel rank. `max_concurrency` is requests of `max_model_len` tokens; memory is in bytes."""

    data_parallel_rank: Count = Field(description="DP rank, independent engines too (data_parallel_index).")
    num_gpu_blocks: Count | None = optional("KV cache blocks of this engine (KVCacheConfig.num_blocks), never a sum.")
    kv_cache_size_tokens: Count | None = optional("KV cache size in tokens, as vLLM logs it (get_kv_cache_capacity).")
    max_concurrency: float | None = optional("Requests of `max_model_len` tokens: vLLM's `Maximum concurrency`.")
    max_model_len: Size | None = optional("Tokens of the longest request, after a fit to memory.")
    kv_cache_bytes_per_device: Count | None = optional("KV cache bytes on each device (KVCacheTensor.size).")
    kv_cache_available_bytes: Count | None = optional(
        "Bytes that were free for the KV cache on the first device at start (available_gpu_memory_for_kv_cache)."
    )
    groups: KVCacheGroups = Field(default=(), description="All KV cache groups, in the shape of `kv_cache.groups`.")
    devices: Annotated[tuple[EngineDevice, ...], Field(max_length=MAX_DEVICES)] = Field(
        default=(), description="The accelerators of this engine, one per worker."
    )
    fingerprint: Fingerprint = section(Fingerprint, "Digests of the hashes of known blocks.")
    started_at: Moment | None = optional("Start of the engine's process (proc(5), /proc/pid/stat, field 22).")


class Scheduling(Wire):
    """Input of the capacity formula (vllm/config/vllm.py)."""

    concurrent_batches: Size | None = optional("Batches in flight (VllmConfig.max_concurrent_batches).")
    async_scheduling: bool | None = optional("Whether scheduling overlaps with execution (scheduler_config).")


class PrefixHashing(Wire):
    """How blocks are hashed; lengths in tokens. The seed itself is never reported."""

    enabled: bool | None = optional("Whether prefix caching is on (cache_config.enable_prefix_caching, resolved).")
    algorithm: LimitedText | None = optional("The hash function (cache_config.prefix_caching_hash_algo).")
    hash_block_size: Size | None = optional("Tokens per hash: cut prompts by it (KVCacheConfig.hash_block_size).")
    match_unit: Size | None = optional("Matches are a multiple of these tokens (cache_config.prefix_match_unit).")
    alignment: Size | None = optional(
        "A hit's length is a multiple of these tokens (KVCacheConfig.cache_hit_alignment_tokens); null before 0.32."
    )
    lookahead_tokens: Count | None = optional(
        "Tokens after a block that its hash covers (VllmConfig.num_hash_lookahead_tokens, vLLM 0.33). New in 1.1."
    )
    seed_policy: LimitedText | None = optional(
        "`default`: the same root everywhere, `environment`: from PYTHONHASHSEED, `random`: one per engine process."
    )
    engines_agree: bool | None = optional(
        "Whether all engines of this server have one `fingerprint.engine`; null where one has none. "
        "True for a single engine."
    )


class KVEvents(Wire):
    """Where the engine publishes the content of its prefix cache."""

    enabled: bool | None = optional("Whether KV events are published (kv_events_config.enable_kv_cache_events).")
    publisher: LimitedText | None = optional("The kind of publisher, such as `zmq`.")
    endpoint: LimitedText | None = optional("The configured address; each DP rank adds its number to the port.")
    topic: LimitedText | None = optional("The topic.")


class KVTransfer(Wire):
    """The connector; all null without one."""

    connector: LimitedText | None = optional("The connector (kv_transfer_config.kv_connector).")
    role: LimitedText | None = optional("`kv_producer`, `kv_consumer` or `kv_both`.")
    engine_id: LimitedText | None = optional("The engine's id for other engines.")
    compatibility: dict[str, Any] | None = optional("What connectors compare before a transfer (nixl/metadata.py).")


class ModelFiles(Wire):
    """The served files: names and revisions as requested."""

    revision: LimitedText | None = optional("As requested (model_config.revision); null is the default branch.")
    code_revision: LimitedText | None = optional("Revision of the model's own code (model_config.code_revision).")
    tokenizer: LimitedText | None = optional("Name or folder (model_config.tokenizer).")
    tokenizer_revision: LimitedText | None = optional("As requested (model_config.tokenizer_revision).")


class Chat(Wire):
    """How conversations become tokens."""

    template_digest: LimitedText | None = optional(
        "First 16 hex digits of the chat template's SHA-256; null without one."
    )
    template_content_format: LimitedText | None = optional("As requested: `auto`, `string` or `openai`.")
    tool_call_parser: LimitedText | None = optional("The parser of tool calls; null without one.")
    reasoning_parser: LimitedText | None = optional("The parser of reasoning; empty without one.")
    enable_auto_tool_choice: bool | None = optional("Whether the model may choose tools itself.")


class Adapter(Wire):
    """A loaded LoRA adapter."""

    name: LimitedText = Field(description="The name in requests.")
    path: LimitedText | None = optional(
        "Its source; since 0.32 a part of the block hash (vllm/v1/core/kv_cache_utils.py)."
    )


class Components(Wire):
    """Versions of installed packages that store and transfer KV cache, by their metadata. New in 1.3.

    Null where none is installed under a known name, such as a build from source without metadata.
    """

    lmcache: LimitedText | None = optional("Version of LMCache (distribution `lmcache`).")
    nixl: LimitedText | None = optional(
        "Version of NIXL (`nixl`, `nixl-cu12`, `nixl-cu13`, `nixl-rocm`); where these differ, each with its name."
    )
    mooncake: LimitedText | None = optional(
        "Version of Mooncake (`mooncake-transfer-engine` and its variants); where these differ, each with its name."
    )


class SetArgument(Wire):
    """An argument that the server was started with. Values are not reported: see `settings`."""

    argument: LimitedText = Field(
        description="A flag as given, in full and with dashes, with a key of its JSON value: `--block-size`, "
        "`--compilation-config.mode`; or a variable of vLLM."
    )
    source: LimitedText = Field(
        description="`command_line`, `config_file` or `environment`: the one that vLLM prefers."
    )


class FleetExtension(Wire):
    """What the provider adds to the configuration API."""

    schema_version: LimitedText = Field(description="Version of `fleet`, as `major.minor`.")
    provider_version: LimitedText | None = optional("Version of the provider.")
    vllm_version: LimitedText | None = optional("Version of vLLM (vllm.__version__).")
    components: Components | None = optional(
        "Versions of installed packages that store and transfer KV cache; null: unknown. New in 1.3."
    )
    started_at: Moment | None = optional("Start of the server's first engine process. A different value is a restart.")
    data_parallel_rank: Count | None = optional("The rank that the sections outside `fleet` describe.")
    engines: Annotated[tuple[EngineInfo, ...], Field(max_length=MAX_ENGINES)] = Field(
        default=(), description="Every engine behind this API server, by DP rank."
    )
    scheduling: Scheduling = section(Scheduling, "Input of the capacity formula.")
    prefix_hashing: PrefixHashing = section(PrefixHashing, "How blocks are hashed.")
    kv_events: KVEvents = section(KVEvents, "Where the engine publishes the content of its prefix cache.")
    kv_transfer: KVTransfer = section(KVTransfer, "The connector between engines.")
    model: ModelFiles = section(ModelFiles, "The served files.")
    chat: Chat = section(Chat, "How conversations become tokens.")
    adapters: Annotated[tuple[Adapter, ...], Field(max_length=MAX_ADAPTERS)] = Field(
        default=(), description="Loaded LoRA adapters."
    )
    set_arguments: Annotated[tuple[SetArgument, ...], Field(max_length=MAX_ARGUMENTS)] | None = optional(
        "Arguments that the server was started with; null: unknown. New in 1.2."
    )
    settings: dict[str, Any] | None = optional("With `full=true`: `VllmConfig` by path; secrets are `[redacted]`.")
    environment: dict[str, Any] | None = optional("With `full=true`: vLLM's variables, except names with KEY.")
    unavailable: Annotated[tuple[Unavailable, ...], Field(max_length=MAX_UNAVAILABLE)] = Field(
        default=(), description="Unavailable fields: each is null or empty."
    )


class ModelInfo(Wire):
    """Names, type and limits of the model."""

    served_model_names: tuple[LimitedText, ...] | None = optional(
        "All names for requests; the first is the one in metrics."
    )
    dtype: LimitedText | None = optional("The model's type (model_config.dtype), such as `bfloat16`.")
    quantization: LimitedText | None = optional(
        "The quantization method (model_config.quantization); null without one."
    )
    max_model_len: Size | None = optional("Tokens of the longest request (model_config.max_model_len).")
    max_logprobs: int | None = optional(
        "Maximum log probabilities per token (model_config.max_logprobs); -1: no limit."
    )


class KVCacheInfo(Wire):
    """The KV cache of one engine; `cache_dtype` as requested, `kv_offloading_backend` as resolved."""

    num_gpu_blocks: Count | None = optional("Blocks of this one engine, never a sum over ranks.")
    num_cpu_blocks: Count | None = optional("cache_config.num_cpu_blocks.")
    gpu_memory_utilization: float | None = optional("Share of a device's memory for vLLM (cache_config).")
    cache_dtype: LimitedText | None = optional("Requested type (cache_config.cache_dtype); `auto` follows the model.")
    enable_prefix_caching: bool | None = optional("cache_config.enable_prefix_caching.")
    prefix_caching_hash_algo: LimitedText | None = optional("cache_config.prefix_caching_hash_algo.")
    kv_offloading_enabled: bool | None = optional("Whether cache_config.kv_offloading_size is set.")
    kv_offloading_backend: LimitedText | None = optional("The resolved backend; null without offloading.")
    kv_offloading_size_gib: float | None = optional("GiB for offloaded blocks (cache_config.kv_offloading_size).")
    groups: KVCacheGroups = Field(default=(), description="The KV cache groups (vllm/v1/kv_cache_interface.py).")


class SchedulerInfo(Wire):
    """Limits of the scheduler; `max_num_partial_prefills` was removed in vLLM 0.32.0."""

    max_num_batched_tokens: Count | None = optional("Tokens per step (scheduler_config.max_num_batched_tokens).")
    max_num_seqs: Count | None = optional("Requests per step (scheduler_config.max_num_seqs).")
    max_num_partial_prefills: Count | None = optional("Prompts in partial prefill; vLLM 0.32 has no such option.")
    enable_chunked_prefill: bool | None = optional("scheduler_config.enable_chunked_prefill.")
    policy: LimitedText | None = optional("`fcfs` or `priority` (scheduler_config.policy).")


class ParallelismInfo(Wire):
    """Sizes, and the ranks of this engine."""

    tensor_parallel_size: Size | None = optional("parallel_config.tensor_parallel_size.")
    pipeline_parallel_size: Size | None = optional("parallel_config.pipeline_parallel_size.")
    data_parallel_size: Size | None = optional("DP ranks of the whole deployment, as requested.")
    data_parallel_size_local: Count | None = optional("DP ranks on this machine.")
    data_parallel_rank: Count | None = optional("The DP rank of this answer.")
    data_parallel_rank_local: Count | None = optional("Its number on this machine.")
    data_parallel_master_ip: LimitedText | None = optional("parallel_config.data_parallel_master_ip.")
    data_parallel_master_port: Count | None = optional("parallel_config.data_parallel_master_port, chosen at start.")
    data_parallel_rpc_port: Count | None = optional("parallel_config.data_parallel_rpc_port.")
    expert_parallel_enabled: bool | None = optional("parallel_config.enable_expert_parallel.")
    prefill_context_parallel_size: Size | None = optional("parallel_config.prefill_context_parallel_size.")


class SpeculativeDecodingInfo(Wire):
    """All null without speculative decoding."""

    enabled: bool | None = optional("Whether tokens are drafted.")
    method: LimitedText | None = optional("speculative_config.method, such as `ngram` or `eagle`.")
    num_speculative_tokens: Count | None = optional("Tokens per draft.")
    draft_model: LimitedText | None = optional("The draft model; null for methods without one.")


class LoRAInfo(Wire):
    """All null without LoRA."""

    enabled: bool | None = optional("Whether adapters can be loaded.")
    max_lora_rank: Count | None = optional("lora_config.max_lora_rank.")
    max_loras: Count | None = optional("Adapters in one batch (lora_config.max_loras).")
    max_cpu_loras: Count | None = optional("Adapters in memory (lora_config.max_cpu_loras).")
    lora_dtype: LimitedText | None = optional("lora_config.lora_dtype.")


class HMAInfo(Wire):
    """The hybrid KV cache manager."""

    enabled: bool | None = optional("Whether it is on (not disable_hybrid_kv_cache_manager).")


class InferenceConfigReply(Wire):
    """The whole answer. Only `model` is required; `fleet` is present where our provider answers."""

    model: ModelInfo = Field(description="Names, type and limits of the model.")
    kv_cache: KVCacheInfo = section(KVCacheInfo, "The KV cache of one engine.")
    scheduler: SchedulerInfo = section(SchedulerInfo, "Limits of the scheduler.")
    parallelism: ParallelismInfo = section(ParallelismInfo, "Sizes, and the ranks of the engine.")
    devices: Devices = Field(default=(), description="The devices of the engine.")
    speculative_decoding: SpeculativeDecodingInfo = section(SpeculativeDecodingInfo, "All null without it.")
    lora: LoRAInfo = section(LoRAInfo, "All null without it.")
    hma: HMAInfo = section(HMAInfo, "The hybrid KV cache manager.")
    fleet: FleetExtension | None = optional("What the provider adds; other servers of this API omit it.")
