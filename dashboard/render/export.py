"""The formats of views, which `report` and Share offer, and those of `check`: each with what writes it."""

import io
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Literal, assert_never

from dashboard.analysis.assembly import Fleet
from dashboard.documents.findings import findings_json
from dashboard.render.github_annotations import to_github_annotations
from dashboard.render.html import to_html
from dashboard.render.junit import to_junit
from dashboard.render.markdown import to_markdown
from dashboard.render.pdf import to_pdf
from dashboard.render.sarif import to_sarif
from dashboard.render.svg import to_svg
from dashboard.render.svg_timeline import draw_times
from dashboard.render.tabular import entries_table, to_report_json, to_table_csv
from dashboard.render.terminal import to_terminal
from dashboard.render.verdict import Verdict
from dashboard.rules.findings import Severity
from dashboard.views.blocks import Chart, DifferenceTable, Entries, PlainBlock, Section, Table, View, flat_blocks
from dashboard.views.command_line import check_summary, check_view
from dashboard.views.context import context_line
from dashboard.views.time_chart import TimeChart

_NEW_YEAR_1980 = (1980, 1, 1, 0, 0, 0)  # the first time that a zip file can hold: no clock, so the same bytes


# What the findings of a fleet can be written as.
CheckFormat = Literal["table", "json", "markdown", "junit", "sarif", "github"]


class Format(StrEnum):
    """What a view can be written as."""

    HTML = "html"
    PDF = "pdf"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"
    SVG = "svg"

    @property
    def label(self) -> str:
        return {Format.MARKDOWN: "Markdown", Format.CSV: "CSV (zip)", Format.SVG: "SVG (zip)"}.get(self, self.upper())

    @property
    def suffix(self) -> str:
        """Return how a file's name ends: tables and charts are as many as a view has, so they are one zip file."""
        return {Format.MARKDOWN: "md", Format.CSV: "csv.zip", Format.SVG: "svg.zip"}.get(self, self.value)


def written(view: View, output: Format) -> bytes:
    """Return a view in a format; raise ReportError where PDF cannot be written. The same view gives the same bytes."""
    match output:
        case Format.HTML:
            return to_html(view).encode()
        case Format.PDF:
            return to_pdf(to_html(view))
        case Format.MARKDOWN:
            return to_markdown(view).encode()
        case Format.CSV:
            return _zip({f"{each.name}.csv": to_table_csv(each, view.context) for each in _tables(view)})
        case Format.JSON:
            return to_report_json(view).encode()
        case Format.SVG:
            return _charts_zip(view)


def written_check(
    output: CheckFormat,
    fleet: Fleet,
    verdict: Verdict,
    fail_on: Severity | None,
    *,
    at: datetime,
    options: str,
    width: int,
    colour: bool,
    is_brief: bool = False,
) -> str:
    """Return a fleet and its verdict in a format; `options` is the path of the options, `width` the terminal's.

    `is_brief`: a table has its summary only.
    """
    match output:
        case "json":
            return f"{findings_json(fleet, at, left_out=verdict.left_out, indent=2).decode()}\n"
        case "junit":
            return to_junit(fleet, fail_on, verdict)
        case "sarif":
            return to_sarif(fleet, verdict, options)
        case "github":
            return to_github_annotations(fleet, verdict)
        case "markdown":
            return to_markdown(check_view(fleet, verdict.left_out))
        case "table":
            view = check_view(fleet, verdict.left_out)
            parts = () if is_brief else view.parts
            return to_terminal(replace(view, parts=(*parts, check_summary(fleet))), width=width, colour=colour)
        case _:
            assert_never(output)


def _zip(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, _NEW_YEAR_1980)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, text.encode())
    return out.getvalue()


def _charts_zip(view: View) -> bytes:
    blocks, context = [block for _, block in _blocks(view.parts)], context_line(view.context)
    charts = {f"{each.name}.svg": to_svg(each, context=context) for each in blocks if isinstance(each, Chart)}
    times = {f"{each.name}.svg": draw_times(each, context=context) for each in blocks if isinstance(each, TimeChart)}
    return _zip(charts | times)


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
        return block.data
    return block if isinstance(block, DifferenceTable) else None


def _add(alike: list[Table | DifferenceTable], table: Table | DifferenceTable) -> None:
    for place, there in enumerate(alike):
        if isinstance(there, Table) and isinstance(table, Table) and there.columns == table.columns:
            alike[place] = replace(there, rows=tuple(dict.fromkeys((*there.rows, *table.rows))))
            return
    alike.append(table)


def _blocks(parts: Iterable[Section]) -> Iterator[tuple[Section, PlainBlock]]:
    for part in parts:
        yield from ((part, block) for block in flat_blocks(part.blocks))
        yield from _blocks(part.parts)
