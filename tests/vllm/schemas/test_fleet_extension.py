"""The extension of our provider: read whole, in part, and with what nobody can mean."""

from typing import Any

import pytest
from pydantic import ValidationError

from dashboard.vllm.schemas.inference_config import MAX_ENGINES, FleetExtension, InferenceConfigReply
from tests.captured import Capture, capture, captures, has_python_api
from tests.provider_answers import provider_answer

LEAST: dict[str, Any] = {"schema_version": "1.0"}


def planted(**fields: Any) -> dict[str, Any]:
    return {**provider_answer(capture("llama"))["fleet"], **fields}


@pytest.mark.parametrize("full", [True, False], ids=["full", "brief"])
@pytest.mark.parametrize("server", captures(has_python_api))
def test_every_answer_of_the_provider_is_read_whole(server: Capture, *, full: bool) -> None:
    told = provider_answer(server, full=full)

    read = InferenceConfigReply.model_validate(told).model_dump(mode="json", exclude_unset=True)

    assert read == told


def test_all_but_the_version_of_the_schema_may_be_missing() -> None:
    read = FleetExtension.model_validate(LEAST)

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
    ],
    ids=str,
)
def test_what_no_provider_can_mean_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FleetExtension.model_validate(planted(**fields))


@pytest.mark.parametrize("time", ["2026-03-02T09:00:00", "9999-12-31T00:00:00Z", "1969-12-31T00:00:00Z", -1, 2**33 + 1])
def test_a_start_without_a_zone_or_beyond_what_a_column_of_times_holds_is_refused(time: object) -> None:
    with pytest.raises(ValidationError):
        FleetExtension.model_validate(planted(started_at=time))
