"""Reading foreign objects: what cannot be had is null and named; what JSON cannot hold becomes what it can."""

import enum
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.provider.gathering import MISSING, Gathering, at, clean, found, plain
from dashboard.vllm.schemas.inference_config import MAX_UNAVAILABLE
from dashboard.vllm.schemas.types import Text
from tests.provider.engines import broken, thing
from tests.provider.vllm_modules import Dtype, MambaAttentionBackendEnum
from tests.strategies import json_values


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
def test_values_of_vllm_become_what_json_can_hold(value: Any, expected: Any) -> None:
    assert plain(value) == expected


@given(json_values)
def test_what_json_can_hold_stays(value: Any) -> None:
    assert plain(value) == value


def test_an_attribute_that_is_not_there_is_named_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    gathering = Gathering()

    assert gathering.take("a.b", lambda: at(thing("Config"), "section.option"), int) is None
    assert gathering.unavailable == [{"field": "a.b", "reason": "this vLLM does not have it"}]
    assert not caplog.records


def test_what_raises_is_named_by_the_kind_of_error_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    gathering, config = Gathering(), thing("Config")
    broken(config, "option")

    assert gathering.take("a.b", lambda: config.option, int) is None
    assert gathering.unavailable == [{"field": "a.b", "reason": "reading it raised RuntimeError"}]
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.WARNING, "a.b could not be read")
    ]


@pytest.mark.parametrize("value", ["16", 16.0, True, None, float("nan"), b"16"], ids=range(6))
def test_a_value_of_another_type_is_null_and_named(value: Any) -> None:
    gathering = Gathering()

    assert gathering.take("a.b", lambda: value, int) is None
    assert gathering.unavailable == [{"field": "a.b", "reason": "its value has another type, or a size that cannot be"}]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")], ids=str)
def test_a_number_that_json_has_no_word_for_is_null(value: float) -> None:
    assert Gathering().take("a.b", lambda: value, float | None) is None


def test_what_is_taken_holds_no_secret() -> None:
    assert Gathering().take("a.b", lambda: "tcp://bob:SESAME@kv", Text) == "tcp://[redacted]@kv"


def test_however_much_is_missing_the_list_ends() -> None:
    gathering = Gathering()
    for number in range(MAX_UNAVAILABLE + 5):
        gathering.lack(f"field {number}", "because")

    assert len(gathering.unavailable) == MAX_UNAVAILABLE


def test_what_cannot_be_found_is_missing_and_none_is_a_value() -> None:
    config = thing("Config", option=None, section=thing("Section", option=3))
    broken(config, "bad")

    assert found(config, "option") is None
    assert found(config, "section.option") == 3
    assert found(config, "bad") is found(config, "nothing") is found(config, "option.below") is MISSING


@given(st.text())
def test_a_clean_text_can_be_sent(text: str) -> None:
    told = clean(text)

    assert told.encode().decode() == told
    assert clean(told) == told
