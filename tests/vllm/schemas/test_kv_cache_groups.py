"""KV cache groups: every kind that is known, kinds that are not, and sizes that nobody can mean."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from dashboard.vllm.schemas.types import (
    ChunkedLocalAttentionGroup,
    CrossAttentionGroup,
    FullAttentionGroup,
    KVCacheGroupReply,
    KVCacheGroups,
    MambaGroup,
    MLAAttentionGroup,
    OtherGroup,
    SinkFullAttentionGroup,
    SlidingWindowGroup,
)

ONE: TypeAdapter[Any] = TypeAdapter(KVCacheGroupReply)
ALL: TypeAdapter[Any] = TypeAdapter(KVCacheGroups)
ATTENTION = {"group_id": 0, "layer_names": ["a", "b"], "block_size": 16, "page_size_bytes": 4096, "head_size": 64}
MORE: dict[Any, dict[str, Any]] = {
    SlidingWindowGroup: {"sliding_window": 512},
    ChunkedLocalAttentionGroup: {"attention_chunk_size": 256},
    SinkFullAttentionGroup: {"sink_len": 4},
    MambaGroup: {"shapes": [[4, 8], [16]], "mamba_cache_mode": "align", "num_speculative_blocks": 2},
}
KINDS = [
    ("FullAttentionSpec", "full_attention", FullAttentionGroup),
    ("MLAAttentionSpec", "mla_attention", MLAAttentionGroup),
    ("SlidingWindowSpec", "sliding_window", SlidingWindowGroup),
    ("ChunkedLocalAttentionSpec", "chunked_local_attention", ChunkedLocalAttentionGroup),
    ("MambaSpec", "mamba", MambaGroup),
    ("CrossAttentionSpec", "cross_attention", CrossAttentionGroup),
    ("SinkFullAttentionSpec", "sink_full_attention", SinkFullAttentionGroup),
]


def group(**more: Any) -> Any:
    return ONE.validate_python({**ATTENTION, **more})


@pytest.mark.parametrize(("spec_type", "kind", "model"), KINDS)
def test_each_kind_is_read_under_both_of_its_names(spec_type: str, kind: str, model: type) -> None:
    more = MORE.get(model, {})

    assert type(group(spec_type=spec_type, **more)) is model
    assert type(group(kind=kind, **more)) is model
    assert group(kind=kind, **more).spec_type == kind


@pytest.mark.parametrize(
    "kind", ["encoder_only_attention", "sliding_window_mla", "unknown", "RSWASpec", "HiddenStateCacheSpec", "<script>"]
)
def test_an_unknown_kind_is_kept_under_its_own_name(kind: str) -> None:
    kept = group(kind=kind, sliding_window=128)

    assert isinstance(kept, OtherGroup)
    assert (kept.spec_type, kept.sliding_window, kept.block_size) == (kind, 128, 16)


@pytest.mark.parametrize("told", [5, "full_attention", None, []])
def test_what_is_no_object_is_no_group(told: object) -> None:
    with pytest.raises(ValidationError):
        ONE.validate_python(told)


def test_a_group_that_was_read_before_is_taken_as_it_is() -> None:
    read = group(kind="mamba")

    assert ONE.validate_python(read) is read


@pytest.mark.parametrize("size", [0, -16, 2**63, 2**70, float("nan"), float("inf"), 16.5, "sixteen", None, [16]])
def test_a_block_size_that_no_server_can_mean_is_refused(size: object) -> None:
    with pytest.raises(ValidationError):
        group(spec_type="FullAttentionSpec", block_size=size)


def test_a_sliding_window_needs_its_window_and_a_chunked_one_its_chunk() -> None:
    for kind in ("SlidingWindowSpec", "chunked_local_attention"):
        with pytest.raises(ValidationError):
            group(kind=kind)


def test_more_groups_or_layers_than_any_model_has_are_refused() -> None:
    told = {**ATTENTION, "kind": "full_attention"}

    assert len(ALL.validate_python([told] * 1024)) == 1024
    with pytest.raises(ValidationError):
        ALL.validate_python([told] * 1025)
    with pytest.raises(ValidationError):
        group(kind="full_attention", layer_names=["x"] * 10_001)
