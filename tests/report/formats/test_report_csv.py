"""A table of a report as CSV says where its data is from, and runs in no spreadsheet."""

from __future__ import annotations

import csv
import io

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from dashboard.report.blocks import Cell, Column, Table
from dashboard.report.context import context_line
from dashboard.report.formats.csv_table import to_table_csv
from tests.builders import HOSTILE, story
from tests.report.sample_reports import CONTEXT, differences

COLUMNS = (Column("pool"), Column("tokens", is_number=True))


def table(*rows: tuple[Cell, ...], note: str = "", caption: str = "Pools") -> Table:
    return Table("pools", caption, COLUMNS, rows, note)


def test_its_context_its_caption_and_its_note_are_comments_above() -> None:
    lines = to_table_csv(table((Cell("a"), Cell("1,000")), note="as of now"), CONTEXT).splitlines()

    assert lines == [f"# {context_line(CONTEXT)}", "# Pools", "# as of now", "pool,tokens", 'a,"1,000"']


def test_a_table_without_a_note_has_no_line_for_it() -> None:
    assert to_table_csv(table(), CONTEXT).splitlines()[2:] == ["pool,tokens"]


def test_a_letter_stands_before_its_cell() -> None:
    text = to_table_csv(table((Cell("chat-0", letter="B"), Cell("", letter="A"))), CONTEXT)

    assert text.endswith("\nB chat-0,A\n")


def test_differences_are_written_as_their_page_writes_them() -> None:
    lines = to_table_csv(differences(story()), CONTEXT).splitlines()

    assert lines[:3] == [f"# {context_line(CONTEXT)}", "# Settings that differ in chat-70b", "# 9 equal, 41 identity"]
    assert lines[3] == "path,A x15,B x1 chat-70b-17,C x1 chat-70b-16"
    assert "cache_config.block_size,16,32,16" in lines


def test_pandas_reads_it() -> None:
    frame = pd.read_csv(io.StringIO(to_table_csv(table((Cell("a"), Cell("5"))), CONTEXT)), comment="#")

    assert frame.to_dict("records") == [{"pool": "a", "tokens": 5}]


@given(st.text(max_size=30))
def test_no_cell_begins_like_a_formula_or_breaks_its_row(text: str) -> None:
    written = to_table_csv(table((Cell(text), Cell(HOSTILE + text)), (Cell("=1+1"), Cell(text))), CONTEXT)
    rows = list(csv.reader(io.StringIO(written.partition("pool,tokens\n")[2])))

    assert [len(row) for row in rows] == [2, 2]
    assert not any(cell.lstrip().startswith(("=", "+", "-", "@")) for row in rows for cell in row)
