"""Tables that a reader sorts by a click on the head of a column; the sort is in the URL."""

from dataclasses import replace

from dashboard.fleet.formatting import NOT_KNOWN, natural
from dashboard.fleet.pieces import page
from dashboard.views.blocks import Cell, Column, Table, Tone, value_of
from dashboard.views.pages import SORT

ASCENDING, DESCENDING = "ascending", "descending"
REVERSED = "-"  # before the name of a sort: from its largest value


def sort_names(columns: tuple[Column, ...]) -> list[str]:
    """Return the values of the URL that sort by one of these columns."""
    return [f"{sign}{_name(each)}" for each in columns for sign in ("", REVERSED)]


def sort_table(table: Table, sort: str, shown: str) -> Table:
    """Return a table sorted by a column, with heads that lead to the page `shown` sorted by theirs.

    Cells without a value are last in both directions. Tones ascend from the worst. An empty `sort` keeps the order.
    """
    name, order = sort.removeprefix(REVERSED), DESCENDING if sort.startswith(REVERSED) else ASCENDING
    rows = list(table.rows)
    columns = []
    for place, column in enumerate(table.columns):
        own = _name(column)
        following = f"{REVERSED}{own}" if own == sort else own
        columns.append(column._replace(target=page(shown, **{SORT: following}), order=order if own == name else ""))
        if own == name:
            known = [row for row in table.rows if _has_value(row[place], column)]
            known.sort(key=lambda row: _key(row[place], column), reverse=order == DESCENDING)
            rows = [*known, *(row for row in table.rows if not _has_value(row[place], column))]
    return replace(table, columns=tuple(columns), rows=tuple(rows))


def _name(column: Column) -> str:
    return "-".join(column.title.lower().split())


def _has_value(cell: Cell, column: Column) -> bool:
    return cell.text not in {"", NOT_KNOWN} and value_of(cell, column) is not None


def _key(cell: Cell, column: Column) -> tuple[object, ...]:
    return (value_of(cell, column),) if column.is_number else (list(Tone).index(cell.tone), natural(cell.text))
