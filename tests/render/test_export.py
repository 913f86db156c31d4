"""A report as a file: every format, the same bytes twice, all tables and charts in one zip."""

import io
import zipfile
from dataclasses import replace

import pytest

from dashboard.fleet.pieces import plain
from dashboard.render.export import Format, written
from dashboard.views.blocks import Cell, Chart, Column, Entries, Entry, Section, Table, Tone
from tests.sample_reports import meeting

CHEAP = [each for each in Format if each is not Format.PDF]  # which test_pdf.py makes


def held(content: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.mark.parametrize("output", CHEAP)
def test_the_same_report_gives_the_same_bytes(output: Format) -> None:
    assert written(meeting(), output) == written(meeting(), output)


def test_every_table_list_and_chart_is_a_file_with_the_context() -> None:
    blocks = [block for part in meeting().parts for each in (part, *part.parts) for block in each.blocks]
    tables = [block.name for block in blocks if isinstance(block, Table)]
    charts = [block for block in blocks if isinstance(block, Chart)]

    assert {f"{name}.csv" for name in tables} <= set(held(written(meeting(), Format.CSV)))
    assert all(text.startswith("# ") for text in held(written(meeting(), Format.CSV)).values())
    assert set(held(written(meeting(), Format.SVG))) == {f"{chart.name}.svg" for chart in charts}


def test_a_list_becomes_rows_that_no_spreadsheet_runs() -> None:
    entry = Entry(Tone.CRITICAL, plain("=1+1"), "B ×2", (plain("why"), plain("how")), ("--block-size 16",))
    report = replace(meeting(), parts=(Section("findings", "Findings", (Entries((entry,)),)),))

    files = held(written(report, Format.CSV))

    assert set(files) == {"findings.csv"}
    assert files["findings.csv"].splitlines()[-2:] == [
        "severity,what,where,more,paste",
        "critical,'=1+1,B ×2,why how,'--block-size 16",
    ]


def test_tables_of_one_name_are_one_file_with_each_row_once_unless_their_columns_differ() -> None:
    """The critical findings, the warnings, then all of them in an appendix: one file of findings."""
    one, two = ((Cell(text),) for text in ("one", "two"))
    columns = (Column("sentence"),)
    first = Entries((), lambda: Table("findings", "Findings", columns, (one,)))
    other = Table("findings", "Others", (Column("else"),), (two,))
    both = Table("findings", "All", columns, (one, two))
    people = Table("all", "All", (Column("Finding"),), (), for_programs=lambda: both)
    report = replace(meeting(), parts=(Section("p", "P", (first, first, people, other)),))

    files = held(written(report, Format.CSV))

    assert set(files) == {"findings.csv", "findings-2.csv"}
    assert files["findings.csv"].splitlines()[1:] == ["# Findings", "sentence", "one", "two"]
    assert files["findings-2.csv"].splitlines()[2:] == ["else", "two"]
