"""The documentation of one rule, out of its docstring, as HTML: our own text, still escaped."""

import re

from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Severity
from dashboard.rules.registry import Rule
from dashboard.web import markup

GITHUB = "https://github.com"
_SOURCE = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)|https://[^\s)]+")
_CODE = re.compile(r"`([^`]+)`")
INDENT = "    "  # a paragraph that is all indented is something typed


def rule_html(rule: Rule, here: ImpactContext | None = None) -> str:
    """Write a rule's page. `here` is the context that counts in the pool at hand."""
    page = rule.page
    reasons = "".join(
        _reason(context, rule.severity.get(context), sentence, is_here=context is here)
        for context, sentence in page.why.items()
    )
    evidence = "".join(f"<li>{_source(line)}</li>" for line in page.evidence)
    parts = [
        _paragraphs(page.problem),
        _part("Why it matters", f"<ul>{reasons}</ul>" if reasons else ""),
        _part("How to fix", _paragraphs(page.fix)),
        _part("Exceptions", _paragraphs(page.exceptions)),
        _part("Example", _paragraphs(page.example)),
        _part("Evidence", f"<ul>{evidence}</ul>" if evidence else ""),
    ]
    return f'<div class="rule-page">{"".join(parts)}</div>'


def marked(text: str) -> str:
    """Escape a text, what stands between backticks in monospace."""
    return _CODE.sub(r"<code>\1</code>", markup.text(text))


def _reason(context: ImpactContext, severity: Severity | None, sentence: str, *, is_here: bool) -> str:
    how = f" {markup.muted(severity)}" if severity else ""
    here = ' <span class="tag">here</span>' if is_here else ""
    return f"<li>{markup.bold(context)}{how}{here}: {marked(sentence)}</li>"


def _part(title: str, content: str) -> str:
    return f"<h3>{title}</h3>{content}" if content else ""


def _paragraphs(text: str) -> str:
    return "".join(_paragraph(each) for each in re.split(r"\n\s*\n", text.strip("\n")) if each.strip())


def _paragraph(text: str) -> str:
    lines = text.splitlines()
    if all(line.startswith(INDENT) for line in lines):
        typed = "\n".join(line.removeprefix(INDENT) for line in lines)
        return f"<pre>{markup.text(typed)}</pre>"
    return f"<p>{marked(' '.join(line.strip() for line in lines))}</p>"


def _source(line: str) -> str:
    """Escape one line of evidence; threads `owner/name#1` become links to GitHub, addresses links to themselves."""
    return _SOURCE.sub(_linked, marked(line))


def _linked(found: re.Match[str]) -> str:
    repository, number = found.groups()
    address = f"{GITHUB}/{repository}/issues/{number}" if repository else found.group()
    return f'<a href="{address}" target="_blank" rel="noopener">{found.group()}</a>'
