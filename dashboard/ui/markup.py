"""Small pieces of HTML. Whatever comes in is escaped here; what comes out is safe to show."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from dashboard.report.matrix_html import colour

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GLYPHS = {
    "good": "✓",
    "critical": "!",
    "warning": "!",
    "info": "i",
    "unknown": "?",
    "differs": "≠",
    "same": "=",
    "partly": "≈",
}


def text(value: object) -> str:
    """Escape a value, for content and for attributes."""
    return escape(str(value), quote=True)


def bold(value: object) -> str:
    """Escape a value and make it bold."""
    return f"<b>{text(value)}</b>"


def code(value: object) -> str:
    """Escape a value and set it in monospace."""
    return f"<code>{text(value)}</code>"


def muted(value: object) -> str:
    """Escape a value and make it quiet."""
    return f'<span class="mute">{text(value)}</span>'


def said(value: object) -> str:
    """Escape a value that is only read aloud: what sighted readers see by colour or place."""
    return f'<span class="said">{text(value)}</span>'


def link(address: str, content: str, *, title: str = "", css: str = "") -> str:
    """Wrap content that is already HTML into a link to one of our pages."""
    hint = f' title="{text(title)}"' if title else ""
    kind = f' class="{css}"' if css else ""
    return f'<a href="{text(address)}"{kind}{hint}>{content}</a>'


def glyph(kind: str, word: str) -> str:
    """Draw the shape of a state or severity, with its word for those who cannot see it."""
    return f'<span class="glyph {kind}" aria-hidden="true">{_GLYPHS[kind]}</span>{said(word)}'


def letter(name: str) -> str:
    """Draw a cohort's letter on its colour."""
    return f'<span class="letter c{colour(name)}">{text(name)}</span>'


def heading(title: str, sentence: str = "") -> str:
    """Head a page: one sentence that says what is, and a quieter one that says more. Both are HTML already."""
    below = f'<p class="lead">{sentence}</p>' if sentence else ""
    return f'<div class="page-head"><h1>{title}</h1>{below}</div>'


def section(title: str) -> str:
    """Head a part of a page."""
    return f"<h2>{text(title)}</h2>"


def card(label: str, figure: str, note: str, *, address: str | None = None) -> str:
    """Show one figure, as a link where an address is given. `figure` and `note` are HTML already."""
    parts = (("label", text(label)), ("figure", figure), ("note", note))
    inside = "".join(f'<div class="{css}">{part}</div>' for css, part in parts)
    return link(address, inside, css="card") if address is not None else f'<div class="card">{inside}</div>'


def cards(items: Iterable[str]) -> str:
    """Put cards into one row that wraps."""
    return f'<div class="cards">{"".join(items)}</div>'


def table(caption: str, head: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """Draw a table. `head` pairs a title with a class ("number" aligns right); cells are HTML, the first names it."""
    titles = "".join(f'<th scope="col" class="{css}">{text(title)}</th>' for title, css in head)
    body = "".join(_row(cells, head) for cells in rows)
    return (
        f'<div class="scroll"><table class="plain"><caption class="said">{text(caption)}</caption>'
        f"<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def entries(rows: Iterable[tuple[str, str, str]]) -> str:
    """Draw a list of statements: (kind of the stripe, content, what stands at the right), both HTML."""
    items = "".join(
        f'<li class="{kind}"><div class="what">{content}</div><div class="whose">{side}</div></li>'
        for kind, content, side in rows
    )
    return f'<ul class="entries">{items}</ul>'


def notice(kind: str, content: str) -> str:
    """Draw a framed statement that is already HTML."""
    return f'<div class="notice {kind}">{content}</div>'


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return the key by which names sort as people count: `chat-2` before `chat-10`."""
    parts = re.split(r"([0-9]{1,18})", name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts if part]


def _row(cells: Sequence[str], head: Sequence[tuple[str, str]]) -> str:
    first, *rest = cells
    others = "".join(f'<td class="{css}">{cell}</td>' for cell, (_, css) in zip(rest, head[1:], strict=True))
    return f'<tr><th scope="row">{first}</th>{others}</tr>'
