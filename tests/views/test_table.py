"""Tables from fields: cells for people, values for programs; and the sort of a reader."""

from datetime import UTC, datetime

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet.formatting import NOT_KNOWN
from dashboard.fleet.pieces import page
from dashboard.views.blocks import Cell, Column, Table, Tone, number_cell, value_of
from dashboard.views.table import Field, plain_value, sort_names, sort_table, to_data, to_table

ROWS = pd.DataFrame(
    {
        "name": pd.Series(["a\nb", None], dtype="string"),
        "tokens": pd.Series([1234, None], dtype="Int64"),
        "at": pd.Series([datetime(2026, 3, 2, tzinfo=UTC), None], dtype="datetime64[ns, UTC]"),
        "sources": pd.Series([["x", "y"], []], dtype=object),
    }
)
FIELDS = (
    Field("name", "Name", missing="-"),
    Field("tokens", "KV tokens", is_number=True, tone=lambda row: Tone.WARNING if row.tokens is None else Tone.PLAIN),
    Field("at", "Read", lambda row: Cell("now", note=f"{row.at:%Y}")),
    Field("sources"),
    Field("", "Both", lambda row: f"{row.name}{row.tokens}", is_shown_only=True),
)


def test_people_and_programs_read_the_same_rows() -> None:
    table = to_table(ROWS, FIELDS, "t", "T", "Note.", most=1)

    assert [each.title for each in table.columns] == ["Name", "KV tokens", "Read", "Both"]
    assert [each.whole_text for each in table.rows[0]] == ["a b", "1,234", "now, 2026", "a\nb1234"]
    assert table.note == "Note. 1 more are not listed."
    assert [each.key or each.title for each in table.data.columns] == ["Name", "KV tokens", "Read", "sources"]
    assert [tuple(map(value_of, row, table.data.columns)) for row in table.data.rows] == [
        ("a b", 1234, "now, 2026", ("x", "y")),
        ("-", None, "", ()),
    ]
    assert table.data.rows[1][1].tone is Tone.WARNING


def test_a_table_that_both_read_alike_is_its_own_data() -> None:
    table = to_table([ROWS.iloc[0]], FIELDS[:1], "t", "T")

    assert table.data is table
    assert to_data([], FIELDS, "t", "T").rows == ()


def test_what_is_no_number_is_unknown_to_programs() -> None:
    assert plain_value(float("nan")) is None


POOL_COLUMNS = (Column("Pool"), Column("Findings"), Column("KV tokens", is_number=True))
POOLS = (
    (Cell("chat-10"), Cell("1 info", Tone.INFO), number_cell("7 k", 7_000)),
    (Cell("chat-2"), Cell("1 critical", Tone.CRITICAL), number_cell(NOT_KNOWN, None)),
    (Cell("chat-1"), Cell(NOT_KNOWN), number_cell("12 k", 12_000)),
)
TABLE = Table("pools", "Pools", POOL_COLUMNS, POOLS)


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
    assert [row[0].text for row in sort_table(TABLE, sort, "", {}).rows] == pools


def test_a_head_leads_to_the_sort_by_its_column_and_the_sorted_one_to_the_reverse() -> None:
    pool, findings, tokens = sort_table(TABLE, "findings", "overview", {}).columns

    assert (pool.link, pool.order) == (page("overview", sort="pool"), "")
    assert (findings.link, findings.order) == (page("overview", sort="-findings"), "ascending")
    assert tokens.link == page("overview", sort="kv-tokens")
    assert sort_table(TABLE, "-findings", "", {}).columns[1].order == "descending"


@given(st.permutations(POOLS), st.sampled_from(["", *sort_names(each.title for each in POOL_COLUMNS)]))
def test_a_sort_keeps_every_row(rows: list[tuple[Cell, ...]], sort: str) -> None:
    shown = sort_table(Table("pools", "Pools", POOL_COLUMNS, tuple(rows)), sort, "", {})

    assert sorted(row[0].text for row in shown.rows) == ["chat-1", "chat-10", "chat-2"]
