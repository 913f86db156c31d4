"""What a report is made of, before it is written as HTML, Markdown or JSON. All text here is plain, and foreign."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from dashboard.compare import Matrix
from dashboard.fleet.pieces import Target, Text
from dashboard.views.context import Context

MOST_COLUMNS = 24  # more cohorts than that are no longer compared by eye; CSV holds them all


class Tone(StrEnum):
    """How a statement stands: a severity, good, unknown, or nothing of the kind."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    GOOD = "good"
    UNKNOWN = "unknown"
    PLAIN = "plain"


Line = Text


Value = str | int | float | bool | tuple[str, ...]  # what a program reads in a cell


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence or more; with a tone other than plain it is framed and marked."""

    line: Line
    tone: Tone = Tone.PLAIN


class Figure(NamedTuple):
    """One number with its label and a note below; `target` is the page that lists what it counts."""

    label: str
    value: str
    note: str = ""
    tone: Tone = Tone.PLAIN
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """A row of numbers."""

    items: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a list: its head, a side text at its right, lines below, snippets to paste, and notes of people.

    `anchor` is its id in an export, which targets name. `target` is the page about it: its head is a link there.
    """

    tone: Tone
    head: Line
    side: str = ""
    lines: tuple[Line, ...] = ()
    snippets: tuple[str, ...] = ()
    anchor: str = ""
    notes: tuple[Line, ...] = ()
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Entries:
    """A list of statements, each with its tone. `data` is what a program reads in its place."""

    items: tuple[Entry, ...]
    data: Table | None = None


class Column(NamedTuple):
    """The head of a column; numbers stand at the right. `is_code`: its cells are set in monospace.

    `unit` is that of the numbers which programs read, where the title does not say it.
    """

    title: str
    is_number: bool = False
    is_code: bool = False
    unit: str = ""


class Cell(NamedTuple):
    """One cell of a table: its text, and its tone where it has one. `letter` is a cohort's, drawn before the text.

    `value` is what a program reads in place of the text: a plain number, or a list whole. `target` is what the text
    names; that of the first cell is also what a row of an interactive table opens.
    """

    text: str
    tone: Tone = Tone.PLAIN
    letter: str = ""
    value: Value | None = None
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a caption and, below, a note such as what it leaves out. `name` is for its file: letters, dashes.

    `data` is what a program reads in its place, where people are told less, or in other columns.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    data: Table | None = None


def number_cell(text: str, value: float | None) -> Cell:
    """Return a number as people read it, and as it is; None where it is not known, or is no one number."""
    return Cell(text, value=value if value is not None and math.isfinite(value) else None)


def list_cell(text: str, names: Iterable[str]) -> Cell:
    """Return a list as people read it, of many names the first ones, and all of it."""
    return Cell(text, value=tuple(names))


def data_cell(value: Value | None) -> Cell:
    """Return a cell that only programs read."""
    return Cell("", value=value)


def data_table(name: str, caption: str, columns: tuple[Column, ...], rows: Iterable[Iterable[Value | None]]) -> Table:
    """Return a table that only programs read."""
    return Table(name, caption, columns, tuple(tuple(map(data_cell, row)) for row in rows))


def value_of(cell: Cell, column: Column) -> Value | None:
    """Return what a program reads in a cell: in a column of numbers a number, or None where there is none."""
    if cell.value is not None:
        return cell.value
    return None if column.is_number else cell.text


@dataclass(frozen=True, slots=True)
class DifferenceTable:
    """A difference matrix: what `matrix_html` and `matrix_csv` draw. `kinds` is path -> severity, `names` by id."""

    name: str
    caption: str
    matrix: Matrix
    names: Mapping[str, str]
    kinds: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    pool: str = ""  # settings link to their dialog on the page Compare of this pool


class Bar(NamedTuple):
    """One bar: what it is of, its value (None: not known), whether that is an upper bound, and a cohort's letter.

    `mark` is a short text at its end, such as `−18 %`; `tone` says that it stands out.
    """

    label: str
    value: float | None
    is_at_most: bool = False
    letter: str = ""
    mark: str = ""
    tone: Tone = Tone.PLAIN
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """Horizontal bars over one axis that begins at zero; `median` is drawn as a line. `unit` is written at the axis.

    `more` is how many bars are left out, and `name` is for its file.
    """

    name: str
    title: str
    unit: str
    bars: tuple[Bar, ...]
    median: float | None = None
    more: int = 0


Block = Paragraph | Figures | Entries | Table | DifferenceTable | Chart


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report under its own heading. `anchor` is unique in the report: lower case letters, digits, dashes.

    `is_appendix`: long, for reference; it stands at the end and begins a page. `is_aside`: a page folds it.
    """

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    parts: tuple[Section, ...] = ()
    is_appendix: bool = False
    is_aside: bool = False
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A whole report: one sentence that says what is, one that says more, its parts, and where its data is from."""

    title: str
    headline: str
    lead: str
    context: Context
    parts: tuple[Section, ...]
