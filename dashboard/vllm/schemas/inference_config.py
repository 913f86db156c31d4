"""GET /inference/v1/config and /v1/config: the configuration API (vllm-project/vllm#38147, #38149).

`GET /v1/server/config` answers with the same sections but devices and the runtime part of `kv_cache`, which
`GET /v1/server/kv-cache` gives. A field that a version lacks may be missing or null.
"""

from pydantic import Field

from dashboard.vllm.schemas.base import Count, Size, Text, Wire
from dashboard.vllm.schemas.devices import Devices
from dashboard.vllm.schemas.fleet_extension import FleetExtension
from dashboard.vllm.schemas.kv_cache_groups import KVCacheGroups


class ModelInfo(Wire):
    """Names, type and limits of the model."""

    served_model_names: tuple[Text, ...] | None = Field(
        default=None, description="All names that requests may use; the first is the one in metrics."
    )
    dtype: Text | None = Field(default=None, description="The model's type (model_config.dtype), such as `bfloat16`.")
    quantization: Text | None = Field(
        default=None, description="The quantization method (model_config.quantization); null without one."
    )
    max_model_len: Size | None = Field(
        default=None, description="Tokens of the longest request (model_config.max_model_len)."
    )
    max_logprobs: int | None = Field(
        default=None, description="The most log probabilities of a token (model_config.max_logprobs); -1 is no limit."
    )


class KVCacheInfo(Wire):
    """The KV cache of one engine; `cache_dtype` as requested, `kv_offloading_backend` as in force."""

    num_gpu_blocks: Count | None = Field(default=None, description="Blocks of this one engine, never a sum over ranks.")
    num_cpu_blocks: Count | None = Field(default=None, description="cache_config.num_cpu_blocks.")
    gpu_memory_utilization: float | None = Field(
        default=None, description="Share of a device's memory that vLLM may use (cache_config.gpu_memory_utilization)."
    )
    cache_dtype: Text | None = Field(
        default=None,
        description="The type of keys and values as asked for (cache_config.cache_dtype); `auto` follows the model.",
    )
    enable_prefix_caching: bool | None = Field(default=None, description="cache_config.enable_prefix_caching.")
    prefix_caching_hash_algo: Text | None = Field(default=None, description="cache_config.prefix_caching_hash_algo.")
    kv_offloading_enabled: bool | None = Field(
        default=None, description="Whether blocks are offloaded (cache_config.kv_offloading_size is set)."
    )
    kv_offloading_backend: Text | None = Field(
        default=None, description="The backend in force; null where nothing is offloaded."
    )
    kv_offloading_size_gib: float | None = Field(
        default=None, description="GiB for offloaded blocks (cache_config.kv_offloading_size)."
    )
    groups: KVCacheGroups = Field(default=(), description="The KV cache groups (vllm/v1/kv_cache_interface.py).")


class SchedulerInfo(Wire):
    """Limits of the scheduler; `max_num_partial_prefills` is gone in vLLM 0.32.0."""

    max_num_batched_tokens: Count | None = Field(
        default=None, description="Tokens of one step (scheduler_config.max_num_batched_tokens)."
    )
    max_num_seqs: Count | None = Field(
        default=None, description="Requests of one step (scheduler_config.max_num_seqs)."
    )
    max_num_partial_prefills: Count | None = Field(
        default=None, description="Prompts that are read in parts at once; vLLM 0.32 has no such option."
    )
    enable_chunked_prefill: bool | None = Field(
        default=None, description="Whether prompts are read in parts (scheduler_config.enable_chunked_prefill)."
    )
    policy: Text | None = Field(default=None, description="`fcfs` or `priority` (scheduler_config.policy).")


class ParallelismInfo(Wire):
    """Sizes, and where this engine stands in them."""

    tensor_parallel_size: Size | None = Field(default=None, description="parallel_config.tensor_parallel_size.")
    pipeline_parallel_size: Size | None = Field(default=None, description="parallel_config.pipeline_parallel_size.")
    data_parallel_size: Size | None = Field(default=None, description="DP ranks of the whole deployment, as asked for.")
    data_parallel_size_local: Count | None = Field(default=None, description="DP ranks on this machine.")
    data_parallel_rank: Count | None = Field(default=None, description="The rank that this answer is for.")
    data_parallel_rank_local: Count | None = Field(default=None, description="Its number on this machine.")
    data_parallel_master_ip: Text | None = Field(default=None, description="parallel_config.data_parallel_master_ip.")
    data_parallel_master_port: Count | None = Field(
        default=None, description="parallel_config.data_parallel_master_port, chosen at start."
    )
    data_parallel_rpc_port: Count | None = Field(default=None, description="parallel_config.data_parallel_rpc_port.")
    expert_parallel_enabled: bool | None = Field(default=None, description="parallel_config.enable_expert_parallel.")
    prefill_context_parallel_size: Size | None = Field(
        default=None, description="parallel_config.prefill_context_parallel_size."
    )


class SpeculativeDecodingInfo(Wire):
    """Null throughout when it is off."""

    enabled: bool | None = Field(default=None, description="Whether tokens are drafted.")
    method: Text | None = Field(default=None, description="speculative_config.method, such as `ngram` or `eagle`.")
    num_speculative_tokens: Count | None = Field(default=None, description="Tokens drafted at once.")
    draft_model: Text | None = Field(default=None, description="The drafting model; null for methods without one.")


class LoRAInfo(Wire):
    """Null throughout when it is off."""

    enabled: bool | None = Field(default=None, description="Whether adapters can be loaded.")
    max_lora_rank: Count | None = Field(default=None, description="lora_config.max_lora_rank.")
    max_loras: Count | None = Field(default=None, description="Adapters in one batch (lora_config.max_loras).")
    max_cpu_loras: Count | None = Field(
        default=None, description="Adapters kept in memory (lora_config.max_cpu_loras)."
    )
    lora_dtype: Text | None = Field(default=None, description="lora_config.lora_dtype.")


class HMAInfo(Wire):
    """Whether the hybrid KV cache manager is on."""

    enabled: bool | None = Field(
        default=None,
        description="Whether the hybrid KV cache manager is on (not disable_hybrid_kv_cache_manager).",
    )


class InferenceConfigReply(Wire):
    """The whole answer. `model` is what makes it one; the other sections may be missing.

    `fleet` is there where our provider answers.
    """

    model: ModelInfo = Field(description="Names, type and limits of the model.")
    kv_cache: KVCacheInfo = Field(default_factory=KVCacheInfo, description="The KV cache of one engine.")
    scheduler: SchedulerInfo = Field(default_factory=SchedulerInfo, description="Limits of the scheduler.")
    parallelism: ParallelismInfo = Field(
        default_factory=ParallelismInfo, description="Sizes, and where the engine stands in them."
    )
    devices: Devices = Field(default=(), description="The devices of the engine.")
    speculative_decoding: SpeculativeDecodingInfo = Field(
        default_factory=SpeculativeDecodingInfo, description="Null throughout when it is off."
    )
    lora: LoRAInfo = Field(default_factory=LoRAInfo, description="Null throughout when it is off.")
    hma: HMAInfo = Field(default_factory=HMAInfo, description="The hybrid KV cache manager.")
    fleet: FleetExtension | None = Field(
        default=None, description="What the provider adds; other servers of this API do not have it."
    )
