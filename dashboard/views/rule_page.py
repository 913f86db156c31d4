"""The documentation of a rule as a folded section, from its docstring."""

import re

from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text
from dashboard.rules.domain import ImpactContext
from dashboard.rules.registry import Rule
from dashboard.views.blocks import Entries, Entry, Paragraph, Section, Tone
from dashboard.views.finding_text import rule_title, with_code

_SOURCE = re.compile(r"([\w.-]+/[\w.-]+#\d+|https://[^\s)]+)")


def rule_section(rule: Rule, here: ImpactContext | None = None) -> Section:
    """Return a rule's page. `here` is the impact context of the finding that is open."""
    page = rule.page
    impacts = []
    for context, text in page.why.items():
        severity = rule.severity.get(context)
        mark = [Piece(f" {severity}", Style.MUTED)] if severity else []
        mark += [Piece(" "), Piece("here", Style.TAG)] if context is here else []
        impacts.append(Entry(Tone.PLAIN, (Piece(context, Style.STRONG), *mark, Piece(": "), *with_code(text))))
    sources = tuple(Entry(Tone.PLAIN, _linked(line)) for line in page.evidence)
    parts = (
        Section("rule-why", "Why it matters", (Entries(tuple(impacts)),)),
        Section("rule-fix", "How to fix", _paragraphs(page.fix)),
        Section("rule-exceptions", "Exceptions", _paragraphs(page.exceptions)),
        Section("rule-example", "Example", _paragraphs(page.example)),
        Section("rule-evidence", "Evidence", (Entries(sources),)),
    )
    title = f"About rule {rule_title(rule.id)}"
    return Section("rule", title, _paragraphs(page.problem), parts, is_aside=True)


def _paragraphs(text: str) -> tuple[Paragraph, ...]:
    return tuple(Paragraph(with_code(" ".join(each.split()))) for each in re.split(r"\n\s*\n", text) if each.strip())


def _linked(line: str) -> Text:
    """Return one line of evidence; threads `owner/name#1` and URLs are links."""
    pieces: list[Piece] = []
    for place, part in enumerate(_SOURCE.split(line)):
        if place % 2:
            url = part if part.startswith("https://") else f"https://github.com/{part.replace('#', '/issues/')}"
            pieces.append(Piece(part, link=Link(Kind.WEB, url)))
        else:
            pieces += with_code(part)
    return tuple(pieces)
