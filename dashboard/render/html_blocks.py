"""The blocks of a report as HTML. Whatever comes in is escaped here, and what cannot be seen is made visible."""

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import assert_never

from dashboard.fleet.formatting import count, end_cut, visible
from dashboard.fleet.pieces import Piece, Style, Target
from dashboard.render.matrix_html import breakable, colour, matrix_html
from dashboard.render.svg_chart import to_svgs
from dashboard.views.blocks import (
    MOST_COLUMNS,
    Block,
    Cell,
    Chart,
    Column,
    DifferenceTable,
    Entries,
    Entry,
    Figure,
    Figures,
    Line,
    Paragraph,
    Section,
    Table,
    Tone,
    View,
)

LONGEST = 4_000  # characters of one text; nobody reads more, and a foreign value can be a megabyte
LONGEST_SNIPPET = 40_000
SHORT = 40  # characters of a cell that is never broken on a screen
ONE_LINE = 24  # characters at the side of an entry that its narrowest line has room for
NARROWEST, PADDING = 4, 7  # characters of a column of a printed page; bold ones, and those of code, are wider
MOST_AT_EASE = 8  # columns of a difference table; more are set smaller in print
GLYPHS = {Tone.CRITICAL: "!", Tone.WARNING: "!", Tone.INFO: "i", Tone.GOOD: "✓", Tone.UNKNOWN: "?"}
_BREAKS = re.compile(r"(?<=\d) (?=[^\W\d])|(?<=[≤≥~]) (?=\d)")  # between a number and its unit, and after a sign
_STYLES = {Style.STRONG: "<b>{}</b>", Style.CODE: "<code>{}</code>", Style.MUTED: '<span class="mute">{}</span>'}


class Anchors:
    """The places of a report that can be linked to: its parts, and entries that have a name of their own."""

    def __init__(self, report: View) -> None:
        parts = list(every_part(report.parts))
        entries = [
            item for part in parts for block in part.blocks if isinstance(block, Entries) for item in block.items
        ]
        self._parts = frozenset(part.anchor for part in parts)
        self._entries = frozenset(item.anchor for item in entries) - self._parts - {""}
        self._taken: set[str] = set()

    def leads(self, anchor: str) -> bool:
        """Tell whether there is such a place in this report."""
        return anchor in self._parts or anchor in self._entries

    def name(self, anchor: str) -> str:
        """Return the attribute that names an entry: the first of its name has it."""
        if anchor not in self._entries or anchor in self._taken:
            return ""
        self._taken.add(anchor)
        return f' id="{text(anchor)}"'


def every_part(parts: Iterable[Section]) -> Iterator[Section]:
    """Go through parts and theirs, in the order in which they are read."""
    for part in parts:
        yield part
        yield from every_part(part.parts)


def text(foreign: str) -> str:
    """Escape a text of one line, for content and for attributes."""
    return escape(end_cut(foreign, LONGEST))


def said(words: str) -> str:
    """Write what is only read aloud: sighted readers see it by colour or place."""
    return f'<span class="said">{text(words)}</span>'


def glyph(tone: Tone) -> str:
    """Draw the shape of a tone; its word stands beside it."""
    return f'<span class="glyph {tone}" aria-hidden="true">{GLYPHS[tone]}</span>'


def block_html(block: Block, anchors: Anchors, under: str = "") -> str:
    """Write one block. A caption that only repeats the heading it stands `under` is not shown, but read aloud."""
    match block:
        case Paragraph():
            return _paragraph(block, anchors)
        case Figures():
            return f'<dl class="figures">{"".join(_figure(each, anchors) for each in block.items)}</dl>'
        case Entries():
            return f'<ul class="entries">{"".join(_entry(each, anchors) for each in block.items)}</ul>'
        case Table():
            return _table(block, under)
        case DifferenceTable():
            return _differences(block, under)
        case Chart():
            return _chart(block, under)
        case _:
            assert_never(block)


def line_html(line: Line, anchors: Anchors) -> str:
    """Write the pieces of a line; where a piece itself has lines, each begins anew."""
    return "".join(_piece(piece, anchors) for piece in line)


def _piece(piece: Piece, anchors: Anchors) -> str:
    inside = "<br>".join(map(text, piece.text.split("\n")))
    styled = _STYLES.get(piece.style, "{}").format(inside)
    return _linked(piece.target, styled, anchors)


def _linked(target: Target | None, inside: str, anchors: Anchors) -> str:
    if target is None or not anchors.leads(target.anchor):
        return inside
    return f'<a href="#{text(target.anchor)}">{inside}</a>'


def _paragraph(block: Paragraph, anchors: Anchors) -> str:
    inside = line_html(block.line, anchors)
    if block.tone is Tone.PLAIN:
        return f"<p>{inside}</p>"
    return f'<div class="notice {block.tone}">{_marked(block.tone, block.line)}<p>{inside}</p></div>'


def _marked(tone: Tone, *lines: Line) -> str:
    """Draw the shape of a tone, with its word for the ear if the words beside it do not say it themselves."""
    told = " ".join(piece.text for line in lines for piece in line).lower()
    return glyph(tone) + ("" if str(tone) in told else said(f"{tone}: "))


def _figure(figure: Figure, anchors: Anchors) -> str:
    mark = f"{glyph(figure.tone)} " if figure.tone is not Tone.PLAIN else ""
    tone = said(f" ({figure.tone})") if mark and str(figure.tone) not in figure.label.lower() else ""
    value = _together(text(figure.value))
    shown = _linked(figure.target, value, anchors)
    note = f'<dd class="note">{_together(text(figure.note))}</dd>' if figure.note else ""
    return f"<div><dt>{text(figure.label)}{tone}</dt><dd>{mark}{shown}</dd>{note}</div>"


def _together(shown: str) -> str:
    """Keep a number, its unit and the sign before it on one line of a card."""
    return _BREAKS.sub("\N{NO-BREAK SPACE}", shown)


def _entry(entry: Entry, anchors: Anchors) -> str:
    word = f'<span class="kind">{glyph(entry.tone)} {entry.tone}</span>' if entry.tone is not Tone.PLAIN else ""
    below = "".join(f"<p>{line_html(line, anchors)}</p>" for line in entry.lines)
    pasted = "".join(f"<pre><code>{_snippet(each)}</code></pre>" for each in entry.snippets)
    noted = "".join(f'<p class="noted">{line_html(line, anchors)}</p>' for line in entry.notes)
    side = f'<div class="side">{_side(entry.side)}</div>' if entry.side else ""
    return (
        f'<li class="{entry.tone}"{anchors.name(entry.anchor)}>{word}'
        f'<div class="what"><p class="head">{line_html(entry.head, anchors)}</p>{below}{pasted}{noted}</div>{side}</li>'
    )


def _side(side: str) -> str:
    """Write what stands at the side of an entry: a name breaks after no dash, if its line has room for it."""
    parts = side.split(", ")
    return ", ".join(f"<span>{text(part)}</span>" if len(part) <= ONE_LINE else text(part) for part in parts)


def _snippet(snippet: str) -> str:
    return "\n".join(map(text, snippet[:LONGEST_SNIPPET].split("\n")))


def _table(table: Table, under: str) -> str:
    caption = text(table.caption)
    kinds = [_kind(column, [row[place].text for row in table.rows]) for place, column in enumerate(table.columns)]
    titles = [text(column.title) for column in table.columns]
    head = "".join(f'<th scope="col"{kind}>{title}</th>' for title, kind in zip(titles, kinds, strict=True))
    hidden = ' class="said"' if table.caption == under else ""
    body = "\n".join(_row(row, table.columns, kinds) for row in table.rows)
    note = f'<p class="note">{text(table.note)}</p>' if table.note else ""
    return (
        f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0"><table class="plain">'
        f"<caption{hidden}>{caption}</caption><colgroup>{_widths(table)}</colgroup><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>{note}"
    )


def _widths(table: Table) -> str:
    """Share a printed page among the columns by their longest texts: to measure every cell there takes minutes."""
    texts = [[column.title, *(row[place].text for row in table.rows)] for place, column in enumerate(table.columns)]
    needs = [min(max(NARROWEST, *map(len, column)), SHORT) + PADDING for column in texts]
    return "".join(f'<col style="--w:{100 * need / sum(needs):.1f}%">' for need in needs)


def _kind(column: Column, texts: list[str]) -> str:
    """Return the classes of a column: a number, code, or so short that it stands on one line."""
    short = max(map(len, texts), default=0) <= SHORT and not column.is_number
    names = [name for name, holds in (("n", column.is_number), ("k", column.is_code), ("s", short)) if holds]
    return f' class="{" ".join(names)}"' if names else ""


def _row(row: tuple[Cell, ...], columns: tuple[Column, ...], kinds: list[str]) -> str:
    first, *rest = (_cell(cell, column) for cell, column in zip(row, columns, strict=True))
    others = "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(rest, kinds[1:], strict=True))
    return f'<tr><th scope="row"{kinds[0]}>{first}</th>{others}</tr>'


def _cell(cell: Cell, column: Column) -> str:
    mark = ""
    if cell.tone is not Tone.PLAIN:
        mark = glyph(cell.tone) + ("" if str(cell.tone) in cell.text.lower() else said(f"{cell.tone}: ")) + " "
    letter = f'<span class="letter c{colour(cell.letter)}">{text(cell.letter)}</span> ' if cell.letter else ""
    shown = text(cell.text)
    return f"{mark}{letter}{breakable(shown) if column.is_code else shown}"


def _differences(table: DifferenceTable, under: str) -> str:
    drawn = matrix_html(table.matrix, table.names, caption=table.caption, corner="Setting", kinds=table.kinds)
    columns = len(table.matrix.columns)
    notes = list(table.notes)
    if columns > MOST_COLUMNS:
        notes.append(f"{count(columns - MOST_COLUMNS, 'column')} more: the CSV of this table holds all of them.")
    below = "".join(f'<p class="note">{text(note)}</p>' for note in notes)
    dense = " dense" if columns > MOST_AT_EASE else ""
    caption = "" if table.caption == under else f'<p class="caption" aria-hidden="true">{text(table.caption)}</p>'
    return f'<div class="differences{dense}">{caption}{visible(drawn)}</div>{below}'


def _chart(chart: Chart, under: str) -> str:
    caption = "" if chart.title == under else f"<figcaption>{text(chart.title)}</figcaption>"
    more = f'<p class="note">{count(chart.more, "more bar")} left out.</p>' if chart.more else ""
    return f'<figure class="chart">{caption}<div class="drawing">{"".join(to_svgs(chart))}</div>{more}</figure>'
