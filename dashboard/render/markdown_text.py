"""Foreign text in Markdown: it is shown as it is, and can never become markup."""

import re
from html import escape

from dashboard.fleet.formatting import end_cut

MOST_CHARACTERS = 60_000  # GitHub refuses comments of more than 65,536
LONGEST = 1000  # characters of one sentence
# What means something inside a line of CommonMark or of GitHub's, and only where it does: a backslash takes it away.
# Underscores within a word do nothing, a bracket that closes needs one that opens, the colon and the dot make links of
# bare addresses, {+ and {- mark changes at GitLab, and # at the end closes a heading.
_ACTS = re.compile(
    r"[\\`*\[|$~]|(?<!\w)_++|(?<!_)_++(?![^\W_])|:(?=//)|(?<=www)\.|\{(?=[-+])|#+(?=\s*$)",
    re.IGNORECASE,
)
_ENTITIES = re.compile(r"<(?![\s\d=])|&(?=#?\w+;)")
# What would begin a list, a heading, a quotation, a rule or a table at the beginning of a line.
_BEGINS = re.compile(r"^(?:(?=#|>|[-+](?:\s|$)|=+\s*$|:?-+:?\s*$)|(\d{1,9})(?=[.)](?:\s|$)))")
# Forges look for these in the text itself, after Markdown: @name calls somebody, #12, !12 and the like link something,
# and :name: becomes a picture. Of numbers only two do, so that times of day stay as they are.
_CALLS = re.compile(r"([@#!~%$](?=\w)|:(?=(?:\w*[a-z+-][\w+-]*|100|1234):))", re.IGNORECASE)
_SEPARATOR = "\N{ZERO WIDTH SPACE}"
# One backtick on each side. A dollar beside them would begin mathematics on GitHub, whatever stands before the dollar.
_CODE = re.compile(r"(?<![`$])`([^`]+)`(?![`$])")
_BACKTICKS = re.compile(r"`+")


def escaped(text: str) -> str:
    """Write foreign text so that Markdown shows it as it is, on one line; it may stand at the beginning of one."""
    return begun(within(text))


def within(text: str) -> str:
    """Write foreign text as a part of a line: what means something only at its beginning stays as it is."""
    parted = _CALLS.sub(rf"\1{_SEPARATOR}", end_cut(text, LONGEST))
    quiet = _ACTS.sub(lambda found: "".join(f"\\{char}" for char in found.group()), parted)
    return _ENTITIES.sub(lambda found: escape(found.group()), quiet)


def begun(markdown: str) -> str:
    """Keep a line that is written already from beginning a list, a heading, a quotation, a rule or a table."""
    return _BEGINS.sub(lambda found: f"{found[1] or ''}\\", markdown.lstrip())


def with_code(text: str) -> str:
    """Write a sentence of ours, in which `code` stands between single backticks, and perhaps a foreign value.

    Whatever stands between two backticks is shown as it is, so a foreign value there is as harmless as elsewhere.
    """
    parts = _CODE.split(end_cut(text, LONGEST))
    return "".join(f"`{part}`" if number % 2 else within(part) for number, part in enumerate(parts))


def fenced(text: str, language: str) -> str:
    """Put text into a block of code that it cannot end: the fence is longer than any run of backticks in it."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    lines = "\n".join(end_cut(line, LONGEST) for line in text.splitlines())
    return f"{fence}{language}\n{lines}\n{fence}"
