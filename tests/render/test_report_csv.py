"""A table of a report as CSV says where its data is from, and runs in no spreadsheet."""

import csv
import io

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from dashboard.render.csv_table import to_table_csv
from dashboard.views.blocks import Cell, Column, Table, data_table, list_cell, number_cell
from dashboard.views.context import context_line
from tests.builders import HOSTILE, story
from tests.sample_reports import CONTEXT, differences

COLUMNS = (Column("pool"), Column("tokens", is_number=True))


def table(*rows: tuple[Cell, ...], note: str = "", caption: str = "Pools") -> Table:
    return Table("pools", caption, COLUMNS, rows, note)


def test_letters_have_a_column_of_their_own_so_that_names_can_be_looked_up() -> None:
    both = table((Cell("chat-0", letter="B"), number_cell("1", 1)), (Cell("chat-1"), number_cell("2", 2)))
    alone = table((Cell("", letter="A"), number_cell("1", 1)))

    assert to_table_csv(both, CONTEXT).endswith("\ncohort,pool,tokens\nB,chat-0,1\n,chat-1,2\n")
    assert to_table_csv(alone, CONTEXT).endswith("\ncohort,tokens\nA,1\n")


def test_numbers_are_plain_with_their_unit_in_the_head_and_what_is_no_number_is_empty() -> None:
    """A text such as `not known` in a column of numbers would keep a spreadsheet from adding it up."""
    columns = (Column("tokens", is_number=True), Column("to the median", is_number=True, unit="%"))
    rows = (
        (number_cell("≤ 1,000", 1000), number_cell("−18 %", -17.95)),
        (number_cell("1,200,000", 1_200_000.0), Cell("not known")),
        (number_cell("much", float("inf")), number_cell("", None)),
    )
    text = to_table_csv(Table("t", "T", columns, rows), CONTEXT)

    assert text.endswith("\ntokens,to_the_median_percent\n1000,-17.95\n1200000,\n,\n")


def test_a_list_is_whole_and_a_yes_is_a_word() -> None:
    columns = (Column("who"), Column("paste"), Column("is_rollout"))
    cut = (list_cell("a, b and 1 more", ("a", "b", "c")), list_cell("", ("--x 1",)), Cell("", value=True))
    text = to_table_csv(Table("t", "T", columns, (cut,)), CONTEXT)

    assert text.endswith('\nwho,paste,is_rollout\n"a, b, c",\'--x 1,true\n')
    assert to_table_csv(data_table("t", "T", columns[:1], [[None]]), CONTEXT).endswith('\nwho\n""\n')


def test_differences_are_written_as_their_page_writes_them() -> None:
    lines = to_table_csv(differences(story()), CONTEXT).splitlines()

    assert lines[:3] == [f"# {context_line(CONTEXT)}", "# Settings that differ in chat-70b", "# 9 equal, 41 identity"]
    assert lines[3] == "path,A x15,B x1 chat-70b-17,C x1 chat-70b-16"
    assert "cache_config.block_size,16,32,16" in lines


def test_pandas_reads_it() -> None:
    frame = pd.read_csv(io.StringIO(to_table_csv(table((Cell("a"), number_cell("5 tokens", 5))), CONTEXT)), comment="#")

    assert frame.to_dict("records") == [{"pool": "a", "tokens": 5}]


@given(st.text(max_size=30))
def test_no_cell_begins_like_a_formula_or_breaks_its_row(text: str) -> None:
    columns = (Column("pool"), Column("replicas"))
    rows_of_both = ((Cell(text), list_cell("", (HOSTILE, text))), (Cell("=1+1"), Cell(text, letter=text)))
    written = to_table_csv(Table("t", "T", columns, rows_of_both), CONTEXT)
    rows = list(csv.reader(io.StringIO(written.partition(",replicas\n")[2])))

    assert [len(row) for row in rows] == [3 if text else 2] * 2
    assert not any(cell.lstrip().startswith(("=", "+", "-", "@")) for row in rows for cell in row)
