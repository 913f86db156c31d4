"""Tables that a reader sorts: cells without a value are last, tones ascend from the worst."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet.formatting import NOT_KNOWN
from dashboard.fleet.pieces import page
from dashboard.views.blocks import Cell, Column, Table, Tone, number_cell
from dashboard.views.sorting import sort_names, sort_table

COLUMNS = (Column("Pool"), Column("Findings"), Column("KV tokens", is_number=True))
ROWS = (
    (Cell("chat-10"), Cell("1 info", Tone.INFO), number_cell("7 k", 7_000)),
    (Cell("chat-2"), Cell("1 critical", Tone.CRITICAL), number_cell(NOT_KNOWN, None)),
    (Cell("chat-1"), Cell(NOT_KNOWN), number_cell("12 k", 12_000)),
)
TABLE = Table("pools", "Pools", COLUMNS, ROWS)


@pytest.mark.parametrize(
    ("sort", "pools"),
    [
        ("", ["chat-10", "chat-2", "chat-1"]),
        ("pool", ["chat-1", "chat-2", "chat-10"]),
        ("-pool", ["chat-10", "chat-2", "chat-1"]),
        ("findings", ["chat-2", "chat-10", "chat-1"]),
        ("-findings", ["chat-10", "chat-2", "chat-1"]),
        ("kv-tokens", ["chat-10", "chat-1", "chat-2"]),
        ("-kv-tokens", ["chat-1", "chat-10", "chat-2"]),
    ],
)
def test_a_table_is_sorted_by_its_column_with_unknown_last(sort: str, pools: list[str]) -> None:
    assert [row[0].text for row in sort_table(TABLE, sort, "").rows] == pools


def test_a_head_leads_to_the_sort_by_its_column_and_the_sorted_one_to_the_reverse() -> None:
    pool, findings, tokens = sort_table(TABLE, "findings", "overview").columns

    assert (pool.link, pool.order) == (page("overview", sort="pool"), "")
    assert (findings.link, findings.order) == (page("overview", sort="-findings"), "ascending")
    assert tokens.link == page("overview", sort="kv-tokens")
    assert sort_table(TABLE, "-findings", "").columns[1].order == "descending"


@given(st.permutations(ROWS), st.sampled_from(["", *sort_names(each.title for each in COLUMNS)]))
def test_a_sort_keeps_every_row(rows: list[tuple[Cell, ...]], sort: str) -> None:
    shown = sort_table(Table("pools", "Pools", COLUMNS, tuple(rows)), sort, "")

    assert sorted(row[0].text for row in shown.rows) == ["chat-1", "chat-10", "chat-2"]
