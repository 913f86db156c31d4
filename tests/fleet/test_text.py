"""Foreign text has no hidden characters and no commands to a CI system."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet.formatting import HIDDEN, one_line, safe_json, visible, without_commands

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
