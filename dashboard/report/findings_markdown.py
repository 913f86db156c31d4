"""The findings of a fleet as Markdown, for a comment on a pull request: what is foreign can never become markup."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from dashboard.report import finding_words as words
from dashboard.report.judged_rules import rules_words
from dashboard.report.table import plain
from dashboard.rules.catalogue import BY_ID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dashboard.fleet import Fleet
    from dashboard.rules.findings import Finding, Inspection, Snippet

MOST_CHARACTERS = 60_000  # GitHub refuses comments of more than 65,536
MOST_LINES = 50  # of what is suppressed, skipped or not read; the rest is counted
LONGEST = 1000  # characters of one sentence
PAGES = "`python -m dashboard rules ID` prints the page of a rule, such as `python -m dashboard rules RT-01`."
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
_LANGUAGES = {"flag": "sh", "env": "sh", "shell": "sh", "yaml": "yaml"}


def to_findings_markdown(fleet: Fleet) -> str:
    """Write the findings as one comment of at most MOST_CHARACTERS characters; what does not fit is counted."""
    inspection, names = fleet.inspection, words.replica_names(fleet)
    head = [
        f"## vLLM fleet: {within(fleet.name)}",
        f"**{words.counted(inspection.findings)}** · {words.answered(fleet)} · {rules_words(inspection)}",
    ]
    tail = [
        *_folded("assumed, for nobody says it", words.assumptions(inspection)),
        *_folded("in a rollout", words.rollouts(inspection)),
        *_folded("suppressed", words.suppressed(inspection, names)),
        *_folded("not judged, for the rule itself raised an error", words.raised(inspection)),
        *_folded("skipped, for it was not told", words.skipped(inspection)),
        *_folded("to mind", inspection.notes),
        *_folded("not read", words.unread(fleet)),
        *([PAGES] if inspection.findings else []),
    ]
    room = MOST_CHARACTERS - sum(map(len, [*head, *tail]))
    return "\n\n".join([*head, *_fitting(inspection, names, room), *tail]) + "\n"


def escaped(text: str) -> str:
    """Write foreign text so that Markdown shows it as it is, on one line; it may stand at the beginning of one."""
    return begun(within(text))


def within(text: str) -> str:
    """Write foreign text as a part of a line: what means something only at its beginning stays as it is."""
    parted = _CALLS.sub(rf"\1{_SEPARATOR}", plain(text, LONGEST))
    quiet = _ACTS.sub(lambda found: "".join(f"\\{char}" for char in found.group()), parted)
    return _ENTITIES.sub(lambda found: escape(found.group()), quiet)


def begun(markdown: str) -> str:
    """Keep a line that is written already from beginning a list, a heading, a quotation, a rule or a table."""
    return _BEGINS.sub(lambda found: f"{found[1] or ''}\\", markdown.lstrip())


def with_code(text: str) -> str:
    """Write a sentence of ours, in which `code` stands between single backticks, and perhaps a foreign value.

    Whatever stands between two backticks is shown as it is, so a foreign value there is as harmless as elsewhere.
    """
    parts = _CODE.split(plain(text, LONGEST))
    return "".join(f"`{part}`" if number % 2 else within(part) for number, part in enumerate(parts))


def fenced(text: str, language: str) -> str:
    """Put text into a block of code that it cannot end: the fence is longer than any run of backticks in it."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    lines = "\n".join(plain(line, LONGEST) for line in text.splitlines())
    return f"{fence}{language}\n{lines}\n{fence}"


def _fitting(inspection: Inspection, names: Mapping[str, str], room: int) -> list[str]:
    told: list[str] = []
    findings = inspection.findings
    for number, (finding, earlier) in enumerate(words.with_earlier(findings)):
        where = words.marked_where(finding, inspection.domains)
        text = "\n\n".join(_finding(finding, where, names, earlier))
        room -= len(text)
        if room < 0:
            return [*told, f"**and {len(findings) - number:,} more, for which there is no room here**"]
        told.append(text)
    return told


def _finding(finding: Finding, where: str, names: Mapping[str, str], earlier: Finding | None) -> list[str]:
    title = f"{words.GLYPHS[finding.severity]} {finding.severity}: {finding.rule} {BY_ID[finding.rule].name}"
    return [
        f"### {title} in {within(where)}",
        f"**{within(words.who(finding, names))}**: {within(finding.sentence)}",
        *([escaped(words.as_in(finding, earlier, names))] if earlier else _advice(finding)),
        *map(escaped, words.remarks(finding)),
    ]


def _advice(finding: Finding) -> list[str]:
    return [
        *([f"Why it matters: {with_code(finding.why)}"] if finding.why else []),
        f"What to do: {with_code(finding.remedy.sentence)}",
        *words.pasteable(finding.remedy, _pasteable),
    ]


def _pasteable(snippet: Snippet) -> str:
    return fenced(snippet.text, _LANGUAGES.get(snippet.kind, ""))


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    hidden = len(lines) - MOST_LINES
    told = [f"- {escaped(each)}" for each in lines[:MOST_LINES]] + ([f"- and {hidden:,} more"] if hidden > 0 else [])
    return [f"<details><summary>{len(lines):,} {title}</summary>", "\n".join(told), "</details>"]
