"""A report as JSON, for programs: tables as columns and rows, charts as numbers, differences by path.

docs/report.schema.json is made of this module.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import GetCoreSchemaHandler, PlainSerializer
from pydantic_core import CoreSchema, core_schema

from dashboard.compare.columns import MatrixColumn
from dashboard.compare.matrix import MatrixCell, MatrixRow
from dashboard.documents.contract import ADDED, Contract, JsonKey, JsonObject, Native, WithExtraKeys
from dashboard.documents.findings import SIGHTING_KEYS, sighted
from dashboard.fleet.pieces import Text, to_plain
from dashboard.views.blocks import (
    Bar,
    Block,
    Chart,
    Column,
    DifferenceTable,
    Entries,
    Entry,
    Figure,
    Figures,
    Paragraph,
    Section,
    Table,
    Tone,
    View,
    flat_blocks,
    value_of,
)
from dashboard.views.context import Context, context_line
from dashboard.views.time_chart import TimeChart

SCHEMA_VERSION: Literal[1] = 1


class Filter(NamedTuple):
    """What was chosen, as it is in the URL."""

    name: str
    value: str


class Mark(NamedTuple):
    """A cell that is marked, or has a cohort's letter; `row` and `column` count from 0."""

    row: int
    column: int
    tone: Tone
    letter: str


class Blocks:
    """One of several objects, by its key `kind`."""

    def __init__(self, objects: dict[type, JsonObject]) -> None:
        """Keep the objects by the type of the block."""
        self._objects = objects

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Write a block as the object of its type."""
        choices = {
            kind: handler.generate_schema(each.typed_dict)
            for each in self._objects.values()
            for kind in get_args(each.keys[0].type)
        }
        return core_schema.any_schema(
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda block: self._objects[type(block)].written(block),
                return_schema=core_schema.tagged_union_schema(choices, discriminator="kind"),
            )
        )


def to_report_json(report: View) -> str:
    """Return a report as a JSON document, indented by two. The same report gives the same text."""
    return f"{REPORT.dump(report, indent=2).decode()}\n"


def _writable(text: str) -> str:
    """Replace halves of surrogate pairs, which UTF-8 does not have."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _finite(attribute: str) -> Callable[[Any], float | None]:
    def finite(value: Any) -> float | None:
        number: float | None = getattr(value, attribute)
        return float(number) if number is not None and math.isfinite(number) else None

    return finite


def _blocks(part: Section) -> tuple[Block, ...]:
    """Return the blocks of a part; a table is the one for programs, where it has one. Tables have all of a timeline."""
    known = (block for block in flat_blocks(part.blocks) if not isinstance(block, TimeChart))
    return tuple(block.data if isinstance(block, Table) else block for block in known)


def _marks(table: Table) -> tuple[Mark, ...]:
    return tuple(
        Mark(row, column, cell.tone, cell.letter)
        for row, cells in enumerate(table.rows)
        for column, cell in enumerate(cells)
        if cell.tone is not Tone.PLAIN or cell.letter
    )


def _rows(table: DifferenceTable) -> tuple[WithExtraKeys, ...]:
    return tuple(
        WithExtraKeys(row, {"severity": table.kinds.get(row.path), **sighted(table.sightings.get(row.path))})
        for row in table.matrix.rows
    )


def _kind(name: str) -> JsonKey:
    return JsonKey("kind", Literal[name], lambda _: name)


WritableText = Annotated[str, PlainSerializer(_writable, return_type=str)]
CellValue = bool | int | float | WritableText | tuple[WritableText, ...] | None
CONTRACT = Contract(
    types={
        str: WritableText,
        Text: Annotated[Any, PlainSerializer(lambda line: _writable(to_plain(line)), return_type=str)],
    }
)
CONTRACT.object(Figure, "label", "value", "note", "tone")
CONTRACT.object(
    Entry,
    "tone",
    "head",
    JsonKey("side", WritableText, "side_text"),
    JsonKey("lines", of=lambda each: (*each.lines, *each.notes), type=tuple[Text, ...]),
    "snippets",
)
CONTRACT.object(
    Column,
    JsonKey("title", WritableText, "key_or_title"),
    "is_number",
    JsonKey("unit", doc="where the title does not name it"),
)
CONTRACT.object(MatrixColumn, "key", "note", "replicas")
CONTRACT.object(
    MatrixRow,
    "path differs",
    JsonKey("severity", str | None, ADDED, "of the finding that names it"),
    "cells",
    *SIGHTING_KEYS,
)
CONTRACT.object(MatrixCell, JsonKey("value", Native, "value", "null: none, or the option is not set"), "state")
CONTRACT.object(
    Bar,
    "label",
    JsonKey("value", float | None, _finite("value"), "null: unknown"),
    "is_at_most",
    "letter",
    "mark",
    "tone",
)
TABLE = CONTRACT.object(
    Table,
    _kind("table"),
    "name caption columns",
    JsonKey(
        "rows",
        tuple[tuple[CellValue, ...], ...],
        lambda table: tuple(tuple(map(value_of, row, table.columns)) for row in table.rows),
        "numbers plain, unknown null",
    ),
    JsonKey("marks", tuple[Mark, ...], _marks),
    "note",
)
BLOCKS = {
    Paragraph: CONTRACT.object(Paragraph, _kind("paragraph"), "tone", JsonKey("text", of="line")),
    Figures: CONTRACT.object(Figures, _kind("figures"), "items"),
    Entries: CONTRACT.object(
        Entries, _kind("entries"), "items", JsonKey("table", of="data", doc="the same for programs, where there is one")
    ),
    Table: TABLE,
    DifferenceTable: CONTRACT.object(
        DifferenceTable,
        _kind("differences"),
        "name caption",
        JsonKey("columns", tuple[MatrixColumn, ...], "matrix.columns"),
        JsonKey("rows", tuple[MatrixRow, ...], _rows),
        "notes",
        name="Differences",
    ),
    Chart: CONTRACT.object(
        Chart,
        _kind("chart"),
        "name title unit bars",
        JsonKey("median", float | None, _finite("median")),
        "more",
    ),
}
CONTRACT.object(
    Section,
    "anchor title is_appendix",
    JsonKey("blocks", tuple[Annotated[Any, Blocks(BLOCKS)], ...], _blocks),
    "parts",
)
CONTRACT.object(
    Context,
    "fleet data_as_of answered targets",
    JsonKey("snapshot", doc="id of the frozen snapshot; null: not frozen"),
    JsonKey("past", doc="the time in the history; null: a snapshot, or not frozen"),
    JsonKey("name", doc="of the snapshot"),
    JsonKey("filters", tuple[Filter, ...], lambda each: tuple(Filter(*pair) for pair in each.filters)),
    "program_version rule_set",
    JsonKey("line", str, context_line, "all of it, as people read it"),
)
REPORT = CONTRACT.object(
    View,
    JsonKey("schema_version", Literal[1], lambda _: SCHEMA_VERSION),
    "title headline lead context parts",
    name="ReportDocument",
)
