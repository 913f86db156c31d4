"""Small pieces of HTML. Arguments are escaped here unless they are HTML by their description."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from types import MappingProxyType

from dashboard.fleet.formatting import count, visible
from dashboard.fleet.pieces import Style, Text
from dashboard.render.matrix_html import colour
from dashboard.rules.findings import Severity, Tally
from dashboard.views import pages
from dashboard.views.findings_summary import SEVERITY_TERMS
from dashboard.views.glossary import TERMS
from dashboard.web import links

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
    """Return a value escaped for content and attributes."""
    return escape(visible(str(value)), quote=True)


def bold(value: object) -> str:
    """Return a value in bold."""
    return f"<b>{text(value)}</b>"


def pieces(shown: Text) -> str:
    """Set text in pieces: claims in bold, values in monospace, bases quiet."""
    styles = {Style.STRONG: bold, Style.CODE: code, Style.MUTED: muted, Style.TAG: muted, Style.PLAIN: text}
    return "".join(styles[each.style](each.text) for each in shown)


def parts(value: str, between: str = " ·") -> str:
    """Return a line of parts, such as `1 DP rank · 32 GPUs`, that wraps between parts."""
    return spans(text(value).split(f"{between} "), between)


def spans(pieces: Sequence[str], between: str) -> str:
    """Return pieces of HTML in a line that wraps between them."""
    *before, last = pieces
    return " ".join(f'<span class="part">{part}</span>' for part in [*(f"{each}{between}" for each in before), last])


def code(value: object) -> str:
    """Return a value in monospace."""
    return f"<code>{text(value)}</code>"


def muted(value: object) -> str:
    """Return a value in the quiet colour."""
    return f'<span class="mute">{text(value)}</span>'


def said(value: object) -> str:
    """Return a value for screen readers only: what colour or position shows otherwise."""
    return f'<span class="said">{text(value)}</span>'


def link(address: str, content: str, *, title: str = "", css: str = "") -> str:
    """Return a link to a page of this dashboard; `content` is HTML."""
    hint = f' title="{text(title)}"' if title else ""
    kind = f' class="{css}"' if css else ""
    return f'<a href="{text(address)}"{kind}{hint}>{content}</a>'


def glyph(kind: str, word: str) -> str:
    """Return the shape of a state or severity, with its word for screen readers."""
    return f'<span class="glyph {kind}" aria-hidden="true">{_GLYPHS[kind]}</span>{said(word)}'


def letter(name: str) -> str:
    """Return a cohort's letter on its colour."""
    return f'<span class="letter c{colour(name)}">{text(name)}</span>'


def term(key: str, shown: str = "") -> str:
    """Return a term of the glossary with its tooltip, once per key and page: the id derives from the key.

    Raises KeyError for an unknown term.
    """
    name = f"term-{'-'.join(key.lower().split())}"
    return (
        f'<dfn class="term" tabindex="0" aria-describedby="{text(name)}">{text(shown or key)}'
        f'<span class="tooltip" role="tooltip" id="{text(name)}">{text(TERMS[key])}</span></dfn>'
    )


def heading(title: str, sentence: str = "") -> str:
    """Return the head of a page: headline and lead, both HTML."""
    below = f'<p class="lead">{sentence}</p>' if sentence else ""
    return f'<div class="page-head"><h1>{title}</h1>{below}</div>'


def section(title: str) -> str:
    """Return the heading of a section."""
    return f"<h2>{text(title)}</h2>"


def card(label: str, figure: str, note: str, *, address: str | None = None, explained: str = "") -> str:
    """Return a card with one figure, as a link where there is an address; `figure` and `note` are HTML.

    `explained` is the glossary term of the label; a label inside of a link has no tooltip.
    """
    parts = (
        ("label", term(explained, label) if explained and address is None else text(label)),
        ("figure", figure),
        ("note", note),
    )
    inside = "".join(f'<div class="{css}">{part}</div>' for css, part in parts)
    return link(address, inside, css="card") if address is not None else f'<div class="card">{inside}</div>'


def cards(items: Iterable[str]) -> str:
    """Return cards in a row that wraps."""
    return f'<div class="cards">{"".join(items)}</div>'


def table(
    caption: str,
    head: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[str]],
    terms: Mapping[str, str] = NO_TERMS,
) -> str:
    """Return a table; `head` pairs titles with CSS classes, `rows` have cells of HTML, the first one names its row.

    `terms` maps titles to glossary terms.
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
    """Return a list of statements: kind of the stripe, content and side, both HTML."""
    items = "".join(
        f'<li class="{kind}"><div class="what">{content}</div><div class="whose">{side}</div></li>'
        for kind, content, side in rows
    )
    return f'<ul class="entries">{items}</ul>'


def notice(kind: str, content: str) -> str:
    """Return a framed statement; `content` is HTML."""
    return f'<div class="notice {kind}">{content}</div>'


def tally_glyphs(tally: Tally, **choices: str) -> str:
    """Return the counts by severity as HTML, each a link to these findings with more URL choices; empty without any."""
    counts = [(severity, getattr(tally, severity)) for severity in Severity if getattr(tally, severity)]
    return " ".join(
        link(
            links.to(pages.FINDINGS, severity=severity, **choices),
            f"{glyph(severity, '')}{bold(f'{number:,}')}{said(count(number, *SEVERITY_TERMS[severity]))}",
            title=count(number, *SEVERITY_TERMS[severity]),
            css="count",
        )
        for severity, number in counts
    )


def _row(cells: Sequence[str], head: Sequence[tuple[str, str]]) -> str:
    first, *rest = cells
    others = "".join(f'<td class="{css}">{cell}</td>' for cell, (_, css) in zip(rest, head[1:], strict=True))
    return f'<tr><th scope="row">{first}</th>{others}</tr>'
