"""Reports for programs: a table as CSV, with the context of its data as a comment above; a whole report as JSON.

In JSON tables are columns and rows, charts numbers, differences by path. docs/report.schema.json says which keys each
of them has.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pydantic_core import to_jsonable_python

from dashboard.compare import MatrixColumn
from dashboard.documents import native, pick
from dashboard.documents.findings import past_object, sighted
from dashboard.fleet import State
from dashboard.fleet.formatting import FORMULA, csv_cell, iso, one_line, plain_value, safe_json
from dashboard.fleet.history import Sighting
from dashboard.fleet.pieces import to_plain
from dashboard.views import blocks
from dashboard.views.context import Context, context_line
from dashboard.views.setting import PoolValue
from dashboard.views.time_chart import TimeChart
from dashboard.vllm.field_reference import declarations, known_sentences

_IN_COMMENT = re.compile(FORMULA.pattern.replace("<=;", "<=[;,]"))  # no quotes keep a comma from separating
LETTERS = "Cohort"  # head of the column with the letters that stand before the texts of another one
UNIT_NAMES = {"%": "percent"}
_COHORT = re.compile(r"[A-Z]+ x\d+")
_BETWEEN_WORDS = re.compile(r"[^0-9a-z]+")
BETWEEN = ", "  # entries of a list in one cell
SCHEMA_VERSION = 1  # of the JSON


def to_table_csv(table: blocks.Table | blocks.DifferenceTable, context: Context) -> str:
    """Write a table whole: a line of heads, a line for each row, above them comments that begin with `#`.

    Numbers are plain, and what is not known is empty. No text begins like a formula. The letters of cohorts have a
    column of their own.
    """
    notes = [context_line(context), table.caption]
    if not isinstance(table, blocks.Table):
        return matrix_csv(table, [*notes, *table.notes])
    heads, columns = zip(*_columns(table), strict=True)
    return _file([*notes, table.note], heads, zip(*columns, strict=True))


def entries_table(entries: blocks.Entries, name: str, caption: str) -> blocks.Table:
    """Return a list of statements as a table, a row each: how bad, what, where, what more, what to paste."""
    heads = ("severity", "what", "where", "more", "paste")
    return blocks.Table(name, caption, tuple(map(blocks.Column, heads)), tuple(map(_row, entries.items)))


def head_of(column: blocks.Column) -> str:
    """Return the head of a column in lower case with underscores: `kv_tokens`, `to_the_median_percent`.

    Cohorts are written as in the matrix: `A x14`.
    """
    title = f"{column.key or column.title} {UNIT_NAMES.get(column.unit, column.unit)}".replace("×", "x").strip()
    return (
        title if _COHORT.fullmatch(title) else _BETWEEN_WORDS.sub("_", title.replace("%", "percent").lower()).strip("_")
    )


def _columns(table: blocks.Table) -> Iterator[tuple[str, list[str]]]:
    for place, column in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        has_letters = any(cell.letter for cell in cells)
        if has_letters:
            yield LETTERS.lower(), [csv_cell(cell.letter) for cell in cells]
        if not has_letters or any(cell.text for cell in cells):
            yield head_of(column), [_written(blocks.value_of(cell, column)) for cell in cells]


def _written(value: blocks.DataValue | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str | tuple):
        return csv_cell(value if isinstance(value, str) else BETWEEN.join(value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value + 0:.0f}" if isinstance(value, float) and value.is_integer() else f"{value}"  # no -0


def _row(entry: blocks.Entry) -> tuple[blocks.Cell, ...]:
    tone = "" if entry.tone is blocks.Tone.PLAIN else entry.tone
    more = " ".join(map(to_plain, (*entry.lines, *entry.notes)))
    cells = map(blocks.Cell, (tone, to_plain(entry.head), entry.side_text, more))
    return (*cells, blocks.Cell("", value=tuple(entry.snippets)))


def matrix_csv(table: blocks.DifferenceTable, notes: Sequence[str] = ()) -> str:
    """Write the matrix whole: values are JSON text, uncut; strings have quotes only if they read as JSON.

    `notes` are comment lines above the table. The measures are the first rows, sightings the last columns.
    """
    matrix, sightings = table.matrix, table.sightings
    times = Sighting._fields if sightings else ()
    heads = ("path", *(_matrix_head(column, table.names) for column in matrix.columns), *times)
    texts = (
        [
            row.path,
            *(plain_value(each.value) if each.value else each.text for each in row.cells),
            *(iso(each) if each else "" for each in sightings.get(row.path) or (None,) * len(times)),
        ]
        for row in matrix.rows
    )
    measured = (
        [title, *(_measure(cells.get(column.key)) for column in matrix.columns), *("" for _ in times)]
        for title, cells in table.measures
    )
    return _file(notes, heads, (map(csv_cell, row) for row in chain(measured, texts)))


def _measure(cell: blocks.Cell | None) -> str:
    """Return the number of a cell; without one its text, and nothing for a column without replicas."""
    return "" if cell is None else cell.text if cell.value is None else str(cell.value)


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
    alone = names.get(column.only, column.only)
    return f"{column.key} x{column.count} {alone}".rstrip() if column.is_cohort else alone or column.title


def to_report_json(report: blocks.View) -> str:
    """Return a report as a JSON document, indented by two. The same report gives the same text.

    Halves of surrogate pairs, which UTF-8 does not have, are replaced.
    """
    document = {
        "schema_version": SCHEMA_VERSION,
        **pick(report, ("title", "headline", "lead")),
        "context": _context_object(report.context),
        "parts": [_section_object(part) for part in report.parts],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False, default=to_jsonable_python)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return f"{safe_json(whole.encode()).decode()}\n"


def _context_object(context: Context) -> dict[str, Any]:
    return {
        **pick(context, ("fleet", "data_as_of", "answered", "targets", "snapshot")),
        "past": past_object(context.past),
        "name": context.name,
        "filters": [{"name": name, "value": value} for name, value in context.filters],
        **pick(context, ("program_version", "rule_set")),
        "line": context_line(context),
    }


def _section_object(part: blocks.Section) -> dict[str, Any]:
    shown = (block for block in blocks.flat_blocks(part.blocks) if not isinstance(block, TimeChart))
    return {
        **pick(part, ("anchor", "title", "is_appendix")),
        "blocks": [_block_object(block) for block in shown],
        "parts": [_section_object(each) for each in part.parts],
    }


def _block_object(block: blocks.PlainBlock) -> dict[str, Any]:
    match block:
        case blocks.Paragraph():
            return {"kind": "paragraph", "tone": block.tone, "text": to_plain(block.line)}
        case blocks.Figures():
            items = [pick(figure, ("label", "value", "note", "tone")) for figure in block.items]
            return {"kind": "figures", "items": items}
        case blocks.Entries():
            table = block.data and _table_object(block.data)
            return {"kind": "entries", "items": [_entry_object(entry) for entry in block.items], "table": table}
        case blocks.Table() | blocks.FleetMap():
            return _table_object(block.data)
        case blocks.DifferenceTable():
            return _differences_object(block)
        case blocks.Chart():
            return _chart_object(block)
    raise TypeError(type(block))


def _entry_object(entry: blocks.Entry) -> dict[str, Any]:
    return {
        "tone": entry.tone,
        "head": to_plain(entry.head),
        "side": entry.side_text,
        "lines": [to_plain(line) for line in (*entry.lines, *entry.notes)],
        "snippets": entry.snippets,
    }


def _table_object(table: blocks.Table) -> dict[str, Any]:
    """Return the values of a table: numbers plain, unknown null. Marks have cells with a tone or a cohort's letter."""
    return {
        "kind": "table",
        **pick(table, ("name", "caption")),
        "columns": [
            {"title": column.key or column.title, "is_number": column.is_number, "unit": column.unit}
            for column in table.columns
        ],
        "rows": [list(map(blocks.value_of, row, table.columns)) for row in table.rows],
        "marks": [
            {"row": row, "column": column, "tone": cell.tone, "letter": cell.letter}
            for row, cells in enumerate(table.rows)
            for column, cell in enumerate(cells)
            if cell.tone is not blocks.Tone.PLAIN or cell.letter
        ],
        "note": table.note,
    }


def _differences_object(table: blocks.DifferenceTable) -> dict[str, Any]:
    rows = [
        {
            "path": row.path,
            "differs": row.differs,
            "severity": table.kinds.get(row.path),
            "cells": [{"value": native(cell.value), "state": cell.state} for cell in row.cells],
            **sighted(table.sightings.get(row.path)),
        }
        for row in table.matrix.rows
    ]
    return {
        "kind": "differences",
        **pick(table, ("name", "caption")),
        "columns": [pick(column, ("key", "note", "replicas")) for column in table.matrix.columns],
        "rows": rows,
        "notes": table.notes,
    }


def _chart_object(chart: blocks.Chart) -> dict[str, Any]:
    return {
        "kind": "chart",
        **pick(chart, ("name", "title", "unit")),
        "bars": [
            {**pick(bar, ("label", "value", "is_at_most", "letter", "mark", "tone")), "value": _finite(bar.value)}
            for bar in chart.bars
        ],
        "median": _finite(chart.median),
        "more": chart.more,
    }


def _finite(number: float | None) -> float | None:
    """Return a number; None where it is unknown or not finite."""
    return float(number) if number is not None and math.isfinite(number) else None


def setting_object(path: str, known: Iterable[PoolValue]) -> dict[str, Any]:
    """Return the values of a setting and its declarations as JSON; `value` is null where it is not reported."""
    return {
        "path": path,
        "description": known_sentences().get(path),
        "values": [
            {
                "pool": each.pool or None,
                "value": native(each.value.value) if each.value.state is not State.REDACTED else None,
                "state": str(each.value.state),
                "replicas": [replica.id for replica in each.replicas],
                "cohorts": list(each.cohorts),
                "origins": dict(each.origins),
            }
            for each in known
        ],
        "declared": [
            {
                **each._asdict(),
                "default": None if each.default is None else native(each.default),
                "computed": each.computed or None,
                "flags": list(each.flags),
            }
            for each in declarations(path)
        ],
    }
