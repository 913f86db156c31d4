"""Replies as pydantic models: captures are read whole, impossible values are refused."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from dashboard.vllm.endpoints import KVCacheReply
from tests.captured import INFERENCE_CONFIG, PLUGIN, capture, captures, has_python_api
from tests.provider_answers import provider_answer
from vllm_fleet_provider.shared.inference_config import MAX_ENGINES, FleetExtension, InferenceConfigReply
from vllm_fleet_provider.shared.types import (
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

BAD_COUNTS: list[Any] = [-1, 2**63, 2**70, float("nan"), 0.5, "many", {}]


def test_kv_cache_blocks_are_required_and_may_be_null() -> None:
    read = KVCacheReply.model_validate(capture("gemma3_plugin").json(f"{PLUGIN}/kv-cache"))

    assert (read.num_gpu_blocks, read.groups) == (32768, ())
    assert KVCacheReply.model_validate({"num_gpu_blocks": None}).num_gpu_blocks is None


CAPTURES = [each.values[0] for each in captures()]
CONFIGURATIONS = [
    *(each.json(INFERENCE_CONFIG) for each in CAPTURES if INFERENCE_CONFIG in each.answers),
    *(provider_answer(each, full=full) for each in CAPTURES if has_python_api(each) for full in (True, False)),
]


@pytest.mark.parametrize("answer", CONFIGURATIONS)
def test_the_schema_has_every_field_of_captures_and_of_the_provider(answer: dict[str, Any]) -> None:
    read = InferenceConfigReply.model_validate(answer).model_dump(mode="json", exclude_unset=True)

    assert read == answer


@pytest.mark.parametrize(
    ("section", "fields"),
    [
        *(("kv_cache", {"num_gpu_blocks": n}) for n in BAD_COUNTS),
        ("model", {"dtype": "x" * 100_001}),
        ("devices", [{"rank": 0, "name": "x"}] * 4097),
    ],
)
def test_an_impossible_configuration_is_refused(section: str, fields: Any) -> None:
    answer = capture("llama").json(INFERENCE_CONFIG)
    answer[section] = {**answer[section], **fields} if isinstance(fields, dict) else fields

    with pytest.raises(ValidationError):
        InferenceConfigReply.model_validate(answer)


def test_every_field_but_the_schema_version_is_optional() -> None:
    read = FleetExtension.model_validate({"schema_version": "1.0"})

    assert (read.engines, read.settings, read.started_at, read.unavailable) == ((), None, None, ())
    assert read.prefix_hashing.algorithm is None
    assert read.kv_events.publisher is None


@pytest.mark.parametrize(
    "fields",
    [
        {"schema_version": None},
        {"engines": [{}]},
        {"engines": [{"data_parallel_rank": -1}]},
        {"engines": [{"data_parallel_rank": 0, "num_gpu_blocks": 2**63}]},
        {"engines": [{"data_parallel_rank": 0, "max_concurrency": float("nan")}]},
        {"engines": [{"data_parallel_rank": 0, "max_model_len": 0}]},
        {"engines": [{"data_parallel_rank": 0, "fingerprint": "abc"}]},
        {"engines": [{"data_parallel_rank": 0}] * (MAX_ENGINES + 1)},
        {"scheduling": {"concurrent_batches": 0}},
        {"prefix_hashing": {"seed_policy": "x" * 100_001}},
        {"settings": ["cache_config"]},
        {"unavailable": [{"field": "x"}]},
        {"started_at": "2026-03-02T09:00:00"},  # without time zone
        {"started_at": "9999-12-31T00:00:00Z"},
        {"started_at": "1969-12-31T00:00:00Z"},
        {"started_at": -1},
        {"started_at": 2**33 + 1},
    ],
    ids=str,
)
def test_an_impossible_extension_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FleetExtension.model_validate({**provider_answer(capture("llama"))["fleet"], **fields})


ONE: TypeAdapter[Any] = TypeAdapter(KVCacheGroupReply)
ALL: TypeAdapter[Any] = TypeAdapter(KVCacheGroups)
FIELDS = {"group_id": 0, "layer_names": ["a", "b"], "block_size": 16, "page_size_bytes": 4096, "head_size": 64}
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


def kv_group(**more: Any) -> Any:
    return ONE.validate_python({**FIELDS, **more})


@pytest.mark.parametrize(("spec_type", "kind", "model"), KINDS)
def test_each_kind_is_read_under_both_of_its_names(spec_type: str, kind: str, model: type) -> None:
    more = MORE.get(model, {})

    assert type(kv_group(spec_type=spec_type, **more)) is model
    assert type(kv_group(kind=kind, **more)) is model
    assert kv_group(kind=kind, **more).spec_type == kind


@pytest.mark.parametrize("kind", ["unknown", "HiSparseHotSpec", "HiSparseResidentSpec", "<script>"])
def test_an_unknown_kind_is_kept_under_its_own_name(kind: str) -> None:
    kept = kv_group(kind=kind, sliding_window=128)

    assert isinstance(kept, OtherGroup)
    assert (kept.spec_type, kept.sliding_window, kept.block_size) == (kind, 128, 16)


def test_a_parsed_group_is_kept() -> None:
    read = kv_group(kind="mamba")

    assert ONE.validate_python(read) is read


@pytest.mark.parametrize(
    "value",
    [
        5,
        "full_attention",
        None,
        [],
        {**FIELDS, "kind": "SlidingWindowSpec"},  # without its window
        {**FIELDS, "kind": "chunked_local_attention"},  # without the size of a chunk
        {**FIELDS, "kind": "full_attention", "layer_names": ["x"] * 10_001},
    ],
)
def test_an_impossible_group_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        ONE.validate_python(value)


def test_the_number_of_groups_is_limited() -> None:
    value = {**FIELDS, "kind": "full_attention"}

    assert len(ALL.validate_python([value] * 1024)) == 1024
    with pytest.raises(ValidationError):
        ALL.validate_python([value] * 1025)
