"""The configuration API's answer: whole, in part, and with numbers that nobody can mean."""

from typing import Any

import pytest
from pydantic import ValidationError

from dashboard.vllm.schemas.inference_config import InferenceConfigReply
from tests.captured import INFERENCE_CONFIG, Capture, capture, captures


def planted(section: str, **fields: Any) -> dict[str, Any]:
    told: dict[str, Any] = capture("llama").json(INFERENCE_CONFIG)
    told[section] = {**told[section], **fields}
    return told


@pytest.mark.parametrize("server", captures(lambda each: INFERENCE_CONFIG in each.answers))
def test_every_captured_answer_is_read_whole(server: Capture) -> None:
    """No field of the captures is left out by the schema."""
    told = server.json(INFERENCE_CONFIG)

    read = InferenceConfigReply.model_validate(told).model_dump(mode="json", exclude_unset=True)

    assert read == told


def test_a_section_or_field_that_a_version_lacks_may_be_missing_or_null() -> None:
    read = InferenceConfigReply.model_validate({"model": {"dtype": None}, "kv_cache": {"num_gpu_blocks": None}})

    assert read.model.max_model_len is None
    assert read.kv_cache.groups == ()
    assert read.devices == ()
    assert read.hma.enabled is None
    assert read.lora.enabled is None


@pytest.mark.parametrize("told", [{}, {"model": None}, {"model": []}, [], "text", 5, {"detail": "Not Found"}])
def test_without_a_model_it_is_no_configuration(told: object) -> None:
    with pytest.raises(ValidationError):
        InferenceConfigReply.model_validate(told)


def test_numbers_that_came_as_text_are_numbers() -> None:
    read = InferenceConfigReply.model_validate(planted("kv_cache", num_gpu_blocks="16"))

    assert read.kv_cache.num_gpu_blocks == 16


@pytest.mark.parametrize("number", [-1, 2**63, 2**70, float("nan"), 0.5, "many", {}])
def test_a_number_of_blocks_that_no_server_can_mean_is_refused(number: object) -> None:
    with pytest.raises(ValidationError):
        InferenceConfigReply.model_validate(planted("kv_cache", num_gpu_blocks=number))


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_share_of_memory_that_is_no_number_is_refused(number: float) -> None:
    with pytest.raises(ValidationError):
        InferenceConfigReply.model_validate(planted("kv_cache", gpu_memory_utilization=number))


def test_a_device_says_its_capability_or_null() -> None:
    told = {**capture("llama").json(INFERENCE_CONFIG)}
    told["devices"] = [
        {"rank": 0, "name": "H100", "compute_capability": {"major": 9, "minor": 0}},
        {"rank": 1, "name": "cpu"},
    ]

    first, second = InferenceConfigReply.model_validate(told).devices

    assert first.compute_capability is not None
    assert (first.compute_capability.major, first.compute_capability.minor) == (9, 0)
    assert second.compute_capability is None
    assert second.total_memory_bytes is None


def test_more_devices_than_any_engine_has_are_refused() -> None:
    told = {**capture("llama").json(INFERENCE_CONFIG), "devices": [{"rank": 0, "name": "x"}] * 4097}

    with pytest.raises(ValidationError):
        InferenceConfigReply.model_validate(told)


def test_a_text_longer_than_any_setting_is_refused() -> None:
    with pytest.raises(ValidationError):
        InferenceConfigReply.model_validate(planted("model", dtype="x" * 100_001))
