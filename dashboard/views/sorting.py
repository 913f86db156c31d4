"""Tables that a reader sorts by a click on the head of a column; the sort is in the URL."""

from collections.abc import Iterable
from dataclasses import replace

from dashboard.fleet.formatting import NOT_KNOWN, natural
from dashboard.fleet.pieces import page
from dashboard.views.blocks import Cell, Column, Table, Tone, value_of
from dashboard.views.pages import SORT

ASCENDING, DESCENDING = "ascending", "descending"
REVERSED = "-"  # before the name of a sort: from its largest value


def sort_name(title: str) -> str:
    """Return the name in the URL of the sort by a column."""
    return "-".join(title.lower().split())


def sort_names(titles: Iterable[str]) -> list[str]:
    """Return the values of the URL that sort by one of these columns."""
    return [f"{sign}{sort_name(each)}" for each in titles for sign in ("", REVERSED)]


def sort_table(table: Table, sort: str, shown: str) -> Table:
    """Return a table sorted by a column, with heads that lead to the page `shown` sorted by theirs.

    Cells without a value are last in both directions. Tones ascend from the worst. An empty `sort` keeps the order.
    """
    columns = tuple(link_head(each, sort, shown) for each in table.columns)
    rows = table.rows
    for place, column in enumerate(columns):
        if column.order:
            known = [row for row in table.rows if _has_value(row[place], column)]
            known.sort(key=lambda row: _key(row[place], column), reverse=column.order == DESCENDING)
            rows = (*known, *(row for row in table.rows if not _has_value(row[place], column)))
    return replace(table, columns=columns, rows=rows)


def link_head(column: Column, sort: str, shown: str) -> Column:
    """Return a column whose head leads to the page `shown` sorted by it, reversed where it is sorted by it already."""
    own = sort_name(column.title)
    order = {own: ASCENDING, f"{REVERSED}{own}": DESCENDING}.get(sort, "")
    following = f"{REVERSED}{own}" if order == ASCENDING else own
    return column._replace(link=page(shown, **{SORT: following}), order=order)


def _has_value(cell: Cell, column: Column) -> bool:
    return cell.text not in {"", NOT_KNOWN} and value_of(cell, column) is not None


def _key(cell: Cell, column: Column) -> tuple[object, ...]:
    return (value_of(cell, column),) if column.is_number else (list(Tone).index(cell.tone), natural(cell.text))
