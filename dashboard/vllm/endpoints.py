"""Replies of vLLM's own endpoints and of the public plugins."""

from typing import Annotated, Any

from pydantic import Field, TypeAdapter, field_validator

from vllm_fleet_provider.shared.inference_config import KVCacheInfo, ParallelismInfo, SchedulerInfo
from vllm_fleet_provider.shared.redaction import MARKER
from vllm_fleet_provider.shared.types import Count, Devices, KVCacheGroups, LimitedText, Size, Wire


class VersionReply(Wire):
    """`{"version": "0.32.0"}`; source: vllm/entrypoints/serve/instrumentator/basic.py.

    `rust_frontend_version` is reported by the Rust frontend alone (vLLM 0.33, VLLM_USE_RUST_FRONTEND=1).
    """

    version: LimitedText
    rust_frontend_version: LimitedText | None = None


MAX_MODELS = 10_000


class ServedModel(Wire):
    """One card. `parent` is set on a LoRA adapter; `root` is the path or id of the model or adapter.

    `owned_by` names the software: `vllm`.
    """

    id: LimitedText
    owned_by: LimitedText | None = None
    root: LimitedText | None = None
    parent: LimitedText | None = None
    max_model_len: Size | None = None


class ServedModelsReply(Wire):
    """The first card without a parent is the name that metrics carry."""

    data: Annotated[tuple[ServedModel, ...], Field(max_length=MAX_MODELS)]


class ServerInfoReply(Wire):
    """`vllm_config` by section, `vllm_env` by variable. vLLM 0.12.0 has no `vllm_env`.

    `system_env` is never read: clocks, host details, and a package list that is filtered by name and contains neither
    NIXL nor LMCache nor Mooncake (vllm/collect_env.py, DEFAULT_PIP_PATTERNS).
    """

    vllm_config: dict[str, Any]
    vllm_env: dict[str, Any] = Field(default_factory=dict)

    @field_validator("vllm_config", mode="before")
    @classmethod
    def _refuse_text(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("this version answers with text; only the JSON form is read")  # noqa: TRY004
        return value


MAX_RANKS = 4096


class KVEventSource(Wire):
    """One DP rank's publisher. `endpoint` is the bound one: its port counts up with the rank."""

    enable_kv_cache_events: bool | None = None
    publisher: LimitedText | None = None
    endpoint: LimitedText | None = None
    replay_endpoint: LimitedText | None = None
    buffer_steps: Count | None = None
    hwm: Count | None = None
    max_queue_size: Count | None = None
    topic: LimitedText | None = None


# DP rank to publisher; `{}` when nothing is published: events are off, or their publisher is `null`.
KV_EVENT_SOURCES = TypeAdapter(Annotated[dict[Count, KVEventSource], Field(max_length=MAX_RANKS)])


class GrpcServerInfo(Wire):
    """vllm.Control/GetServerInfo (control.proto). What is not on the wire is not reported.

    `world_size` of `parallelism` is that of one engine.
    """

    engine_version: LimitedText
    instance_id: LimitedText | None = None
    parallelism: dict[str, Size] = Field(default_factory=dict)
    max_model_len: Size | None = None
    kv_block_size: Size | None = None
    total_kv_blocks: Size | None = None
    max_running_requests: Size | None = None
    max_batched_tokens: Size | None = None
    max_loras: Size | None = None
    effective_attention_block_size: Size | None = None


class GrpcModelInfo(Wire):
    """vllm.Control/GetModelInfo. False is not on the wire."""

    model_id: LimitedText
    served_model_name: LimitedText
    served_model_aliases: Annotated[tuple[LimitedText, ...], Field(max_length=MAX_MODELS)] = ()
    supports_lora: bool = False


class GrpcLora(Wire):
    """A LoRA adapter that is loaded."""

    lora_name: LimitedText
    source_path: LimitedText | None = None


class GrpcLoras(Wire):
    """vllm.Control/ListLoras."""

    adapters: Annotated[tuple[GrpcLora, ...], Field(max_length=MAX_MODELS)] = ()


class GrpcKVEventSource(KVEventSource):
    """One DP rank's publisher. Its endpoints, the bound ones, are not in control.proto."""

    transport: LimitedText
    data_parallel_rank: Count = 0


class GrpcKVEventSources(Wire):
    """vllm.Control/GetKvEventSources: none where events are off, or their publisher is not ZeroMQ."""

    sources: Annotated[tuple[GrpcKVEventSource, ...], Field(max_length=MAX_RANKS)] = ()


class KVCacheReply(Wire):
    """KV cache of one engine. The plugins' tokens are blocks x block_size: too much for hybrid models."""

    num_gpu_blocks: Count | None
    num_cpu_blocks: Count | None = None
    kv_cache_size_tokens: Count | None = None
    max_concurrency: float | None = None
    groups: KVCacheGroups = ()


class PluginModel(Wire):
    """Names, type and length of the model."""

    name: LimitedText | None = None
    served_names: tuple[LimitedText, ...] = ()
    dtype: LimitedText | None = None
    quantization: LimitedText | None = None
    max_model_len: Size | None = None


class PluginFeatures(Wire):
    """On or off, without details."""

    speculative_decoding: bool | None = None
    lora: bool | None = None
    hma: bool | None = None


class PluginKVTransfer(Wire):
    """The connector of disaggregated prefill and decode. The newest form has all of vLLM's fields.

    There the values of `extra_config` are `<redacted>`, unless the operator shows them. The side channel is null for
    other connectors than NIXL.
    """

    kv_connector: LimitedText | None = None
    kv_role: LimitedText | None = None
    kv_connector_module_path: LimitedText | None = None
    kv_buffer_device: LimitedText | None = None
    kv_buffer_size: float | None = None
    kv_ip: LimitedText | None = None
    kv_port: Count | None = None
    kv_parallel_size: Count | None = None
    kv_rank: Count | None = None
    engine_id: LimitedText | None = None
    extra_config: dict[str, Any] = Field(default_factory=dict)
    nixl_side_channel_host: LimitedText | None = None
    nixl_side_channel_port: Count | None = None

    @field_validator("extra_config")
    @classmethod
    def _redacted(cls, value: dict[str, Any]) -> dict[str, Any]:
        return {key: MARKER if each == "<redacted>" else each for key, each in value.items()}


class PluginConfigReply(Wire):
    """GET .../config. Sections with the names of the configuration API have a part of its fields."""

    model: PluginModel
    kv_cache: KVCacheInfo = Field(default_factory=KVCacheInfo)
    scheduler: SchedulerInfo = Field(default_factory=SchedulerInfo)
    parallelism: ParallelismInfo = Field(default_factory=ParallelismInfo)
    features: PluginFeatures = Field(default_factory=PluginFeatures)
    kv_transfer: PluginKVTransfer | None = None


class PluginDevicesReply(Wire):
    """GET .../devices."""

    devices: Devices
