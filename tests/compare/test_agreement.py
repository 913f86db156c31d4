"""How people spell a value does not decide whether a replica has it."""

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
from dashboard.vllm.canonical import canonical_text
from tests.strategies import json_values

SETS = "model_config.allowed_media_domains"


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
        ("yes", None),
        ("null", None),
        ('"16"', None),
        ("[1]", None),
        ("NaN", None),
        ("Infinity", None),
        ("1e999", None),
        ("9" * 40, None),
        ("9" * 5000, None),
        ("", None),
        ("0x10", None),
    ],
)
def test_a_text_is_read_as_a_number_or_a_boolean_or_stays_a_text(text: str, value: object) -> None:
    assert read_scalar(text) == value
    assert type(read_scalar(text)) is type(value)


@pytest.mark.parametrize(
    ("expected", "told"),
    [
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
    ],
)
def test_these_are_the_same(expected: str, told: str) -> None:
    assert is_agreed("a.b", expected, told)


@pytest.mark.parametrize(
    ("expected", "told"),
    [
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
    ],
)
def test_these_are_not(expected: str, told: str) -> None:
    assert not is_agreed("a.b", expected, told)


def test_the_order_of_a_set_means_nothing_however_its_entries_are_written() -> None:
    assert is_agreed(SETS, '["a",10]', '["10","a"]')
    assert not is_agreed("a.b", '["a","b"]', '["b","a"]')


@given(json_values)
def test_every_value_is_the_one_that_was_agreed_on_when_it_was_agreed_on(value: object) -> None:
    text = canonical_text(value)

    assert is_agreed("a.b", text, text)


@pytest.mark.parametrize(
    ("tolerance", "good", "bad"),
    [
        (Tolerance(("128", "256")), ["128", "256", '"256"'], ["64", "null", "[128]"]),
        (Tolerance(("null", '"a"')), ["null", '"a"'], ["0", '"null"']),
        (Tolerance((), 0.9, 0.95), ["0.9", "0.95", '"0.92"'], ["0.89", "0.96", "null", "true", '"a"', "[0.9]"]),
        (Tolerance((), 4, None), ["4", "1000"], ["3", '"3"']),
        (Tolerance((), None, 4), ["4", "-1"], ["5"]),
    ],
)
def test_a_tolerance_holds_its_values_and_its_ends(tolerance: Tolerance, good: list[str], bad: list[str]) -> None:
    assert [each for each in good if not is_tolerated("a.b", tolerance, each)] == []
    assert [each for each in bad if is_tolerated("a.b", tolerance, each)] == []


@pytest.mark.parametrize(
    ("expected", "own", "shown"),
    [
        ("16", "32", "16"),
        ('"0.90"', "0.8", "0.9"),
        ('"1.10"', '"1.20"', '"1.10"'),
        ('"1.10"', "", "1.1"),
        ('"a"', "1", '"a"'),
    ],
)
def test_what_was_agreed_is_shown_as_what_is_told_beside_it(expected: str, own: str, shown: str) -> None:
    assert expected_value(expected, own) == SettingValue(shown, State.REPORTED)


def test_an_option_that_should_not_be_set_is_no_value() -> None:
    assert expected_value("null", "1") == SettingValue("null", State.NULL)


@pytest.mark.parametrize(
    ("tolerance", "told", "value", "words"),
    [
        (Tolerance(("128", "256", "null")), "64", "128", "128, 256 or not set"),
        (Tolerance(('"a"',)), "64", '"a"', "a"),
        (Tolerance((), 0.9, 0.95), "0.97", "0.95", "0.9 to 0.95"),
        (Tolerance((), 0.9, 0.95), "0.5", "0.9", "0.9 to 0.95"),
        (Tolerance((), 0.9, 0.95), "null", "0.9", "0.9 to 0.95"),
        (Tolerance((), None, 0.9500000000000001), "0.96", "0.9500000000000001", "at most 0.9500000000000001"),
        (Tolerance((), 1e16, None), "1", "10000000000000000", "at least 10000000000000000"),
        (Tolerance(tuple("12345678")), "9", "1", "1, 2, 3, 4, 5, 6 or 2 more"),
        (Tolerance((), 4.0, None), "1", "4", "at least 4"),
        (Tolerance((), None, 4.0), "null", "4", "at most 4"),
        (Tolerance((), 0.0, None), "-1", "0", "at least 0"),
    ],
)
def test_of_several_values_the_nearest_is_offered_and_all_are_named(
    tolerance: Tolerance, told: str, value: str, words: str
) -> None:
    assert nearest_value(tolerance, told) == SettingValue(value, State.REPORTED)
    assert tolerance_text(tolerance) == words
