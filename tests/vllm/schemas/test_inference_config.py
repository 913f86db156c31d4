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


@pytest.mark.parametrize("number", [-1, 2**63, 2**70, float("nan"), 0.5, "many", {}])
def test_a_number_of_blocks_that_no_server_can_mean_is_refused(number: object) -> None:
    with pytest.raises(ValidationError):
        InferenceConfigReply.model_validate(planted("kv_cache", num_gpu_blocks=number))


def test_more_devices_than_any_engine_has_are_refused() -> None:
    told = {**capture("llama").json(INFERENCE_CONFIG), "devices": [{"rank": 0, "name": "x"}] * 4097}

    with pytest.raises(ValidationError):
        InferenceConfigReply.model_validate(told)


def test_a_text_longer_than_any_setting_is_refused() -> None:
    with pytest.raises(ValidationError):
        InferenceConfigReply.model_validate(planted("model", dtype="x" * 100_001))
