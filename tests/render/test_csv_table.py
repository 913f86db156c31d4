"""Tables and the matrix as CSV: values for programs, and nothing that a spreadsheet runs."""

import csv
import io
import re
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from dashboard.compare import MAJORITY
from dashboard.compare.matrix import lay_out
from dashboard.fleet.formatting import FORMULA_STARTS, csv_cell
from dashboard.fleet.history import Sighting
from dashboard.render.tabular import matrix_csv, to_table_csv
from dashboard.views.blocks import Cell, Column, DifferenceTable, Table, number_cell
from dashboard.views.pool_comparison import compare_chosen
from tests.builders import HOSTILE, POLLED_AT, alike, document, fleet, story
from tests.sample_reports import CONTEXT
from tests.used import with_traffic

COLUMNS = (Column("pool"), Column("tokens", is_number=True))


def table(*rows: tuple[Cell, ...], note: str = "", caption: str = "Pools") -> Table:
    return Table("pools", caption, COLUMNS, rows, note)


def test_letters_have_a_column_of_their_own_so_that_names_can_be_looked_up() -> None:
    both = table((Cell("chat-0", letter="B"), number_cell("1", 1)), (Cell("chat-1"), number_cell("2", 2)))
    alone = table((Cell("", letter="A"), number_cell("1", 1)))

    assert to_table_csv(both, CONTEXT).endswith("\ncohort,pool,tokens\nB,chat-0,1\n,chat-1,2\n")
    assert to_table_csv(alone, CONTEXT).endswith("\ncohort,tokens\nA,1\n")


def test_numbers_are_plain_with_their_unit_in_the_head_and_what_is_no_number_is_empty() -> None:
    """A text such as `unknown` in a column of numbers would keep a spreadsheet from adding it up."""
    columns = (Column("tokens", is_number=True), Column("to the median", is_number=True, unit="%"))
    rows = (
        (number_cell("≤ 1,000", 1000), number_cell("−18%", -17.95)),
        (number_cell("1,200,000", 1_200_000.0), Cell("unknown")),
        (number_cell("much", float("inf")), number_cell("", None)),
    )
    text = to_table_csv(Table("t", "T", columns, rows), CONTEXT)

    assert text.endswith("\ntokens,to_the_median_percent\n1000,-17.95\n1200000,\n,\n")


def test_a_list_is_whole_and_a_yes_is_a_word() -> None:
    columns = (Column("who"), Column("paste"), Column("is_rollout"))
    cut = (Cell("a, b and 1 more", value=("a", "b", "c")), Cell("", value=("--x 1",)), Cell("", value=True))
    text = to_table_csv(Table("t", "T", columns, (cut,)), CONTEXT)

    assert text.endswith('\nwho,paste,is_rollout\n"a, b, c",\'--x 1,true\n')
    assert to_table_csv(Table("t", "T", columns[:1], ((Cell(""),),)), CONTEXT).endswith('\nwho\n""\n')


@given(st.text(max_size=30))
def test_no_cell_begins_like_a_formula_or_breaks_its_row(text: str) -> None:
    columns = (Column("pool"), Column("replicas"))
    rows_of_both = ((Cell(text), Cell("", value=(HOSTILE, text))), (Cell("=1+1"), Cell(text, letter=text)))
    written = to_table_csv(Table("t", "T", columns, rows_of_both), CONTEXT)
    rows = list(csv.reader(io.StringIO(written.partition(",replicas\n")[2])))

    assert [len(row) for row in rows] == [3 if text else 2] * 2
    assert not any(cell.lstrip().startswith(("=", "+", "-", "@")) for row in rows for cell in row)


def parsed(text: str) -> list[list[str]]:
    """Read it back."""
    return list(csv.reader(io.StringIO(text)))


def test_columns_of_replicas_are_named() -> None:
    """A name where there is one, else the address."""
    built = story()
    pool = built.pools[0]
    shown = lay_out(pool, built.documents, MAJORITY, as_replicas=pool.replicas[:2]).table()
    table = DifferenceTable("settings", "Settings", shown, {pool.replicas[0]: "first"})

    assert parsed(matrix_csv(table))[0] == ["path", "first", pool.replicas[1]]


@given(st.text())
def test_no_text_begins_like_a_formula_or_breaks_a_row(text: str) -> None:
    """Law of every cell."""
    cell = csv_cell(text)

    assert not cell.lstrip().startswith(FORMULA_STARTS) or re.fullmatch(r"-[0-9.]+(e[+-]?[0-9]+)?", cell, re.IGNORECASE)
    assert cell.isprintable()


def test_the_last_columns_have_since_when_a_setting_differs() -> None:
    built = story()
    matrix = lay_out(built.pools[0], built.documents, MAJORITY).table()
    known = DifferenceTable("settings", "Settings", matrix, {})
    came = Sighting(POLLED_AT, POLLED_AT, POLLED_AT - timedelta(minutes=1))
    (heads, *lines) = parsed(matrix_csv(replace(known, sightings={"cache_config.block_size": came})))
    times = {line[0]: line[-3:] for line in lines}

    assert heads[-3:] == ["first_seen", "since", "absent_at"]
    assert times["cache_config.block_size"] == ["2026-03-02T11:42:05Z"] * 2 + ["2026-03-02T11:41:05Z"]
    assert times["cache_config.prefix_caching_hash_algo"] == [""] * 3
    assert "since" not in parsed(matrix_csv(known))[0]


def test_the_first_rows_of_a_matrix_are_what_its_replicas_did() -> None:
    usual, large, old = document(), document({"cache_config.block_size": 32}), document({"version": "0.31.0"})
    members = [*alike("chat", 3, usual), *alike("chat", 1, large, first=4), *alike("chat", 1, old, first=5)]
    used = with_traffic(fleet(members, [usual, large, old]), {"chat-04": 0.04, "chat-05": None}, 0.62)
    settings, _ = compare_chosen(used, used.pools[0])
    heads, rates, shares, *_ = parsed(matrix_csv(settings))

    rate = dict(zip(heads, rates, strict=True))
    assert rate["path"] == "Prefix hit rate"
    assert [rate["A x3"], *sorted(rates[2:])] == ["0.62", "0.04", "not read twice yet"]
    assert shares[:2] == ["Share of prompts", "0.75"]
