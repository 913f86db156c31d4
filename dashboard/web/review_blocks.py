"""Blocks of a report as the pages draw them: the same words as in an export, in the look of the pages. HTML."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from html import unescape
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from dashboard.fleet.pieces import Piece, Style
from dashboard.render.matrix_html import matrix_html
from dashboard.render.svg_chart import to_svg
from dashboard.views.blocks import (
    Block,
    Cell,
    Chart,
    Column,
    Columns,
    DifferenceTable,
    Entries,
    Entry,
    Figure,
    Figures,
    Gauges,
    Line,
    Paragraph,
    Section,
    Table,
    Tone,
)
from dashboard.views.names import brief
from dashboard.web import markup

MOST_ROWS = 15  # of a table before the rest is folded
LEVEL = 3  # of the headings within a section of a page
_BETWEEN = re.compile(r"(<[^>]*>|[\s,:()]+|\.(?=[\s<]|$))")  # what can stand between two names, tags too
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
FEW = 3  # rows more are not worth folding
_STYLES: Mapping[Style, Callable[[object], str]] = {
    Style.PLAIN: markup.text,
    Style.STRONG: markup.bold,
    Style.CODE: markup.code,
    Style.MUTED: markup.muted,
}


class LinkMap(NamedTuple):
    """Where things lead: places of a report by their anchor, and what stands first in a row of a table by its text.

    `names` are replicas by their name, wherever a text names one. Settings of a table have the anchor `row_anchor`.
    """

    anchors: Mapping[str, str]
    rows: Mapping[str, str]
    names: Mapping[str, str] = MappingProxyType({})


NOWHERE = LinkMap({}, {})


class Collapse(NamedTuple):
    """How many lines of an entry are shown, None for all, and what the fold over its other lines is called."""

    shown: int | None
    title: str


OPEN = Collapse(None, "")


class HtmlFragment(NamedTuple):
    """A piece of a page as HTML. A chart is SVG, which needs a way of its own to the browser."""

    html: str
    is_chart: bool


def by_name(replicas: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return where replicas lead by their names, given names with addresses; equal names lead nowhere."""
    told = list(replicas)
    numbers = Counter(name for name, _ in told)
    return {brief(name): address for name, address in told if numbers[name] == 1}


def row_anchor(table: str, path: str) -> str:
    """Name a setting in a table of differences."""
    return f"{table} {path}"


def drawn(part: Section, leads: LinkMap = NOWHERE) -> tuple[HtmlFragment, ...]:
    """Draw a part without its title, its inner parts each under its own heading."""
    return tuple(
        HtmlFragment("".join(each.html for each in run), is_chart=is_chart)
        for is_chart, run in groupby(_pieces(part, leads, LEVEL), key=lambda each: each.is_chart)
    )


def _pieces(part: Section, leads: LinkMap, level: int) -> Iterable[HtmlFragment]:
    yield from (HtmlFragment(block_html(block, leads), isinstance(block, Chart)) for block in part.blocks)
    for inner in part.parts:
        if inner.is_aside:
            yield HtmlFragment(_aside(inner, leads), is_chart=False)
            continue
        title, address = markup.text(inner.title), leads.anchors.get(inner.anchor)
        linked = markup.link(address, title) if address else title
        yield HtmlFragment(f"<h{level}>{linked}</h{level}>", is_chart=False)
        yield from _pieces(inner, leads, level + 1)


def _aside(part: Section, leads: LinkMap) -> str:
    """Collapse a part that few will read."""
    inside = "".join(block_html(block, leads) for block in part.blocks)
    return f"<details><summary>{markup.text(part.title)}</summary>{inside}</details>"


def block_html(block: Block, leads: LinkMap = NOWHERE) -> str:  # noqa: PLR0911  # one for each block
    """Draw one block."""
    match block:
        case Gauges():
            return _table(block.table, leads)
        case Columns():
            return "".join(block_html(each, leads) for column in block.columns for each in column)
        case Paragraph():
            return _paragraph(block, leads)
        case Figures():
            return markup.cards(_figure(each, leads) for each in block.items)
        case Entries():
            return entries_html(block.items, leads)
        case Table():
            return _table(block, leads)
        case DifferenceTable():
            return _differences(block, leads)
        case Chart():
            return f'<figure class="drawing">{to_svg(block, standalone=False)}</figure>'


def entries_html(entries: tuple[Entry, ...], leads: LinkMap = NOWHERE, fold: Collapse = OPEN) -> str:
    """Draw statements as a list. `fold` says what of each one is read on demand."""
    return markup.entries(entry_parts(entry, leads, fold) for entry in entries)


def entry_parts(entry: Entry, leads: LinkMap = NOWHERE, fold: Collapse = OPEN) -> tuple[str, str, str]:
    """Return the kind of an entry's stripe, what it says, and what stands at its right."""
    mark = f"{markup.glyph(entry.tone, f'{entry.tone}:')} " if entry.tone is not Tone.PLAIN else ""
    if entry.anchor in leads.anchors:  # a link holds no other one
        head = markup.link(leads.anchors[entry.anchor], line_html(entry.head))
    else:
        head = line_html(entry.head, leads)
    lines = [f"<small>{line_html(line, leads)}</small>" for line in entry.lines]
    shown = len(lines) if fold.shown is None else fold.shown
    rest = "".join([*lines[shown:], *(f"<pre>{markup.text(each)}</pre>" for each in entry.snippets)])
    noted = "".join(map(noted_html, entry.notes))
    if rest and fold.shown is not None:
        rest = f"<details><summary>{markup.text(fold.title)}</summary>{rest}</details>"
    return (
        entry.tone,
        f"{mark}{head}{''.join(lines[:shown])}{rest}{noted}",
        _linked(markup.text(entry.side_text), leads),
    )


def noted_html(line: Line) -> str:
    """Draw a note that somebody wrote, apart from what we say."""
    return f'<blockquote class="noted">{line_html(line)}</blockquote>'


def line_html(line: Line, leads: LinkMap = NOWHERE) -> str:
    """Draw one line of text."""
    return "".join(_piece(piece, leads) for piece in line)


def _piece(piece: Piece, leads: LinkMap) -> str:
    drawn = _STYLES[piece.style](piece.text).replace("\n", "<br>")
    if address := leads.anchors.get(piece.target.anchor if piece.target else ""):
        return markup.link(address, drawn)
    return drawn if piece.style is Style.CODE else _linked(drawn, leads)


def _linked(drawn: str, leads: LinkMap) -> str:
    """Make links of the replicas that are named in HTML without links."""
    if not leads.names:
        return drawn
    return "".join(_word(each, leads) for each in _BETWEEN.split(drawn))


def _word(drawn: str, leads: LinkMap) -> str:
    address = leads.names.get(unescape(drawn))
    return markup.link(address, drawn) if address else drawn


def _paragraph(block: Paragraph, leads: LinkMap) -> str:
    inside = line_html(block.line, leads)
    if block.tone is Tone.PLAIN:
        return f"<p>{inside}</p>"
    return markup.notice(block.tone, f"{markup.glyph(block.tone, f'{block.tone}:')} {inside}")


def _figure(figure: Figure, leads: LinkMap) -> str:
    mark = markup.glyph(figure.tone, "") if figure.tone is not Tone.PLAIN else ""
    value, note = f"{mark}{markup.text(figure.value)}", markup.parts(figure.note)
    return markup.card(
        figure.label, value, note, address=leads.anchors.get(figure.target.anchor if figure.target else "")
    )


def _table(block: Table, leads: LinkMap) -> str:
    head = [(column.title, _kind(column)) for column in block.columns]
    rows = [[_first(row[0], leads), *(_cell(cell, leads) for cell in row[1:])] for row in block.rows]
    note = f'<div class="foot">{markup.text(block.note)}</div>' if block.note else ""
    left = len(rows) - MOST_ROWS
    shown = rows if left <= FEW else rows[:MOST_ROWS]
    return markup.table(block.caption, head, shown) + _more(block.caption, head, rows[len(shown) :]) + note


def _more(caption: str, head: list[tuple[str, str]], rows: list[list[str]]) -> str:
    """Collapse the rest of a long table."""
    if not rows:
        return ""
    return f"<details><summary>and {len(rows):,} more</summary>{markup.table(caption, head, rows)}</details>"


def _kind(column: Column) -> str:
    return "number" if column.is_number else "code" if column.is_code else ""


def _first(cell: Cell, leads: LinkMap) -> str:
    address = leads.rows.get(cell.text)
    return markup.link(address, markup.bold(cell.text)) if address else _cell(cell, leads)


def _cell(cell: Cell, leads: LinkMap) -> str:
    word = "" if str(cell.tone) in cell.text.lower() else f"{cell.tone}:"  # read aloud once
    mark = f"{markup.glyph(cell.tone, word)} " if cell.tone is not Tone.PLAIN else ""
    letter = f"{markup.letter(cell.letter)} " if cell.letter else ""
    shown = markup.text(cell.text)
    day = f'<span class="day">{shown}</span>' if _DATE.fullmatch(cell.text) else _linked(shown, leads)
    return f"{mark}{letter}{day}"


def _differences(block: DifferenceTable, leads: LinkMap) -> str:
    notes = "".join(f'<div class="foot">{markup.text(note)}</div>' for note in block.notes)
    anchors = {row.path: row_anchor(block.name, row.path) for row in block.matrix.rows}
    drawn = matrix_html(
        block.matrix,
        block.names,
        caption=block.caption,
        corner="Setting",
        kinds=block.kinds,
        addresses={path: leads.anchors[anchor] for path, anchor in anchors.items() if anchor in leads.anchors},
    )
    return drawn + notes
