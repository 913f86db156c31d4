"""Numbers, times and settings as text for people; foreign text has no hidden characters and no commands to a CI."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet import Basis, State, formatting
from dashboard.fleet.formatting import HIDDEN, one_line, safe_json, visible, without_commands
from tests.strategies import json_values


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
        (State.UNKNOWN, "unknown"),
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
        (None, Basis.REPORTED, "unknown"),
        (1, Basis.UNKNOWN, "unknown"),
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


def test_a_string_has_quotes_only_where_it_reads_as_json() -> None:
    texts = ['"sha256_cbor"', '"16"', '"true"', '""', '" "', "16", "null", '["a"]']
    assert [formatting.plain_value(each) for each in texts] == [
        "sha256_cbor",
        '"16"',
        '"true"',
        '""',
        '" "',
        "16",
        "null",
        '["a"]',
    ]


@given(json_values)
def test_a_cell_determines_its_value(value: object) -> None:
    written = formatting.plain_value(json.dumps(value))
    try:
        read = json.loads(written)
    except ValueError:
        read = written
    assert read == value


UNSEEN = (
    "a\u202eb\u2066c\u200ed\u061ce\u200bf\u200dg\ufeffh\x9b31mi\x1b[31mj\u00adk\u2060l\u3164m\U000e0041n\u180eo\ufff9p"
)
RUN = re.compile(r"^\s*::|##\[|##vso\[|##teamcity\[", re.IGNORECASE)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::x", ": :error::x"),
        ("a\n \t::add-mask::x", "a\n \t: :add-mask::x"),
        ("a ##[error]x", "a # #[error]x"),
        ("##VSO[a]", "# #VSO[a]"),
        ("##teamcity[a]", "# #teamcity[a]"),
        ("a::b\n## title", "a::b\n## title"),
    ],
)
def test_no_line_is_a_command_to_github_azure_or_teamcity(text: str, shown: str) -> None:
    assert without_commands(text) == shown


@given(st.text())
def test_safe_json_has_equal_content(text: str) -> None:
    value = {text.encode(errors="replace").decode(): [text.encode(errors="replace").decode()]}
    raw = safe_json(json.dumps(value, ensure_ascii=False).encode())

    assert json.loads(raw) == value
    assert not HIDDEN.search(raw.decode())


@given(st.text() | st.text(alphabet=": #[]\nverrosteamcity"))
def test_text_without_commands_has_none_and_does_not_change_again(text: str) -> None:
    once = without_commands(visible(text))

    assert not any(RUN.search(line) for line in re.split(r"[\r\n]", once))
    assert without_commands(once) == once
    assert one_line(one_line(text)) == one_line(text)


@pytest.mark.parametrize("unseen", [each for each in UNSEEN if HIDDEN.match(each)])
def test_json_escapes_each_hidden_character(unseen: str) -> None:
    raw = safe_json(json.dumps([unseen, "≤ é 漢 😀 ##[error]"], ensure_ascii=False).encode())

    assert raw.decode().endswith(', "≤ é 漢 😀 \\u0023#[error]"]')
    assert json.loads(raw)[0] == unseen
    assert raw.split(b",")[0].isascii()
