"""A report as a file: which formats there are, what each is called, and what is in it."""

import io
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum

from dashboard.render.csv_table import entries_table, to_table_csv
from dashboard.render.html_page import to_html
from dashboard.render.markdown import to_markdown
from dashboard.render.pdf import to_pdf
from dashboard.render.report_json import to_report_json
from dashboard.render.svg_chart import to_svg
from dashboard.views.blocks import Chart, DifferenceTable, Entries, PlainBlock, Section, Table, View, flat_blocks
from dashboard.views.context import context_line

_NEW_YEAR_1980 = (1980, 1, 1, 0, 0, 0)  # the first time that a zip file can hold: no clock, so the same bytes


class Format(StrEnum):
    """What a report can be written as."""

    HTML = "html"
    PDF = "pdf"
    MARKDOWN = "markdown"
    JSON = "json"
    CSV = "csv"
    SVG = "svg"


# How each file's name ends. Tables and charts are as many as the report has: they come as one zip file.
SUFFIXES = {
    Format.HTML: "html",
    Format.PDF: "pdf",
    Format.MARKDOWN: "md",
    Format.JSON: "json",
    Format.CSV: "csv.zip",
    Format.SVG: "svg.zip",
}
_TEXT = {Format.HTML: to_html, Format.MARKDOWN: to_markdown, Format.JSON: to_report_json}


def written(report: View, output: Format) -> bytes:
    """Write a report; raise ReportError where PDF cannot be written. The same report gives the same bytes."""
    if output in _TEXT:
        return _TEXT[output](report).encode()
    if output is Format.PDF:
        return to_pdf(to_html(report))
    if output is Format.CSV:
        return _zip({f"{each.name}.csv": to_table_csv(each, report.context) for each in _tables(report)})
    return _zip({f"{each.name}.svg": to_svg(each, context=context_line(report.context)) for each in _charts(report)})


def _zip(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, _NEW_YEAR_1980)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, text.encode())
    return out.getvalue()


def _tables(report: View) -> Iterator[Table | DifferenceTable]:
    """Yield the tables of a report, and its lists as tables, as programs read them.

    Those of one name and the same columns are one, with each row once; of other equal names the later ones are
    numbered.
    """
    found: dict[str, list[Table | DifferenceTable]] = {}
    for part, block in _blocks(report.parts):
        table = _data(part, block)
        if table is not None:
            _add(found.setdefault(table.name, []), table)
    for alike in found.values():
        for place, table in enumerate(alike):
            yield replace(table, name=f"{table.name}-{place + 1}") if place else table


def _data(part: Section, block: PlainBlock) -> Table | DifferenceTable | None:
    if isinstance(block, Entries):
        return entries_table(block, part.anchor, part.title) if block.data is None else block.data
    if isinstance(block, Table):
        return block.data or block
    return block if isinstance(block, DifferenceTable) else None


def _add(alike: list[Table | DifferenceTable], table: Table | DifferenceTable) -> None:
    for place, there in enumerate(alike):
        if isinstance(there, Table) and isinstance(table, Table) and there.columns == table.columns:
            alike[place] = replace(there, rows=tuple(dict.fromkeys((*there.rows, *table.rows))))
            return
    alike.append(table)


def _charts(report: View) -> Iterator[Chart]:
    return (block for _, block in _blocks(report.parts) if isinstance(block, Chart))


def _blocks(parts: Iterable[Section]) -> Iterator[tuple[Section, PlainBlock]]:
    for part in parts:
        yield from ((part, block) for block in flat_blocks(part.blocks))
        yield from _blocks(part.parts)
