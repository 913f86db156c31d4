"""GET /plugins/{llm-d,vllm}-server-introspection/{config,devices}: the public endpoint plugins.

Source: llm-d/llm-d-api-extensions. They tell neither version nor hash algorithm nor block size.
"""

from typing import Any

from pydantic import Field

from dashboard.vllm.schemas.base import Count, Size, Text, Wire
from dashboard.vllm.schemas.devices import Devices


class PluginModel(Wire):
    """Names, type and length of the model."""

    name: Text | None = None
    served_names: tuple[Text, ...] = ()
    dtype: Text | None = None
    quantization: Text | None = None
    max_model_len: Size | None = None


class PluginKVCache(Wire):
    """`dtype` is the resolved one, where `cache_config.cache_dtype` says what was requested."""

    gpu_memory_utilization: float | None = None
    dtype: Text | None = None
    enable_prefix_caching: bool | None = None


class PluginScheduler(Wire):
    """Limits of the scheduler."""

    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    enable_chunked_prefill: bool | None = None
    policy: Text | None = None


class PluginParallelism(Wire):
    """Sizes and the DP rank."""

    tensor_parallel_size: Size | None = None
    pipeline_parallel_size: Size | None = None
    data_parallel_size: Size | None = None
    data_parallel_rank: Count | None = None


class PluginFeatures(Wire):
    """On or off, without details."""

    speculative_decoding: bool | None = None
    lora: bool | None = None
    hma: bool | None = None


class PluginKVTransfer(Wire):
    """The connector of disaggregated prefill and decode."""

    kv_connector: Text | None = None
    kv_role: Text | None = None
    engine_id: Text | None = None
    extra_config: dict[str, Any] = Field(default_factory=dict)


class PluginConfigReply(Wire):
    """GET .../config."""

    model: PluginModel
    kv_cache: PluginKVCache = Field(default_factory=PluginKVCache)
    scheduler: PluginScheduler = Field(default_factory=PluginScheduler)
    parallelism: PluginParallelism = Field(default_factory=PluginParallelism)
    features: PluginFeatures = Field(default_factory=PluginFeatures)
    kv_transfer: PluginKVTransfer | None = None


class PluginDevicesReply(Wire):
    """GET .../devices."""

    devices: Devices
