"""Tables from one list of fields over a frame: the cells that people read, and the values that programs read.

    RANKS = (
        Field("name", "Replica", link=lambda row: Link(Kind.REPLICA, row.replica)),
        Field("tokens", "KV tokens", lambda row: exact(row.tokens, row.basis), is_number=True, term="capacity"),
        Field("basis", "Basis", tone=lambda row: Tone.WARNING if row.basis == "assumed" else Tone.PLAIN),
        Field("naive_tokens", is_number=True),  # without a title: for programs only
        Field("naive_tokens", "Naive estimate", naive_text, is_shown_only=True),
    )
    to_table(fleet.frames.engines, RANKS, "ranks", "KV cache of the DP ranks", most=4_000)

A row is a named tuple of the frame, with None in place of NA. Rows may also be other objects, such as probes. Filter,
sort and add columns on the frame before.

A reader sorts a table by a click on a head; the sort is in the URL.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from dashboard.fleet.formatting import NOT_KNOWN, iso, middle_cut, natural, one_line
from dashboard.fleet.frames import rows_of
from dashboard.fleet.pieces import Link, page
from dashboard.views.blocks import Cell, Column, DataValue, Table, Tone, value_of
from dashboard.views.pages import SORT

if TYPE_CHECKING:
    import pandas as pd

Rows: TypeAlias = "pd.DataFrame | Iterable[Any]"
LONGEST = 200  # characters of a foreign text in a cell
ASCENDING, DESCENDING = "ascending", "descending"
REVERSED = "-"  # before the name of a sort: from its largest value


@dataclass(frozen=True, slots=True)
class Field:
    """One column. `name` is that of the frame, or an attribute of a row such as `engine.dp_rank`; empty: its `value`.

    `title` is the head for people; without it the field is for programs only. These read `key`, by default the title or
    the name; `is_shown_only`: not this field.
    `text` writes a row whose value is known, `missing` is the text of others. It may return a cell, for a note, a hint
    or a cohort's letter; a string is the format of numbers. By default times are in ISO 8601, and foreign text is cut.
    Programs read `value`, by default the number of the frame, and of other fields the text that people read.
    """

    name: str
    title: str = ""
    text: str | Callable[[Any], str | Cell] = "{:,}"
    value: Callable[[Any], DataValue | None] | None = None
    tone: Callable[[Any], Tone] | None = None
    link: Callable[[Any], Link | None] | None = None
    missing: str = ""
    key: str = ""
    unit: str = ""
    term: str = ""
    is_number: bool = False
    is_code: bool = False
    is_hash: bool = False
    is_shown_only: bool = False

    @property
    def column(self) -> Column:
        title, key = (self.title, self.key) if self.title else (self.key or self.name, "")
        return Column(title, self.is_number, self.is_code, self.unit, self.term, key, self.is_hash)

    def cell(self, row: Any) -> Cell:
        known = attrgetter(self.name)(row) if self.name else None
        value = self.value(row) if self.value else plain_value(known) if self.is_number or not self.title else None
        if not self.title:
            return Cell("", value=value)
        known = known if self.name else value
        if callable(self.text) and (known is not None or not self.name):
            text = self.text(row)
        else:
            text = self.missing if known is None else _text(known, str(self.text))
        tone = self.tone(row) if self.tone else Tone.PLAIN
        link = self.link(row) if self.link else None
        if isinstance(text, str):
            return Cell(text, tone, value=value, link=link)
        return text._replace(
            tone=tone if self.tone else text.tone,
            value=text.value if value is None else value,
            link=link or text.link,
        )


def _is_frame(rows: Rows) -> "TypeGuard[pd.DataFrame]":
    return hasattr(rows, "itertuples")  # pandas is loaded with the first frame, not with every command


def to_table(
    rows: Rows,
    fields: Sequence[Field],
    name: str,
    caption: str,
    note: str = "",
    *,
    most: int | None = None,
    rest: Callable[[int], str] = "{:,} more are not listed.".format,
    is_whole: bool = False,
) -> Table:
    """Return the table of a frame. People see the first `most` rows, and of the others the note `rest`."""
    known = rows if _is_frame(rows) else list(rows)
    hidden = 0 if most is None else max(len(known) - most, 0)
    shown = [each for each in fields if each.title]
    has_own_data = hidden or any(not each.title or each.is_shown_only for each in fields)
    return Table(
        name,
        caption,
        tuple(each.column for each in shown),
        _cells(known[:most], shown),
        " ".join(filter(None, (note, rest(hidden) if hidden else ""))),
        (lambda: to_data(known, fields, name, caption)) if has_own_data else None,
        is_whole,
    )


def to_data(rows: Rows, fields: Sequence[Field], name: str, caption: str) -> Table:
    """Return the table for programs: every row, with the fields that are not shown only."""
    read = [each for each in fields if not each.is_shown_only]
    return Table(name, caption, tuple(each.column for each in read), _cells(rows, read))


def plain_value(value: Any) -> DataValue | None:
    """Return a value for programs: times in ISO 8601, lists as tuples of text; what is no number is unknown."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return tuple(map(str, value)) if isinstance(value, list | tuple) else value


def _text(value: Any, number: str) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number.format(value)
    return middle_cut(one_line(iso(value) if isinstance(value, datetime) else str(value)), LONGEST)


def _cells(rows: Rows, fields: Sequence[Field]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(tuple(field.cell(row) for field in fields) for row in (rows_of(rows) if _is_frame(rows) else rows))


def sort_name(title: str) -> str:
    return "-".join(title.lower().split())


def sort_names(titles: Iterable[str]) -> list[str]:
    return [f"{sign}{sort_name(each)}" for each in titles for sign in ("", REVERSED)]


def sort_table(table: Table, sort: str, shown: str, kept: Mapping[str, str]) -> Table:
    """Return a table sorted by a column, with heads that lead to the page `shown` sorted by theirs.

    These links keep the choices `kept`. Cells without a value are last in both directions. Tones ascend from the worst.
    An empty `sort` keeps the order.
    """
    columns = tuple(link_head(each, sort, shown, kept) for each in table.columns)
    rows = table.rows
    for place, column in enumerate(columns):
        if column.order:
            known = [row for row in table.rows if _has_value(row[place], column)]
            known.sort(key=lambda row: _key(row[place], column), reverse=column.order == DESCENDING)
            rows = (*known, *(row for row in table.rows if not _has_value(row[place], column)))
    return replace(table, columns=columns, rows=rows)


def link_head(column: Column, sort: str, shown: str, kept: Mapping[str, str]) -> Column:
    """Return a column whose head leads to the page `shown` sorted by it, reversed where it is sorted by it already.

    `kept` are the other choices of the page.
    """
    own = sort_name(column.title)
    order = {own: ASCENDING, f"{REVERSED}{own}": DESCENDING}.get(sort, "")
    following = f"{REVERSED}{own}" if order == ASCENDING else own
    return column._replace(link=page(shown, **{**kept, SORT: following}), order=order)


def _has_value(cell: Cell, column: Column) -> bool:
    return cell.text not in {"", NOT_KNOWN} and value_of(cell, column) is not None


def _key(cell: Cell, column: Column) -> tuple[object, ...]:
    return (value_of(cell, column),) if column.is_number else (list(Tone).index(cell.tone), natural(cell.text))
