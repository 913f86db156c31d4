"""A view as one self-contained HTML file: no script, no requests, equal bytes for equal views."""

from functools import cache
from pathlib import Path

from markupsafe import Markup

from dashboard.fleet.formatting import iso, without_commands
from dashboard.fleet.pieces import Link
from dashboard.render.html import BLOCK_STYLES, HtmlWriter, anchors_of, template
from dashboard.views.blocks import View
from dashboard.views.context import Context, context_line, short_parts

# Nothing may be fetched or run; style sheets only from the file itself.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
LONGEST_FOOT = 120  # characters of the context at the foot of a printed page
_ASCII = 0x80


def to_html(view: View) -> str:
    """Write a view as one file of UTF-8. A browser prints it, and `to_pdf` makes pages of it."""
    sections, entries = anchors_of(view.parts)

    def address_of(link: Link) -> str:
        return f"#{link.anchor}" if link.anchor in sections or link.anchor in entries else ""

    writer = HtmlWriter(address_of, is_page=False, anchors=entries)
    foot = f"@page {{ @bottom-left {{ content: {css_string(text_of_foot(view.context))}; }} }}\n"
    page = template("report.html").render(
        view=view,
        policy=POLICY,
        created=iso(view.context.data_as_of) if view.context.data_as_of else "",
        context=context_line(view.context),
        style=Markup(_style() + foot),  # noqa: S704  # css_string leaves no character that ends a style sheet
        body=writer.sections(view.parts),
    )
    return without_commands(page + "\n")


def css_string(foreign: str) -> str:
    r"""Quote text for a style sheet: all but letters, digits and spaces as `\3c `, so that it can end nothing."""
    tame = (
        char if ord(char) < _ASCII and (char.isalnum() or char in " .,-") else f"\\{ord(char):x} " for char in foreign
    )
    return f'"{"".join(tame)}"'


def text_of_foot(context: Context) -> str:
    """Return the short form of a context, for the foot of every printed page."""
    return " · ".join(short_parts(context))[:LONGEST_FOOT]


@cache
def _style() -> str:
    return BLOCK_STYLES + Path(__file__).with_name("report.css").read_text(encoding="utf-8")
