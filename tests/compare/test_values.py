"""Values of a baseline compare with reported ones however they are spelled."""

import pytest
from hypothesis import given

from dashboard.compare.baseline import (
    expected_value,
    is_agreed,
    is_tolerated,
    nearest_value,
    read_scalar,
    tolerance_text,
)
from dashboard.fleet import SettingValue, State, Tolerance
from tests.strategies import json_values
from vllm_fleet_provider.shared.spelling import canonical_text

SET_PATH = "model_config.allowed_media_domains"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16", 16),
        ("16.0", 16),
        ("0.90", 0.9),
        ("-1", -1),
        ("1e3", 1000),
        ("true", True),
        ("False", False),
        ("TRUE", True),
        *((text, None) for text in ("yes", "null", '"16"', "[1]", "NaN", "Infinity", "1e999", "", "0x10", "9" * 5000)),
        ("9" * 40, None),
    ],
)
def test_only_numbers_and_booleans_are_read_from_a_text(text: str, value: object) -> None:
    assert read_scalar(text) == value
    assert type(read_scalar(text)) is type(value)


EQUAL = [
    ("16", "16"),
    ("16", '"16"'),
    ('"16.0"', "16"),
    ('"0.90"', "0.9"),
    ('"1.10"', '"1.10"'),
    ('"True"', "true"),
    ("true", '"true"'),
    ("null", "null"),
    ('["a","16"]', '["a",16]'),
    ('{"a":[1,{"b":"2"}]}', '{"a":[1,{"b":2}]}'),
]
UNEQUAL = [
    ("16", "32"),
    ("16", '"16.0"'),
    ('"1.10"', '"1.1"'),
    ("null", '"null"'),
    ('"null"', "null"),
    ("null", "0"),
    ("1", "true"),
    ("true", "1"),
    ('"1"', "true"),
    ("[1,2]", "[2,1]"),
    ("[1]", "[1,2]"),
    ('{"a":1}', '{"b":1}'),
    ('{"a":1}', "[1]"),
    ('"a"', "[]"),
]


@pytest.mark.parametrize(("expected", "reported"), [*EQUAL, *UNEQUAL])
def test_a_value_equals_the_expected_one_in_any_spelling(expected: str, reported: str) -> None:
    assert is_agreed("a.b", expected, reported) == ((expected, reported) in EQUAL)


def test_only_sets_ignore_the_order_of_their_entries() -> None:
    assert is_agreed(SET_PATH, '["a",10]', '["10","a"]')
    assert not is_agreed("a.b", '["a","b"]', '["b","a"]')


@given(json_values)
def test_every_value_equals_itself(value: object) -> None:
    text = canonical_text(value)

    assert is_agreed("a.b", text, text)


@pytest.mark.parametrize(
    ("tolerance", "allowed", "refused"),
    [
        (Tolerance(("128", "256")), ["128", "256", '"256"'], ["64", "null", "[128]"]),
        (Tolerance(("null", '"a"')), ["null", '"a"'], ["0", '"null"']),
        (Tolerance((), 0.9, 0.95), ["0.9", "0.95", '"0.92"'], ["0.89", "0.96", "null", "true", '"a"', "[0.9]"]),
        (Tolerance((), 4, None), ["4", "1000"], ["3", '"3"']),
        (Tolerance((), None, 4), ["4", "-1"], ["5"]),
    ],
)
def test_a_tolerance_allows_its_values_and_the_ends_of_its_range(
    tolerance: Tolerance, allowed: list[str], refused: list[str]
) -> None:
    assert [each for each in allowed if not is_tolerated("a.b", tolerance, each)] == []
    assert [each for each in refused if is_tolerated("a.b", tolerance, each)] == []


@pytest.mark.parametrize(
    ("expected", "own", "value"),
    [
        ("16", "32", SettingValue("16", State.REPORTED)),
        ('"0.90"', "0.8", SettingValue("0.9", State.REPORTED)),
        ('"1.10"', '"1.20"', SettingValue('"1.10"', State.REPORTED)),
        ('"1.10"', "", SettingValue("1.1", State.REPORTED)),
        ('"a"', "1", SettingValue('"a"', State.REPORTED)),
        ("null", "1", SettingValue("null", State.NULL)),
    ],
)
def test_an_expected_value_has_the_spelling_of_the_reported_one(expected: str, own: str, value: SettingValue) -> None:
    assert expected_value(expected, own) == value


@pytest.mark.parametrize(
    ("tolerance", "reported", "nearest", "text"),
    [
        (Tolerance(("128", "256", "null")), "64", "128", "128, 256 or not set"),
        (Tolerance(('"a"',)), "64", '"a"', "a"),
        (Tolerance(tuple("12345678")), "9", "1", "1, 2, 3, 4, 5, 6 or 2 more"),
        (Tolerance((), 0.9, 0.95), "0.97", "0.95", "0.9 to 0.95"),
        (Tolerance((), 0.9, 0.95), "0.5", "0.9", "0.9 to 0.95"),
        (Tolerance((), 0.9, 0.95), "null", "0.9", "0.9 to 0.95"),
        (Tolerance((), None, 0.9500000000000001), "0.96", "0.9500000000000001", "at most 0.9500000000000001"),
        (Tolerance((), 1e16, None), "1", "10000000000000000", "at least 10000000000000000"),
        (Tolerance((), None, 4.0), "null", "4", "at most 4"),
        (Tolerance((), 0.0, None), "-1", "0", "at least 0"),
    ],
)
def test_the_nearest_of_several_allowed_values_is_proposed_and_all_are_named(
    tolerance: Tolerance, reported: str, nearest: str, text: str
) -> None:
    assert nearest_value(tolerance, reported) == SettingValue(nearest, State.REPORTED)
    assert tolerance_text(tolerance) == text
