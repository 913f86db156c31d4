"""Types that replies share: bounds, devices, KV cache groups."""

from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, AwareDatetime, BaseModel, ConfigDict, Discriminator, Field, Tag

MAX_SECONDS = 2**33  # the year 2242: still a time that a column of nanoseconds can hold
EARLIEST, LATEST = (datetime.fromtimestamp(seconds, timezone.utc) for seconds in (0, MAX_SECONDS))
MAX_INTEGER = 2**63 - 1  # the limit of an int64 column
MAX_TEXT = 100_000  # characters; the longest string in the captures has 266
MAX_DEVICES = 4096
MAX_GROUPS = 1024
MAX_LAYERS = 10_000

LimitedText = Annotated[str, Field(max_length=MAX_TEXT)]
Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Size = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Moment = Annotated[AwareDatetime, Field(ge=EARLIEST, le=LATEST)]


def optional(description: str) -> Any:
    """Return a field that may be missing or null."""
    return Field(default=None, description=description)


def section(model: type[BaseModel], description: str) -> Any:
    """Return a field that is an empty section where it is missing."""
    return Field(default_factory=model, description=description)


class Wire(BaseModel):
    """A foreign object: frozen, unknown fields ignored, "16" read as 16, NaN refused."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", allow_inf_nan=False, protected_namespaces=(), defer_build=True
    )


class ComputeCapability(Wire):
    """CUDA's compute capability."""

    major: Count = Field(description="The number before the point.")
    minor: Count = Field(description="The number after it.")


class DeviceReply(Wire):
    """One accelerator of the engine; compute capability is null on platforms without it."""

    rank: Count = Field(description="The worker's rank in the engine.")
    name: LimitedText = Field(description="The platform's name for it (current_platform.get_device_name).")
    total_memory_bytes: Count | None = optional("Bytes of its memory (get_device_total_memory).")
    compute_capability: ComputeCapability | None = optional("Null where the platform has none.")
    num_compute_units: Count | None = optional("Multiprocessors (num_compute_units); threads on a CPU.")


Devices = Annotated[tuple[DeviceReply, ...], Field(max_length=MAX_DEVICES)]


class Group(Wire):
    """Fields of all KV cache groups. `page_size_bytes` counts the KV heads of one device."""

    group_id: Count = Field(description="Its index in the engine's list.")
    layer_names: Annotated[tuple[LimitedText, ...], Field(max_length=MAX_LAYERS)] = Field(
        default=(), description="The model's layers that share its blocks."
    )
    layer_count: Count | None = optional("Number of layers, where names are not reported.")
    block_size: Size = Field(description="Tokens of one block.")
    page_size_bytes: Count | None = optional("Bytes of one block of one layer, with the KV heads of one device.")
    dcp_sharded: bool | None = optional(
        "Whether decode context parallelism divides its tokens (KVCacheSpec.dcp_sharded). New in 1.4."
    )
    host_resident: bool | None = optional(
        "Whether it is in host memory, in a pool of its own (KVCacheGroupSpec.host_resident). New in 1.4."
    )


class AttentionGroup(Group):
    """Fields of every kind that keeps keys and values."""

    num_kv_heads: Count | None = optional("KV heads on one device.")
    head_size: Count | None = optional("Elements of a key.")
    head_size_v: Count | None = optional("Elements of a value.")
    dtype: LimitedText | None = optional("Type of keys and values.")
    cache_dtype_str: LimitedText | None = optional("The cache's packing, where it differs from the type.")


class KeepsAllGroup(AttentionGroup):
    """Every token of a request is kept, even where the model attends to a window or chunk only."""

    sliding_window: Count | None = optional("Tokens that the model attends to, though all are kept.")
    attention_chunk_size: Count | None = optional("Tokens of the chunk that the model attends to, though all are kept.")


_KIND = Field(validation_alias=AliasChoices("spec_type", "kind"))


class FullAttentionGroup(KeepsAllGroup):
    """Every token of a request is kept, of R-SWA (reference sliding window) until the gap is evicted."""

    spec_type: Annotated[Literal["FullAttentionSpec", "full_attention", "RSWASpec"], _KIND]


class MLAAttentionGroup(KeepsAllGroup):
    """Multi-head latent attention: every token is kept, compressed. So are extracted hidden states."""

    spec_type: Annotated[Literal["MLAAttentionSpec", "mla_attention", "HiddenStateCacheSpec"], _KIND]


class SinkFullAttentionGroup(KeepsAllGroup):
    """Full attention with sink tokens."""

    spec_type: Annotated[Literal["SinkFullAttentionSpec", "sink_full_attention"], _KIND]
    sink_len: Count | None = optional("Sink tokens.")


class SlidingWindowGroup(AttentionGroup):
    """Only the last `sliding_window` tokens are kept."""

    spec_type: Annotated[
        Literal["SlidingWindowSpec", "sliding_window", "SlidingWindowMLASpec", "sliding_window_mla"], _KIND
    ]
    sliding_window: Size = Field(description="Kept tokens.")
    extra_retained_tokens: Count | None = optional("Tokens that are kept in addition to the window.")


class ChunkedLocalAttentionGroup(AttentionGroup):
    """Only the current chunk of `attention_chunk_size` tokens is kept."""

    spec_type: Annotated[Literal["ChunkedLocalAttentionSpec", "chunked_local_attention"], _KIND]
    attention_chunk_size: Size = Field(description="Tokens of one chunk.")


class CrossAttentionGroup(AttentionGroup):
    """Keys and values of the encoder's output."""

    spec_type: Annotated[Literal["CrossAttentionSpec", "cross_attention"], _KIND]


class CircularBufferGroup(AttentionGroup):
    """One block per request, with the keys of the tokens that are not compressed yet."""

    spec_type: Annotated[Literal["CircularBufferSpec"], _KIND]


class EncoderOnlyAttentionGroup(AttentionGroup):
    """Nothing is kept."""

    spec_type: Annotated[Literal["EncoderOnlyAttentionSpec", "encoder_only_attention"], _KIND]


class MambaGroup(Group):
    """A state of fixed size instead of tokens."""

    spec_type: Annotated[Literal["MambaSpec", "mamba"], _KIND]
    shapes: tuple[tuple[Count, ...], ...] = Field(default=(), description="Shape of each state.")
    dtypes: tuple[LimitedText, ...] = Field(default=(), description="Type of each state.")
    mamba_type: LimitedText | None = optional("The kind of state space model.")
    mamba_cache_mode: LimitedText | None = optional("`none` or `align` (cache_config.mamba_cache_mode).")
    num_speculative_blocks: Count | None = optional("Blocks for drafted tokens.")
    num_prefill_checkpoint_blocks: Count | None = optional("Blocks for checkpoints of a prompt.")


class OtherGroup(AttentionGroup):
    """An unknown kind: kept, counted and shown; its tokens are never derived."""

    spec_type: Annotated[LimitedText, _KIND]
    sliding_window: Count | None = optional("Kept tokens, where the kind has a window.")


_MODELS = (
    *(FullAttentionGroup, MLAAttentionGroup, SinkFullAttentionGroup, SlidingWindowGroup, ChunkedLocalAttentionGroup),
    *(CrossAttentionGroup, CircularBufferGroup, EncoderOnlyAttentionGroup, MambaGroup),
)
# `spec_type` is the configuration API's (vllm-project/vllm#38149), `kind` the public plugins' (llm-d-api-extensions).
KNOWN = {
    tag: model.__name__
    for model in _MODELS
    for tag in model.model_fields["spec_type"].annotation.__args__  # type: ignore[union-attr]
}


def _model_of(value: Any) -> str:
    if isinstance(value, Group):
        return type(value).__name__
    spec_type = value.get("spec_type", value.get("kind")) if isinstance(value, dict) else None
    return KNOWN.get(spec_type, "OtherGroup") if isinstance(spec_type, str) else "OtherGroup"


KVCacheGroupReply = Annotated[
    Annotated[FullAttentionGroup, Tag("FullAttentionGroup")]
    | Annotated[MLAAttentionGroup, Tag("MLAAttentionGroup")]
    | Annotated[SinkFullAttentionGroup, Tag("SinkFullAttentionGroup")]
    | Annotated[SlidingWindowGroup, Tag("SlidingWindowGroup")]
    | Annotated[ChunkedLocalAttentionGroup, Tag("ChunkedLocalAttentionGroup")]
    | Annotated[CrossAttentionGroup, Tag("CrossAttentionGroup")]
    | Annotated[CircularBufferGroup, Tag("CircularBufferGroup")]
    | Annotated[EncoderOnlyAttentionGroup, Tag("EncoderOnlyAttentionGroup")]
    | Annotated[MambaGroup, Tag("MambaGroup")]
    | Annotated[OtherGroup, Tag("OtherGroup")],
    Discriminator(_model_of),
]
KVCacheGroups = Annotated[tuple[KVCacheGroupReply, ...], Field(max_length=MAX_GROUPS)]


def kinds_of(*models: type[Group]) -> frozenset[str]:
    """Return every `spec_type` and `kind` of these models."""
    names = {model.__name__ for model in models}
    return frozenset(tag for tag, name in KNOWN.items() if name in names)
