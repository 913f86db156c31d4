"""Numbers, times and settings as text for people."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet import Basis, State, formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"sha256_cbor"', "sha256_cbor"),
        ('"16"', '"16"'),
        ("16", "16"),
        ('"true"', '"true"'),
        ('"null"', '"null"'),
        ('""', '""'),
        ("null", "null"),
        ("64", "64"),
        ("[1,2,3]", "[1,2,3]"),
        (json.dumps(list(range(1, 52))), "[1, 2, 3, … 51 values]"),
        ('"two\\nlines"', "two lines"),
    ],
)
def test_a_value_is_written_on_one_line_and_a_string_never_looks_like_a_number(value: str, text: str) -> None:
    assert formatting.setting_text(value, State.NULL if value == "null" else State.REPORTED) == text


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (State.ABSENT, "not reported"),
        (State.UNSUPPORTED, "unsupported"),
        (State.REDACTED, "redacted"),
        (State.UNKNOWN, "not known"),
    ],
)
def test_a_state_without_a_value_is_written_in_words(state: State, text: str) -> None:
    assert formatting.setting_text("null", state) == text
    assert formatting.whole_text("null", state) == text


def test_a_long_text_is_cut_in_the_middle_unless_it_is_asked_for_whole() -> None:
    text = "a" * 60 + "z" * 60

    cut = formatting.setting_text(json.dumps(text), State.REPORTED)
    assert (len(cut), cut[0], cut[-1]) == (formatting.LONG_TEXT, "a", "z")
    assert "…" in cut
    assert formatting.whole_text(json.dumps(text), State.REPORTED) == text


@given(st.text())
def test_every_text_becomes_one_line(text: str) -> None:
    line = formatting.setting_text(json.dumps(text), State.REPORTED)

    assert line.isprintable()
    assert len(line) <= max(formatting.LONG_TEXT, len(json.dumps(text)))


@pytest.mark.parametrize(
    ("number", "basis", "text"),
    [
        (67_000_000, Basis.REPORTED, "67.0 M"),
        (4_400_000, Basis.ASSUMED, "≤ 4.4 M"),
        (999, Basis.DERIVED, "999"),
        (1_200, Basis.REPORTED, "1.2 k"),
        (None, Basis.REPORTED, "not known"),
        (1, Basis.UNKNOWN, "not known"),
    ],
)
def test_a_count_has_its_scale_and_marks_an_upper_bound(number: int | None, basis: Basis, text: str) -> None:
    assert formatting.short(number, basis) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(8, "8 s ago"), (-3, "0 s ago"), (59.9, "60 s ago"), (60, "1 min ago"), (7_200, "2 h ago"), (180_000, "2 d ago")],
)
def test_an_age_has_the_largest_unit_and_is_never_negative(seconds: float, text: str) -> None:
    assert formatting.age(seconds) == text


@given(st.text(min_size=1), st.integers(min_value=3, max_value=50))
def test_a_cut_text_is_never_longer_than_allowed_and_keeps_both_ends(text: str, length: int) -> None:
    cut = formatting.middle_cut(text, length)

    assert len(cut) <= max(length, 0) or cut == text
    assert cut[0] == text[0]
    assert cut[-1] == text[-1]
