"""Small pieces of HTML. Arguments are escaped here unless they are HTML by their description."""

import re
from html import escape
from pathlib import Path

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

from dashboard.fleet.formatting import count, middle_cut, one_line, visible
from dashboard.render.html import GLYPHS
from dashboard.rules.findings import Severity, Tally
from dashboard.views import pages
from dashboard.views.blocks import Tone
from dashboard.views.filters import write_filter
from dashboard.views.summary import SEVERITY_TERMS
from dashboard.web import links

LONGEST_TITLE = 80  # characters of a foreign name in a title
_HERE = Path(__file__).parent
NO_COMMAND = "\N{WORD JOINER}"  # in a label: `[a, b]` would be a menu, `:material/edit:` an icon


def component(name: str, *scripts: str, css: str = "") -> ComponentRenderer:
    """Return a component of files of scripts; `css`: with a place for HTML of this class, to which our styles apply."""
    place = f'<div class="{css}"></div>' if css else None
    js = "".join((_HERE / file).read_text(encoding="utf-8") for file in scripts)
    return st.components.v2.component(name, html=place, js=js, isolate_styles=not css)


def text(value: object) -> str:
    """Return a value escaped for HTML text and attributes."""
    return escape(visible(str(value)), quote=True)


def bold(value: object) -> str:
    return f"<b>{text(value)}</b>"


def code(value: object) -> str:
    return f"<code>{text(value)}</code>"


def markdown_code(value: object) -> str:
    """Return a value in monospace as Markdown, for titles that Streamlit draws: nothing in it is Markdown."""
    shown = middle_cut(one_line(str(value)), LONGEST_TITLE).replace(":material", f":{NO_COMMAND}material")
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    edge = " " if "`" in shown else ""
    return f"{fence}{edge}{shown}{edge}{fence}"


def pasted(value: object, label: str = "") -> str:
    """Return a value to copy, with its button. One with a label may be long: it scrolls, and Tab reaches it."""
    frame = f' role="region" aria-label="{text(label)}" tabindex="0"' if label else ""
    button = '<button type="button" class="copy" data-copy-code>Copy</button>'
    return f'<div class="paste"><pre{frame}><code>{text(value)}</code></pre>{button}</div>'


def said(value: object) -> str:
    """Return a value for screen readers only: what colour or position shows otherwise."""
    return f'<span class="said">{text(value)}</span>'


def link(address: str, content: str, *, title: str = "", css: str = "") -> str:
    """Return a link to a page of this dashboard; `content` is HTML."""
    hint = f' title="{text(title)}"' if title else ""
    kind = f' class="{css}"' if css else ""
    return f'<a href="{text(address)}"{kind}{hint}>{content}</a>'


def glyph(kind: str, word: str = "") -> str:
    """Return the shape of a state or severity, with its word for screen readers unless the text next to it has it."""
    spoken = said(word) if word else ""
    return f'<span class="glyph {kind}" aria-hidden="true">{GLYPHS[Tone(kind)]}</span>{spoken}'


def heading(title: str, sentence: str = "") -> str:
    """Return the head of a page: headline and lead, both HTML."""
    below = f'<p class="lead">{sentence}</p>' if sentence else ""
    return f'<div class="page-head"><h1>{title}</h1>{below}</div>'


def section(title: str) -> str:
    return f"<h2>{text(title)}</h2>"


def notice(kind: str, content: str) -> str:
    """Return a framed statement; `content` is HTML."""
    return f'<div class="notice {kind}">{content}</div>'


def tally_glyphs(tally: Tally, whole: Tally | None = None) -> str:
    """Return the counts by severity as HTML, each a link to these findings; empty without any.

    Of one pool the titles also have the counts of the `whole` fleet.
    """
    of = {each: f" ({getattr(whole, each):,} in all pools)" if whole else "" for each in Severity}
    counts = [(severity, getattr(tally, severity)) for severity in Severity if getattr(tally, severity)]
    return " ".join(
        link(
            links.to(pages.FINDINGS, search=write_filter("severity", severity)),
            f'<span aria-hidden="true" title="{(words := count(number, SEVERITY_TERMS[severity]))}{of[severity]}">'
            f"{glyph(severity)}{bold(f'{number:,}')}</span>{said(words)}",
            css="count",
        )
        for severity, number in counts
    )
