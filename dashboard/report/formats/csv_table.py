"""One table of a report as CSV, with the context of its data as a comment above."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from dashboard.report.blocks import Cell, Column, Entries, Line, Table, Tone
from dashboard.report.context import context_line
from dashboard.report.formats.matrix_csv import matrix_csv, safe
from dashboard.wording import one_line

if TYPE_CHECKING:
    from dashboard.report.blocks import DifferenceTable, Entry
    from dashboard.report.context import Context


def to_table_csv(table: Table | DifferenceTable, context: Context) -> str:
    """Write a table whole: a line of heads, a line for each row, above them comments that begin with `#`.

    No cell begins like a formula. A cohort's letter stands before the text of its cell.
    """
    notes = [context_line(context), table.caption]
    if not isinstance(table, Table):
        return matrix_csv(table.matrix, [*notes, *table.notes], table.names)
    out = io.StringIO()
    out.writelines(f"# {one_line(note)}\n" for note in [*notes, table.note] if note)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([safe(column.title) for column in table.columns])
    writer.writerows([safe(_text(cell)) for cell in row] for row in table.rows)
    return out.getvalue()


def entries_table(entries: Entries, name: str, caption: str) -> Table:
    """Return a list of statements as a table, a row each: how bad, what, where, what more, what to paste."""
    heads = ("severity", "what", "where", "more", "paste")
    return Table(name, caption, tuple(map(Column, heads)), tuple(map(_row, entries.items)))


def _row(entry: Entry) -> tuple[Cell, ...]:
    told = "" if entry.tone is Tone.PLAIN else entry.tone
    more = " ".join(map(_said, (*entry.lines, *entry.notes)))
    return tuple(map(Cell, (told, _said(entry.head), entry.side, more, " ".join(entry.snippets))))


def _said(line: Line) -> str:
    return "".join(piece.text for piece in line)


def _text(cell: Cell) -> str:
    return f"{cell.letter} {cell.text}".strip() if cell.letter else cell.text
