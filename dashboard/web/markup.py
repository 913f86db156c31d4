"""Small pieces of HTML. Whatever comes in is escaped here; what comes out is safe to show."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from types import MappingProxyType

from dashboard.fleet.formatting import visible
from dashboard.fleet.pieces import Style, Text
from dashboard.render.matrix_html import colour
from dashboard.views.glossary import TERMS

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

NO_TERMS: Mapping[str, str] = MappingProxyType({})


def text(value: object) -> str:
    """Escape a value, for content and for attributes."""
    return escape(visible(str(value)), quote=True)


def bold(value: object) -> str:
    """Escape a value and make it bold."""
    return f"<b>{text(value)}</b>"


def pieces(shown: Text) -> str:
    """Set text in pieces: claims in bold, values in monospace, bases quiet."""
    styles = {Style.STRONG: bold, Style.CODE: code, Style.MUTED: muted, Style.PLAIN: text}
    return "".join(styles[each.style](each.text) for each in shown)


def parts(value: str, between: str = " ·") -> str:
    """Escape a line of parts, `1 DP rank · 32 GPUs`, that wraps between them and never inside of one, if it can."""
    return spans(text(value).split(f"{between} "), between)


def spans(pieces: Sequence[str], between: str) -> str:
    """Put pieces of HTML in a line that wraps between them and never inside of one, if it can."""
    *before, last = pieces
    return " ".join(f'<span class="part">{part}</span>' for part in [*(f"{each}{between}" for each in before), last])


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


def term(key: str, shown: str = "") -> str:
    """Write a word of the glossary, whose sentence is seen under the pointer and on focus, and is read aloud.

    Once for each key on a page, for its id is made of the key. Raises KeyError where nobody explains it.
    """
    name = f"term-{'-'.join(key.lower().split())}"
    return (
        f'<dfn class="term" tabindex="0" aria-describedby="{text(name)}">{text(shown or key)}'
        f'<span class="told" role="tooltip" id="{text(name)}">{text(TERMS[key])}</span></dfn>'
    )


def heading(title: str, sentence: str = "") -> str:
    """Head a page: one sentence that says what is, and a quieter one that says more. Both are HTML already."""
    below = f'<p class="lead">{sentence}</p>' if sentence else ""
    return f'<div class="page-head"><h1>{title}</h1>{below}</div>'


def section(title: str) -> str:
    """Head a part of a page."""
    return f"<h2>{text(title)}</h2>"


def card(label: str, figure: str, note: str, *, address: str | None = None, explained: str = "") -> str:
    """Show one figure, as a link where an address is given. `figure` and `note` are HTML already.

    `explained` is the word of the glossary that the label stands for; a label that is part of a link explains nothing.
    """
    parts = (
        ("label", term(explained, label) if explained and address is None else text(label)),
        ("figure", figure),
        ("note", note),
    )
    inside = "".join(f'<div class="{css}">{part}</div>' for css, part in parts)
    return link(address, inside, css="card") if address is not None else f'<div class="card">{inside}</div>'


def cards(items: Iterable[str]) -> str:
    """Put cards into one row that wraps."""
    return f'<div class="cards">{"".join(items)}</div>'


def table(
    caption: str,
    head: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[str]],
    terms: Mapping[str, str] = NO_TERMS,
) -> str:
    """Draw a table. `head` pairs a title with a class ("number" aligns right); cells are HTML, the first names it.

    `terms` maps titles to the words of the glossary that explain them.
    """
    titles = "".join(
        f'<th scope="col" class="{css}">{term(terms[title], title) if title in terms else text(title)}</th>'
        for title, css in head
    )
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


def _row(cells: Sequence[str], head: Sequence[tuple[str, str]]) -> str:
    first, *rest = cells
    others = "".join(f'<td class="{css}">{cell}</td>' for cell, (_, css) in zip(rest, head[1:], strict=True))
    return f'<tr><th scope="row">{first}</th>{others}</tr>'
