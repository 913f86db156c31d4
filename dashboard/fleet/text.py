"""Foreign text that is shown or written: nothing in it is hidden, moves its neighbours, or is a command to a CI system.

Values are kept and compared as they came.
"""

import re

# What Azure Pipelines and TeamCity, and GitHub in its older form, look for anywhere in a line of a log.
COMMAND_MARK = r"#(?=#(?i:\[|vso\[|teamcity\[))"
# Controls (but tab and line feed), directions, joiners, fillers and all that is invisible, or that UTF-8 or XML lacks.
HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)
# The same in UTF-8, but for what JSON always escapes; and `#` that begins a command.
_UNSAFE_IN_JSON = re.compile(
    rb"\x7f|\xc2[\x80-\x9f\xad]|\xcd\x8f|\xd8\x9c|\xe1\x85[\x9f\xa0]|\xe1\x9e[\xb4\xb5]|\xe1\xa0[\x8b-\x8f]"
    rb"|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xe3\x85\xa4|\xef\xbb\xbf|\xef\xbe\xa0|\xef\xbf[\xb0-\xbb\xbe\xbf]"
    rb"|\xf0\x9b\xb2[\xa0-\xa3]|\xf0\x9d\x85[\xb3-\xba]|\xf3\xa0[\x80-\xbf][\x80-\xbf]|" + COMMAND_MARK.encode()
)
# GitHub looks for `::` after white space where a line begins (actions/runner, ActionCommand.cs).
_COMMAND = re.compile(rf"^[^\S\n]*:(?=:)|{COMMAND_MARK}", re.MULTILINE)


def visible(text: str) -> str:
    """Return text with its line breaks and tabs; what hides or moves text is a visible character instead."""
    return HIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def without_commands(text: str) -> str:
    """Return text of which a CI system that reads it in its log runs no line: `: :error::`, `# #[error]`."""
    return _COMMAND.sub(r"\g<0> ", text)


def safe_json(raw: bytes) -> bytes:
    """Return the same JSON in UTF-8 with escapes for what is hidden, moves text, or begins a command in a log."""
    return _UNSAFE_IN_JSON.sub(_escaped, raw)


def _escaped(found: re.Match[bytes]) -> bytes:
    units = found.group().decode().encode("utf-16-be")
    return b"".join(b"\\u%02x%02x" % (units[at], units[at + 1]) for at in range(0, len(units), 2))
