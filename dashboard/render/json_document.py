"""A report as JSON, for programs: tables as columns and rows, charts as numbers, differences by path.

The models are the contract: docs/report.schema.json is made of them.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, assert_never

from pydantic import BeforeValidator, Field

from dashboard.compare import CellState
from dashboard.fleet.formatting import safe_json
from dashboard.report.parts import Many, NativeValue, Part, Time, native
from dashboard.views import blocks
from dashboard.views.blocks import Block, Line, Tone, View
from dashboard.views.context import Context, context_line

SCHEMA_VERSION: Literal[1] = 1


def _writable(text: object) -> object:
    """Replace halves of surrogate pairs, which no file in UTF-8 can hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(text, str) else text


Text = Annotated[str, BeforeValidator(_writable)]
CellValue = bool | int | float | Text | tuple[Text, ...] | None


class FilterPart(Part):
    """What was chosen, as it stands in the URL."""

    name: Text
    value: Text


class ContextPart(Part):
    """Whose data, of when, how much of it, seen with what."""

    fleet: Text
    data_as_of: Time | None
    answered: int
    targets: int
    snapshot: Text | None = Field(description="id of the frozen snapshot; null: not frozen")
    name: Text = Field(description="what the snapshot is called")
    filters: Many[FilterPart]
    program_version: Text
    rule_set: int
    line: Text = Field(description="all of it, as people read it")


class ParagraphPart(Part):
    """A sentence or more."""

    kind: Literal["paragraph"] = "paragraph"
    tone: Tone
    text: Text


class FigurePart(Part):
    """One number, as people read it."""

    label: Text
    value: Text
    note: Text
    tone: Tone


class FiguresPart(Part):
    """A row of numbers."""

    kind: Literal["figures"] = "figures"
    items: Many[FigurePart]


class EntryPart(Part):
    """One statement, and what can be pasted."""

    tone: Tone
    head: Text
    side: Text
    lines: Many[Text]
    snippets: Many[Text]


class ColumnPart(Part):
    """The head of a column of a table; `unit` where the title does not say it."""

    title: Text
    is_number: bool
    unit: Text


class MarkPart(Part):
    """A cell that stands out, or has a cohort's letter; `row` and `column` count from 0."""

    row: int
    column: int
    tone: Tone
    letter: Text


class TablePart(Part):
    """A table: its cells row by row, numbers plain, and what is marked. What is not known is null."""

    kind: Literal["table"] = "table"
    name: Text
    caption: Text
    columns: Many[ColumnPart]
    rows: Many[Many[CellValue]]
    marks: Many[MarkPart]
    note: Text


class EntriesPart(Part):
    """A list of statements; `table` is the same for programs, where it has one."""

    kind: Literal["entries"] = "entries"
    items: Many[EntryPart]
    table: TablePart | None


class MatrixColumnPart(Part):
    """A cohort or a replica; `key` is its letter or its id."""

    key: Text
    note: Text
    replicas: Many[Text]


class MatrixCellPart(Part):
    """A value and how it stands to the reference; null where there is none, or the option is not set."""

    value: NativeValue
    state: CellState


class MatrixRowPart(Part):
    """A setting with a cell for each column; `severity` of the finding that names it."""

    path: Text
    differs: bool
    severity: Text | None
    cells: Many[MatrixCellPart]


class DifferencesPart(Part):
    """The settings that differ."""

    kind: Literal["differences"] = "differences"
    name: Text
    caption: Text
    columns: Many[MatrixColumnPart]
    rows: Many[MatrixRowPart]
    notes: Many[Text]


class BarPart(Part):
    """One bar; `value` null: not known."""

    label: Text
    value: float | None
    is_at_most: bool
    letter: Text
    mark: Text
    tone: Tone


class ChartPart(Part):
    """Bars over one axis; `more` of them are left out."""

    kind: Literal["chart"] = "chart"
    name: Text
    title: Text
    unit: Text
    bars: Many[BarPart]
    median: float | None
    more: int


BlockPart = Annotated[
    ParagraphPart | FiguresPart | EntriesPart | TablePart | DifferencesPart | ChartPart, Field(discriminator="kind")
]


class SectionPart(Part):
    """A part of the report under its own heading, with parts of its own."""

    anchor: Text
    title: Text
    is_appendix: bool
    blocks: Many[BlockPart]
    parts: Many[SectionPart]


class ReportDocument(Part):
    """A whole report."""

    schema_version: Literal[1] = SCHEMA_VERSION
    title: Text
    headline: Text
    lead: Text
    context: ContextPart
    parts: Many[SectionPart]


def to_report_json(report: View) -> str:
    """Write a report as one JSON document of two spaces' indent. The same report gives the same text."""
    document = ReportDocument(
        title=report.title,
        headline=report.headline,
        lead=report.lead,
        context=_context(report.context),
        parts=tuple(map(_section, report.parts)),
    )
    return safe_json(document.model_dump_json(indent=2).encode()).decode() + "\n"


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    return ReportDocument.model_json_schema(mode="serialization")


def _context(context: Context) -> ContextPart:
    return ContextPart(
        fleet=context.fleet,
        data_as_of=context.data_as_of,
        answered=context.answered,
        targets=context.targets,
        snapshot=context.snapshot,
        name=context.name,
        filters=tuple(FilterPart(name=name, value=value) for name, value in context.filters),
        program_version=context.program_version,
        rule_set=context.rule_set,
        line=context_line(context),
    )


def _section(part: blocks.Section) -> SectionPart:
    return SectionPart(
        anchor=part.anchor,
        title=part.title,
        is_appendix=part.is_appendix,
        blocks=tuple(map(_block, part.blocks)),
        parts=tuple(map(_section, part.parts)),
    )


def _block(block: Block) -> BlockPart:
    match block:
        case blocks.Paragraph():
            return ParagraphPart(tone=block.tone, text=_text(block.line))
        case blocks.Figures():
            return FiguresPart(items=tuple(map(_figure, block.items)))
        case blocks.Entries():
            return EntriesPart(items=tuple(map(_entry, block.items)), table=_table(block.data) if block.data else None)
        case blocks.Table():
            return _table(block.data or block)
        case blocks.DifferenceTable():
            return _differences(block)
        case blocks.Chart():
            return _chart(block)
        case _:
            assert_never(block)


def _text(line: Line) -> str:
    return "".join(piece.text for piece in line)


def _figure(figure: blocks.Figure) -> FigurePart:
    return FigurePart(label=figure.label, value=figure.value, note=figure.note, tone=figure.tone)


def _entry(entry: blocks.Entry) -> EntryPart:
    return EntryPart(
        tone=entry.tone,
        head=_text(entry.head),
        side=entry.side,
        lines=tuple(map(_text, (*entry.lines, *entry.notes))),
        snippets=entry.snippets,
    )


def _table(table: blocks.Table) -> TablePart:
    marks = [
        MarkPart(row=row, column=column, tone=cell.tone, letter=cell.letter)
        for row, cells in enumerate(table.rows)
        for column, cell in enumerate(cells)
        if cell.tone is not Tone.PLAIN or cell.letter
    ]
    return TablePart(
        name=table.name,
        caption=table.caption,
        columns=tuple(ColumnPart(title=each.title, is_number=each.is_number, unit=each.unit) for each in table.columns),
        rows=tuple(tuple(map(blocks.value_of, row, table.columns)) for row in table.rows),
        marks=tuple(marks),
        note=table.note,
    )


def _differences(table: blocks.DifferenceTable) -> DifferencesPart:
    matrix = table.matrix
    columns = [MatrixColumnPart(key=each.key, note=each.note, replicas=each.replicas) for each in matrix.columns]
    rows = [
        MatrixRowPart(
            path=row.path,
            differs=row.differs,
            severity=table.kinds.get(row.path),
            cells=tuple(MatrixCellPart(value=native(cell.value), state=cell.state) for cell in row.cells),
        )
        for row in matrix.rows
    ]
    return DifferencesPart(
        name=table.name, caption=table.caption, columns=tuple(columns), rows=tuple(rows), notes=table.notes
    )


def _chart(chart: blocks.Chart) -> ChartPart:
    bars = [
        BarPart(
            label=bar.label,
            value=_finite(bar.value),
            is_at_most=bar.is_at_most,
            letter=bar.letter,
            mark=bar.mark,
            tone=bar.tone,
        )
        for bar in chart.bars
    ]
    return ChartPart(
        name=chart.name,
        title=chart.title,
        unit=chart.unit,
        bars=tuple(bars),
        median=_finite(chart.median),
        more=chart.more,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
