"""A view as text for a terminal, without its appendices."""

from collections.abc import Iterator
from textwrap import wrap
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from dashboard.fleet.formatting import end_cut
from dashboard.fleet.pieces import Style
from dashboard.fleet.pieces import Text as Line
from dashboard.render.console import printed
from dashboard.views import blocks
from dashboard.views.context import context_line

LONGEST = 1000  # characters of one line
LONGEST_CELL = 200
UNBROKEN, UNBROKEN_NAME = 24, 48  # characters: a column of shorter cells is never folded; the first has names
FOLDED = 12  # characters of a folded column, at least
INDENT = 4
SEVERITIES = {blocks.Tone.CRITICAL: "bold red", blocks.Tone.WARNING: "bold yellow", blocks.Tone.INFO: "bold blue"}
CELL_STYLES = {blocks.Tone.CRITICAL: "red", blocks.Tone.WARNING: "yellow", blocks.Tone.GOOD: "green"}
STYLES = {Style.PLAIN: "", Style.STRONG: "bold", Style.CODE: "cyan", Style.MUTED: "dim", Style.TAG: "dim"}


def to_terminal(view: blocks.View, *, width: int, colour: bool) -> str:
    """Return a view as lines of at most `width` columns. Foreign text loses its control characters."""
    parts: list[RenderableType] = [Text(end_cut(view.headline, LONGEST), "bold"), Text(end_cut(view.lead, LONGEST))]
    for section in view.parts:
        if not section.is_appendix:
            parts += [Text(""), *_section(section)]
    parts += [Text(""), Text(end_cut(context_line(view.context), LONGEST), "dim")]
    return printed(*parts, width=width, colour=colour)


def _section(section: blocks.Section) -> Iterator[RenderableType]:
    yield Text(f"{end_cut(section.title, LONGEST)}:", "bold")
    for block in blocks.flat_blocks(section.blocks):
        yield from _block(block)
    for below in section.parts:
        yield from _section(below)


def _block(block: blocks.PlainBlock) -> Iterator[RenderableType]:
    if isinstance(block, blocks.Paragraph):
        glyph, style = _mark(block.tone)
        mark = Text("") if block.tone is blocks.Tone.PLAIN else Text(f"{glyph}  ", style)
        yield _indented(mark.append_text(_line(block.line)))
    elif isinstance(block, blocks.Figures):
        figures = (f"{each.label} {each.value}{f' ({each.note})' if each.note else ''}" for each in block.items)
        yield _indented(Text(end_cut(" · ".join(figures), LONGEST)))
    elif isinstance(block, blocks.Entries):
        for entry in block.items:
            yield from _entry(entry)
    elif isinstance(block, blocks.FleetMap):
        yield _indented(_Grid(block.data))
    elif isinstance(block, blocks.Table):
        yield _indented(_Grid(block))
        if block.note:
            yield _indented(Text(end_cut(block.note, LONGEST), "dim"))


def _mark(tone: blocks.Tone) -> tuple[str, str]:
    """Return the sign of a tone with the word of a severity, and its style."""
    if tone in SEVERITIES:
        return f"{blocks.SIGNS[tone]} {tone}", SEVERITIES[tone]
    return blocks.SIGNS[tone], "green" if tone is blocks.Tone.GOOD else "dim"


def _entry(entry: blocks.Entry) -> Iterator[RenderableType]:
    glyph, style = _mark(entry.tone)
    side = f"  [{end_cut(entry.side_text, LONGEST)}]" if entry.side_text else ""
    yield _indented(Text.assemble((f"{glyph}  ", style), _line(entry.head), (side, "dim")))
    for line in entry.lines:
        yield _indented(_line(line), 2 * INDENT)
    for snippet in entry.snippets:
        for text in snippet.splitlines():
            yield _indented(Text(end_cut(text, LONGEST), "bold"), 3 * INDENT)


def _line(line: Line) -> Text:
    return Text.assemble(*((end_cut(piece.text, LONGEST), STYLES[piece.style]) for piece in line))


class _Grid(NamedTuple):
    """A table that is laid out once its width is known."""

    block: blocks.Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        columns = list(zip(*(map(_shown, row) for row in self.block.rows), strict=True))
        longest = [max(map(len, texts)) for texts in columns] or [0] * len(self.block.columns)
        heads = [end_cut(column.title).split() for column in self.block.columns]
        narrow = [max(map(len, (*words, ""))) for words in heads]
        needed = [
            max(length, least) for length, least in zip(longest[1:], narrow[1:], strict=True) if length <= UNBROKEN
        ]
        room = options.max_width - min(longest[0], UNBROKEN_NAME) - FOLDED * (len(heads) - 1 - len(needed))
        fits = sum(needed) + 2 * len(heads) <= room
        table = RichTable(box=None, pad_edge=False, header_style="dim")
        for place, column in enumerate(self.block.columns):
            is_short = longest[place] <= (UNBROKEN_NAME if place == 0 else UNBROKEN) and (fits or place == 0)
            head = wrap(" ".join(heads[place]), max(longest[place], narrow[place], 1)) if is_short else [column.title]
            table.add_column(
                Text("\n".join(map(end_cut, head))),
                justify="right" if column.is_number else "left",
                overflow="fold",
                no_wrap=is_short,
            )
        for row in self.block.rows:
            table.add_row(*(Text(_shown(cell), CELL_STYLES.get(cell.tone, "")) for cell in row))
        yield table


def _shown(cell: blocks.Cell) -> str:
    return end_cut(cell.whole_text, LONGEST_CELL)


def _indented(text: RenderableType, columns: int = INDENT) -> RenderableType:
    return Padding(text, (0, 0, 0, columns))
