"""One table of a report as CSV, with the context of its data as a comment above."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dashboard.compare import Matrix, MatrixColumn
from dashboard.fleet.formatting import FORMULA, csv_cell, one_line, plain_value
from dashboard.fleet.history import NO_SIGHTINGS, Sighting
from dashboard.fleet.pieces import to_plain
from dashboard.render.matrix import cell_text, is_cohort
from dashboard.views.blocks import (
    Cell,
    Column,
    DataValue,
    DifferenceTable,
    Entries,
    Entry,
    Table,
    Tone,
    list_cell,
    value_of,
)
from dashboard.views.context import Context, context_line
from dashboard.views.since import SIGHTING_COLUMNS, sighting_cells

_IN_COMMENT = re.compile(FORMULA.pattern.replace("<=;", "<=[;,]"))  # no quotes keep a comma from separating
LETTERS = "Cohort"  # head of the column with the letters that stand before the texts of another one
UNIT_NAMES = {"%": "percent"}
_COHORT = re.compile(r"[A-Z]+ x\d+")
_BETWEEN_WORDS = re.compile(r"[^0-9a-z]+")
BETWEEN = ", "  # entries of a list in one cell


def to_table_csv(table: Table | DifferenceTable, context: Context) -> str:
    """Write a table whole: a line of heads, a line for each row, above them comments that begin with `#`.

    Numbers are plain, and what is not known is empty. No text begins like a formula. The letters of cohorts have a
    column of their own.
    """
    notes = [context_line(context), table.caption]
    if not isinstance(table, Table):
        return matrix_csv(table.matrix, [*notes, *table.notes], table.names, table.sightings)
    heads, columns = zip(*_columns(table), strict=True)
    return _file([*notes, table.note], heads, zip(*columns, strict=True))


def entries_table(entries: Entries, name: str, caption: str) -> Table:
    """Return a list of statements as a table, a row each: how bad, what, where, what more, what to paste."""
    heads = ("severity", "what", "where", "more", "paste")
    return Table(name, caption, tuple(map(Column, heads)), tuple(map(_row, entries.items)))


def head_of(column: Column) -> str:
    """Return the head of a column in lower case with underscores: `kv_tokens`, `to_the_median_percent`.

    Cohorts are written as in the matrix: `A x14`.
    """
    title = f"{column.key_or_title} {UNIT_NAMES.get(column.unit, column.unit)}".replace("×", "x").strip()
    return (
        title if _COHORT.fullmatch(title) else _BETWEEN_WORDS.sub("_", title.replace("%", "percent").lower()).strip("_")
    )


def _columns(table: Table) -> Iterator[tuple[str, list[str]]]:
    for place, column in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        has_letters = any(cell.letter for cell in cells)
        if has_letters:
            yield LETTERS.lower(), [csv_cell(cell.letter) for cell in cells]
        if not has_letters or any(cell.text for cell in cells):
            yield head_of(column), [_written(value_of(cell, column)) for cell in cells]


def _written(value: DataValue | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str | tuple):
        return csv_cell(value if isinstance(value, str) else BETWEEN.join(value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value + 0:.0f}" if isinstance(value, float) and value.is_integer() else f"{value}"  # no -0


def _row(entry: Entry) -> tuple[Cell, ...]:
    tone = "" if entry.tone is Tone.PLAIN else entry.tone
    more = " ".join(map(to_plain, (*entry.lines, *entry.notes)))
    cells = map(Cell, (tone, to_plain(entry.head), entry.side_text, more))
    return (*cells, list_cell("", entry.snippets))


def matrix_csv(
    matrix: Matrix,
    notes: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    sightings: Mapping[str, Sighting] = NO_SIGHTINGS.findings,
) -> str:
    """Write the matrix whole: values are JSON text, uncut; strings have quotes only if they read as JSON.

    `notes` are comment lines above the table; `names` are the replicas' names by id, `sightings` those of differences
    by path, in the last columns.
    """
    times = SIGHTING_COLUMNS if sightings else ()
    heads = ("path", *(_matrix_head(column, names or {}) for column in matrix.columns), *map(head_of, times))
    texts = (
        [
            row.path,
            *(plain_value(each.value) if each.value else cell_text(each) for each in row.cells),
            *(f"{cell.value or ''}" for cell in sighting_cells(sightings.get(row.path)) if sightings),
        ]
        for row in matrix.rows
    )
    return _file(notes, heads, (map(csv_cell, row) for row in texts))


def _file(notes: Iterable[str], heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write notes as comments, then heads and rows."""
    out = io.StringIO()
    out.writelines(map(comment, filter(None, notes)))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(csv_cell, heads))
    writer.writerows(rows)
    return out.getvalue()


def comment(text: str) -> str:
    return f"# {_IN_COMMENT.sub(chr(39), one_line(text))}\n"


def _matrix_head(column: MatrixColumn, names: Mapping[str, str]) -> str:
    alone = names.get(column.replicas[0], column.replicas[0]) if column.count == 1 else ""
    return f"{column.key} x{column.count} {alone}".rstrip() if is_cohort(column) else alone or column.title
