"""Tables from fields: cells for people, values for programs."""

from datetime import UTC, datetime

import pandas as pd

from dashboard.views.blocks import Cell, Tone, value_of
from dashboard.views.table import Field, plain_value, to_data, to_table

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
    assert [each.key_or_title for each in table.data.columns] == ["Name", "KV tokens", "Read", "sources"]
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
