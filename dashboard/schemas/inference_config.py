"""GET /inference/v1/config and /v1/config: the configuration API (vllm-project/vllm#38147, #38149).

`GET /v1/server/config` answers with the same sections but devices and the runtime part of `kv_cache`, which
`GET /v1/server/kv-cache` gives. A field that a version lacks may be missing or null.
"""

from __future__ import annotations

from pydantic import Field

from dashboard.schemas.base import Count, Size, Text, Wire
from dashboard.schemas.devices import Devices
from dashboard.schemas.fleet_extension import FleetExtension
from dashboard.schemas.kv_cache_groups import KVCacheGroups


class ModelInfo(Wire):
    """Names, type and limits of the model."""

    served_model_names: tuple[Text, ...] | None = None
    dtype: Text | None = None
    quantization: Text | None = None
    max_model_len: Size | None = None
    max_logprobs: int | None = None


class KVCacheInfo(Wire):
    """The KV cache of one engine; `cache_dtype` as requested, `kv_offloading_backend` as in force."""

    num_gpu_blocks: Count | None = None
    num_cpu_blocks: Count | None = None
    gpu_memory_utilization: float | None = None
    cache_dtype: Text | None = None
    enable_prefix_caching: bool | None = None
    prefix_caching_hash_algo: Text | None = None
    kv_offloading_enabled: bool | None = None
    kv_offloading_backend: Text | None = None
    kv_offloading_size_gib: float | None = None
    groups: KVCacheGroups = ()


class SchedulerInfo(Wire):
    """Limits of the scheduler; `max_num_partial_prefills` is gone in vLLM 0.32.0."""

    max_num_batched_tokens: Count | None = None
    max_num_seqs: Count | None = None
    max_num_partial_prefills: Count | None = None
    enable_chunked_prefill: bool | None = None
    policy: Text | None = None


class ParallelismInfo(Wire):
    """Sizes, and where this engine stands in them."""

    tensor_parallel_size: Size | None = None
    pipeline_parallel_size: Size | None = None
    data_parallel_size: Size | None = None
    data_parallel_size_local: Count | None = None
    data_parallel_rank: Count | None = None
    data_parallel_rank_local: Count | None = None
    data_parallel_master_ip: Text | None = None
    data_parallel_master_port: Count | None = None
    data_parallel_rpc_port: Count | None = None
    expert_parallel_enabled: bool | None = None
    prefill_context_parallel_size: Size | None = None


class SpeculativeDecodingInfo(Wire):
    """Null throughout when it is off."""

    enabled: bool | None = None
    method: Text | None = None
    num_speculative_tokens: Count | None = None
    draft_model: Text | None = None


class LoRAInfo(Wire):
    """Null throughout when it is off."""

    enabled: bool | None = None
    max_lora_rank: Count | None = None
    max_loras: Count | None = None
    max_cpu_loras: Count | None = None
    lora_dtype: Text | None = None


class HMAInfo(Wire):
    """Whether the hybrid KV cache manager is on."""

    enabled: bool | None = None


class InferenceConfigReply(Wire):
    """The whole answer. `model` is what makes it one; the other sections may be missing.

    `fleet` is there where our provider answers.
    """

    model: ModelInfo
    kv_cache: KVCacheInfo = Field(default_factory=KVCacheInfo)
    scheduler: SchedulerInfo = Field(default_factory=SchedulerInfo)
    parallelism: ParallelismInfo = Field(default_factory=ParallelismInfo)
    devices: Devices = ()
    speculative_decoding: SpeculativeDecodingInfo = Field(default_factory=SpeculativeDecodingInfo)
    lora: LoRAInfo = Field(default_factory=LoRAInfo)
    hma: HMAInfo = Field(default_factory=HMAInfo)
    fleet: FleetExtension | None = None
