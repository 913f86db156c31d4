"""A rule's docstring as its page: the problem, why it matters where, how to fix, exceptions, evidence, an example."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import dedent

from dashboard.rules.domain import ImpactContext

WHY, FIX, EXCEPTIONS, EVIDENCE, EXAMPLE = "Why it matters", "How to fix", "Exceptions", "Evidence", "Example"
SECTIONS = (WHY, FIX, EXCEPTIONS, EVIDENCE, EXAMPLE)
_HEAD = re.compile(rf"^({'|'.join(SECTIONS)}):[ \t]*$", re.MULTILINE)
_ENTRY = re.compile(r"^- ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """What a rule's docstring says. `why` is by facet; `evidence` one line per source."""

    problem: str
    why: Mapping[ImpactContext, str]
    fix: str
    exceptions: str
    evidence: tuple[str, ...]
    example: str


def page_of(docstring: str) -> Page:
    """Read a docstring. Sections that are missing are empty: a test refuses such a rule.

    "Why it matters" is a list of `- facet: sentence`, one for each facet that the rule gives a severity.
    """
    head, *rest = _HEAD.split(docstring)
    sections = {name: dedent(text).strip("\n") for name, text in zip(rest[::2], rest[1::2], strict=True)}
    return Page(
        problem=_flowing(head),
        why=dict(_reason(entry) for entry in _entries(sections.get(WHY, ""))),
        fix=_flowing(sections.get(FIX, "")),
        exceptions=_flowing(sections.get(EXCEPTIONS, "")),
        evidence=tuple(_entries(sections.get(EVIDENCE, ""))),
        example=sections.get(EXAMPLE, "").rstrip(),
    )


def _entries(text: str) -> list[str]:
    return [_flowing(entry) for entry in _ENTRY.split(text) if entry.strip()]


def _reason(entry: str) -> tuple[ImpactContext, str]:
    facet, _, sentence = entry.partition(": ")
    return ImpactContext(facet), sentence


def _flowing(text: str) -> str:
    """Join the lines of a paragraph; paragraphs stay apart."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()) if paragraph)
