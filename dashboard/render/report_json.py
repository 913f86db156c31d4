"""A report as JSON, for programs: tables as columns and rows, charts as numbers, differences by path.

docs/report.schema.json says which keys each object has.
"""

import json
import math
from typing import Any

from pydantic_core import to_jsonable_python

from dashboard.documents import native, pick
from dashboard.documents.findings import past_object, sighted
from dashboard.fleet.formatting import safe_json
from dashboard.fleet.pieces import to_plain
from dashboard.views.blocks import (
    Bar,
    Chart,
    DifferenceTable,
    Entries,
    Entry,
    Figures,
    Paragraph,
    PlainBlock,
    Section,
    Table,
    Tone,
    View,
    flat_blocks,
    value_of,
)
from dashboard.views.context import Context, context_line
from dashboard.views.time_chart import TimeChart

SCHEMA_VERSION = 1


def to_report_json(report: View) -> str:
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


def _section_object(part: Section) -> dict[str, Any]:
    blocks = (block for block in flat_blocks(part.blocks) if not isinstance(block, TimeChart))
    return {
        **pick(part, ("anchor", "title", "is_appendix")),
        "blocks": [_block_object(block) for block in blocks],
        "parts": [_section_object(each) for each in part.parts],
    }


def _block_object(block: PlainBlock) -> dict[str, Any]:
    match block:
        case Paragraph():
            return {"kind": "paragraph", "tone": block.tone, "text": to_plain(block.line)}
        case Figures():
            items = [pick(figure, ("label", "value", "note", "tone")) for figure in block.items]
            return {"kind": "figures", "items": items}
        case Entries():
            table = block.data and _table_object(block.data)
            return {"kind": "entries", "items": [_entry_object(entry) for entry in block.items], "table": table}
        case Table():
            return _table_object(block.data)
        case DifferenceTable():
            return _differences_object(block)
        case Chart():
            return _chart_object(block)
    raise TypeError(type(block))


def _entry_object(entry: Entry) -> dict[str, Any]:
    return {
        "tone": entry.tone,
        "head": to_plain(entry.head),
        "side": entry.side_text,
        "lines": [to_plain(line) for line in (*entry.lines, *entry.notes)],
        "snippets": entry.snippets,
    }


def _table_object(table: Table) -> dict[str, Any]:
    """Return the values of a table: numbers plain, unknown null. Marks have cells with a tone or a cohort's letter."""
    return {
        "kind": "table",
        **pick(table, ("name", "caption")),
        "columns": [
            {"title": column.key_or_title, "is_number": column.is_number, "unit": column.unit}
            for column in table.columns
        ],
        "rows": [list(map(value_of, row, table.columns)) for row in table.rows],
        "marks": [
            {"row": row, "column": column, "tone": cell.tone, "letter": cell.letter}
            for row, cells in enumerate(table.rows)
            for column, cell in enumerate(cells)
            if cell.tone is not Tone.PLAIN or cell.letter
        ],
        "note": table.note,
    }


def _differences_object(table: DifferenceTable) -> dict[str, Any]:
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


def _chart_object(chart: Chart) -> dict[str, Any]:
    return {
        "kind": "chart",
        **pick(chart, ("name", "title", "unit")),
        "bars": [_bar_object(bar) for bar in chart.bars],
        "median": _finite(chart.median),
        "more": chart.more,
    }


def _bar_object(bar: Bar) -> dict[str, Any]:
    written = pick(bar, ("label", "value", "is_at_most", "letter", "mark", "tone"))
    return {**written, "value": _finite(bar.value)}


def _finite(number: float | None) -> float | None:
    """Return a number; None where it is unknown or not finite."""
    return float(number) if number is not None and math.isfinite(number) else None
