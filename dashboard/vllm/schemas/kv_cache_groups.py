"""KV cache groups as configuration endpoints tell them: a union over `spec_type`, another over `kind`.

`spec_type` is the configuration API's (vllm-project/vllm#38149), `kind` the public plugins'
(llm-d/llm-d-api-extensions). Newer kinds than these are kept under their own name.
"""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Discriminator, Field, Tag

from dashboard.vllm.schemas.base import Count, Size, Text, Wire

MAX_GROUPS = 1024
MAX_LAYERS = 10_000


class Group(Wire):
    """What all kinds share. `page_size_bytes` counts the KV heads that one device holds."""

    group_id: Count = Field(description="Its place in the engine's list.")
    layer_names: Annotated[tuple[Text, ...], Field(max_length=MAX_LAYERS)] = Field(
        default=(), description="The model's layers that share its blocks."
    )
    layer_count: Count | None = Field(default=None, description="Their number, where names are not told.")
    block_size: Size = Field(description="Tokens of one block.")
    page_size_bytes: Count | None = Field(
        default=None, description="Bytes of one block of one layer, counting the KV heads that one device holds."
    )


class AttentionGroup(Group):
    """Fields of every kind that keeps keys and values."""

    num_kv_heads: Count | None = Field(default=None, description="KV heads on one device.")
    head_size: Count | None = Field(default=None, description="Elements of a key.")
    head_size_v: Count | None = Field(default=None, description="Elements of a value.")
    dtype: Text | None = Field(default=None, description="Their type.")
    cache_dtype_str: Text | None = Field(
        default=None, description="How the cache packs them, where that is not its type."
    )


class KeepsAllGroup(AttentionGroup):
    """Every token of a request stays, even where the model itself would look at a window or chunk only."""

    sliding_window: Count | None = Field(default=None, description="Tokens that the model looks back, though all stay.")
    attention_chunk_size: Count | None = Field(
        default=None, description="Tokens of a chunk that the model looks at, though all stay."
    )


class FullAttentionGroup(KeepsAllGroup):
    """Every token of a request stays."""

    spec_type: Literal["FullAttentionSpec", "full_attention"] = Field(
        validation_alias=AliasChoices("spec_type", "kind"),
    )


class MLAAttentionGroup(KeepsAllGroup):
    """Multi-head latent attention: every token stays, compressed."""

    spec_type: Literal["MLAAttentionSpec", "mla_attention"] = Field(validation_alias=AliasChoices("spec_type", "kind"))


class SinkFullAttentionGroup(KeepsAllGroup):
    """Full attention with sink tokens."""

    spec_type: Literal["SinkFullAttentionSpec", "sink_full_attention"] = Field(
        validation_alias=AliasChoices("spec_type", "kind"),
    )
    sink_len: Count | None = Field(default=None, description="Tokens that stay as sink.")


class SlidingWindowGroup(AttentionGroup):
    """Only the last `sliding_window` tokens stay."""

    spec_type: Literal["SlidingWindowSpec", "sliding_window"] = Field(
        validation_alias=AliasChoices("spec_type", "kind"),
    )
    sliding_window: Size = Field(description="Tokens that stay.")
    extra_retained_tokens: Count | None = Field(default=None, description="Tokens that stay beside the window.")


class ChunkedLocalAttentionGroup(AttentionGroup):
    """Only the current chunk of `attention_chunk_size` tokens stays."""

    spec_type: Literal["ChunkedLocalAttentionSpec", "chunked_local_attention"] = Field(
        validation_alias=AliasChoices("spec_type", "kind"),
    )
    attention_chunk_size: Size = Field(description="Tokens of one chunk.")


class CrossAttentionGroup(AttentionGroup):
    """Keys and values of the encoder's output."""

    spec_type: Literal["CrossAttentionSpec", "cross_attention"] = Field(
        validation_alias=AliasChoices("spec_type", "kind"),
    )


class MambaGroup(Group):
    """A state of fixed size instead of tokens."""

    spec_type: Literal["MambaSpec", "mamba"] = Field(validation_alias=AliasChoices("spec_type", "kind"))
    shapes: tuple[tuple[Count, ...], ...] = Field(default=(), description="Shape of each state.")
    dtypes: tuple[Text, ...] = Field(default=(), description="Type of each state.")
    mamba_type: Text | None = Field(default=None, description="The kind of state space model.")
    mamba_cache_mode: Text | None = Field(
        default=None, description="`none` or `align` (cache_config.mamba_cache_mode)."
    )
    num_speculative_blocks: Count | None = Field(default=None, description="Blocks for drafted tokens.")
    num_prefill_checkpoint_blocks: Count | None = Field(default=None, description="Blocks for checkpoints of a prompt.")


class OtherGroup(AttentionGroup):
    """A kind that this program does not know: kept, counted and shown, its tokens never derived."""

    spec_type: Text = Field(validation_alias=AliasChoices("spec_type", "kind"))
    sliding_window: Count | None = Field(default=None, description="Tokens that stay, where the kind has a window.")


KNOWN = {
    tag: model.__name__
    for model in (
        FullAttentionGroup,
        MLAAttentionGroup,
        SinkFullAttentionGroup,
        SlidingWindowGroup,
        ChunkedLocalAttentionGroup,
        CrossAttentionGroup,
        MambaGroup,
    )
    for tag in model.model_fields["spec_type"].annotation.__args__  # type: ignore[union-attr]
}


def _tag(value: Any) -> str:
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
    | Annotated[MambaGroup, Tag("MambaGroup")]
    | Annotated[OtherGroup, Tag("OtherGroup")],
    Discriminator(_tag),
]
KVCacheGroups = Annotated[tuple[KVCacheGroupReply, ...], Field(max_length=MAX_GROUPS)]


def kinds_of(*models: type[Group]) -> frozenset[str]:
    """Return every `spec_type` and `kind` by which these models go."""
    names = {model.__name__ for model in models}
    return frozenset(tag for tag, name in KNOWN.items() if name in names)
