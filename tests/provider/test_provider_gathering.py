"""Reading vLLM's objects: unavailable values are null and listed, and every value can be represented in JSON."""

import enum
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.provider.engines import broken, thing
from tests.provider.vllm_modules import Dtype, MambaAttentionBackendEnum
from tests.strategies import json_values
from vllm_fleet_provider.gathering import MISSING, Gathering, at, clean, found, plain
from vllm_fleet_provider.shared.inference_config import MAX_UNAVAILABLE
from vllm_fleet_provider.shared.types import LimitedText


class Mode(enum.Enum):
    """An enum like vLLM's."""

    NUMBER = 3
    WORD = "piecewise"
    PAIR = (1, 2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Mode.NUMBER, 3),
        (Mode.WORD, "piecewise"),
        (Mode.PAIR, "pair"),
        (MambaAttentionBackendEnum.MAMBA2, "mamba2"),
        (Dtype("torch.float16"), "float16"),
        ((1, [Dtype("torch.int8")]), [1, ["int8"]]),
        ({3, 1, 2}, ["1", "2", "3"]),
        ({1: {"a": (2,)}}, {"1": {"a": [2]}}),
        (None, None),
    ],
    ids=range(9),
)
def test_vllms_values_are_converted_to_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected


@given(json_values)
def test_json_values_are_unchanged(value: Any) -> None:
    assert plain(value) == value


NOT_THERE = "this vLLM does not have it"
WRONG_TYPE = "its value has another type, or a size that cannot be"


@pytest.mark.parametrize(
    ("value", "shape", "reason"),
    [
        *((value, int, WRONG_TYPE) for value in ("16", 16.0, True, None, float("nan"), b"16")),
        *((value, float | None, WRONG_TYPE) for value in (float("nan"), float("inf"), -float("inf"))),
        (MISSING, int, NOT_THERE),
    ],
    ids=range(10),
)
def test_a_missing_value_or_one_of_another_type_is_null_and_listed(
    value: Any, shape: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    gathering, config = Gathering(), thing("Config", **({} if value is MISSING else {"option": value}))

    assert gathering.take("a.b", lambda: at(config, "option"), shape) is None
    assert gathering.unavailable == [{"field": "a.b", "reason": reason}]
    assert not caplog.records


def test_an_error_is_listed_by_its_type_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    gathering, config = Gathering(), thing("Config")
    broken(config, "option")

    assert gathering.take("a.b", lambda: config.option, int) is None
    assert gathering.unavailable == [{"field": "a.b", "reason": "reading it raised RuntimeError"}]
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.WARNING, "a.b could not be read")
    ]


def test_values_are_redacted() -> None:
    assert Gathering().take("a.b", lambda: "tcp://bob:SESAME@kv", LimitedText) == "tcp://[redacted]@kv"


def test_the_list_of_unavailable_fields_is_bounded() -> None:
    gathering = Gathering()
    for number in range(MAX_UNAVAILABLE + 5):
        gathering.lack(f"field {number}", "because")

    assert len(gathering.unavailable) == MAX_UNAVAILABLE


def test_an_attribute_that_is_absent_or_raises_is_missing_and_none_is_a_value() -> None:
    config = thing("Config", option=None, section=thing("Section", option=3))
    broken(config, "bad")

    assert found(config, "option") is None
    assert found(config, "section.option") == 3
    assert found(config, "bad") is found(config, "nothing") is found(config, "option.below") is MISSING


@given(st.text())
def test_a_clean_text_is_valid_utf8(text: str) -> None:
    cleaned = clean(text)

    assert cleaned.encode().decode() == cleaned
    assert clean(cleaned) == cleaned
