"""A report as one HTML file that stands alone: no script, nothing fetched, the same bytes for the same report."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from dashboard.fleet.formatting import iso, without_commands
from dashboard.render.html_blocks import Anchors, block_html, text
from dashboard.views.blocks import Section, View
from dashboard.views.context import Context, context_line, short_parts

# Nothing may be fetched or run; style sheets only from the file itself.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
LONGEST_FOOT = 120  # characters of the context at the foot of a printed page
DEEPEST = 6  # HTML has no headings below h6
_UNFIT = 0x80


def to_html(report: View) -> str:
    """Write a report as one file of UTF-8. A browser prints it, and `to_pdf` makes pages of it."""
    anchors = Anchors(report)
    context = text(context_line(report.context))
    body = "\n".join(_part(part, 2, anchors) for part in report.parts)
    return without_commands(
        f'<!DOCTYPE html>\n<html lang="en" dir="ltr">\n<head>\n{_head(report)}\n</head>\n<body>\n'
        f"<header>\n{_title(report)}\n"
        f'<p class="context">{context}</p>\n</header>\n'
        f"{_contents(report.parts)}<main>\n{body}\n</main>\n"
        f'<footer><p class="context">{context}</p></footer>\n</body>\n</html>\n'
    )


def css_string(foreign: str) -> str:
    r"""Quote text for a style sheet: all but letters, digits and spaces as `\3c `, so that it can end nothing."""
    return '"' + "".join(char if _is_tame(char) else f"\\{ord(char):x} " for char in foreign) + '"'


def _is_tame(char: str) -> bool:
    return ord(char) < _UNFIT and (char.isalnum() or char in " .,-")


@cache
def _style() -> str:
    return Path(__file__).with_name("report.css").read_text(encoding="utf-8")


def _head(report: View) -> str:
    context = report.context
    created = f'<meta name="dcterms.created" content="{iso(context.data_as_of)}">\n' if context.data_as_of else ""
    return (
        '<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<meta name="generator" content="vllm-fleet-dashboard {text(context.program_version)}">\n'
        f"{created}<title>{text(report.title)} · {text(context.fleet)}</title>\n"
        f"<style>\n{_style()}{_foot(context)}</style>"
    )


def _foot(context: Context) -> str:
    short = text_of_foot(context)
    return f"@page {{ @bottom-left {{ content: {css_string(short)}; }} }}\n"


def text_of_foot(context: Context) -> str:
    """Write the short form of a context, which stands at the foot of every printed page."""
    return " · ".join(short_parts(context))[:LONGEST_FOOT]


def _title(report: View) -> str:
    if not report.headline:
        return f"<h1>{text(report.title)}</h1>{_lead(report)}"
    return f'<p class="eyebrow">{text(report.title)}</p><h1>{text(report.headline)}</h1>{_lead(report)}'


def _lead(report: View) -> str:
    return f'<p class="lead">{text(report.lead)}</p>' if report.lead else ""


def _contents(parts: Sequence[Section]) -> str:
    """List the parts with links, if there is more than one."""
    if len(parts) < 2:  # noqa: PLR2004  # one part needs no table of contents
        return ""
    return f'<nav aria-label="Contents"><h2>Contents</h2><ol>{"".join(map(_listed, parts))}</ol></nav>\n'


def _listed(part: Section) -> str:
    inner = f"<ol>{''.join(map(_listed, part.parts))}</ol>" if part.parts else ""
    return f'<li><a href="#{text(part.anchor)}">{text(part.title)}</a>{inner}</li>'


def _part(part: Section, level: int, anchors: Anchors) -> str:
    name, heading = text(part.anchor), min(level, DEEPEST)
    blocks = "\n".join(block_html(block, anchors, part.title) for block in part.blocks)
    inner = "\n".join(_part(each, level + 1, anchors) for each in part.parts)
    css = ' class="appendix"' if part.is_appendix else ""
    return (
        f'<section{css} aria-labelledby="{name}">\n<h{heading} id="{name}">{text(part.title)}</h{heading}>\n'
        f"{blocks}\n{inner}</section>"
    )
