"""The blocks of pages and exports. Every text in them is unescaped and may be foreign."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

from dashboard.compare import Matrix, MatrixRow
from dashboard.fleet.history import Sighting
from dashboard.fleet.pieces import Age, Kind, Link, Piece, Style, Text, to_plain
from dashboard.views.context import Context
from dashboard.views.time_chart import TimeChart

MapLook: TypeAlias = Literal["", "dense", "summed"]  # small cells; a cell for each kind of the replicas of a pool

MOST_COLUMNS = 24  # of a matrix; CSV has all


class Tone(StrEnum):
    """The kind of a statement: a severity, good, unknown, or plain."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    GOOD = "good"
    UNKNOWN = "unknown"
    PLAIN = "plain"


# Of tones in plain text: Markdown, terminals, cells of grids. HTML has shapes.
SIGNS = {Tone.CRITICAL: "✖", Tone.WARNING: "▲", Tone.INFO: "●", Tone.GOOD: "✓", Tone.UNKNOWN: "?", Tone.PLAIN: "·"}
DataValue = str | int | float | bool | tuple[str, ...]  # what a program reads in a cell


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text; with a tone other than plain it is framed and marked."""

    line: Text
    tone: Tone = Tone.PLAIN


def quiet_paragraph(text: str) -> Paragraph:
    return Paragraph((Piece(text, Style.MUTED),))


class Figure(NamedTuple):
    """One number with its label and a note below.

    `link` is the page that lists what it counts; `age` and `note_age` are the ages of value and note.
    """

    label: str
    value: str
    note: str = ""
    tone: Tone = Tone.PLAIN
    link: Link | None = None
    age: Age | None = None
    note_age: Age | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """A row of numbers."""

    items: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a list: its head, a side text at its right, lines below, snippets to paste, and notes of people.

    `anchor` is its id in an export, which links name. `link` is the page about it: its head is a link there.
    `fold` is the title under which a page folds the lines from the second on and the snippets; empty: all is open.
    Without lines it is drawn in place of the head.
    `where` is a column of a grid, see Entries; `is_current`: it is the one that is open.
    """

    tone: Tone
    head: Text
    side: str | Text = ""
    lines: tuple[Text, ...] = ()
    snippets: tuple[str, ...] = ()
    anchor: str = ""
    notes: tuple[Text, ...] = ()
    link: Link | None = None
    fold: str = ""
    where: str = ""
    is_current: bool = False

    @property
    def side_text(self) -> str:
        """Return the side as plain text of one line."""
        return self.side.replace("\n", ", ") if isinstance(self.side, str) else to_plain(self.side)


@dataclass(frozen=True, slots=True)
class Entries:
    """A list of statements, each with its tone. `for_programs` makes the table for programs.

    `is_grid`: a page draws tone, head with the first line, `where` and side of an entry as columns. `test_id` is the
    promised `data-testid` of each item on a page (docs/ci.md).
    """

    items: tuple[Entry, ...]
    for_programs: Callable[[], Table] | None = field(default=None, compare=False)
    is_grid: bool = False
    test_id: str = ""

    @property
    def data(self) -> Table | None:
        """Return the table for programs, where it is another one than the items."""
        return self.for_programs() if self.for_programs else None


class Column(NamedTuple):
    """The head of a column; numbers are right-aligned. `is_code`: monospace; `is_hash`: a page shortens it, to copy.

    `unit` is that of numbers for programs, if the title does not have it. `term` is a term of the glossary for the
    tooltip. `key` is its name in CSV and JSON, if that is not the title: it stays when the title changes. `link` is the
    page sorted by it, `order` how its table is sorted by it: ascending, descending, or empty.
    """

    title: str
    is_number: bool = False
    is_code: bool = False
    unit: str = ""
    term: str = ""
    key: str = ""
    is_hash: bool = False
    link: Link | None = None
    order: str = ""


class Cell(NamedTuple):
    """One cell of a table: its text, and its tone where it has one. `letter` is a cohort's, drawn before the text.

    `value` is what a program reads in place of the text: a plain number, or a list whole. `link` is what the text
    names; that of the first cell is also what a row of a grid opens. `note` is a second, quiet line.
    `shares` are cohorts' letters with their replicas, which a page draws as a bar in place of the text; a name in lower
    case is drawn grey. `spread` are numbers of replicas that a page draws as a small bar, which the text describes.
    `hint` is a tooltip of a page, `pieces` what it draws in place of the text, on its tone, `age` what a live one does.
    """

    text: str
    tone: Tone = Tone.PLAIN
    letter: str = ""
    value: DataValue | None = None
    link: Link | None = None
    note: str = ""
    shares: tuple[tuple[str, int], ...] = ()
    spread: tuple[int, ...] = ()
    hint: str = ""
    pieces: Text = ()
    age: Age | None = None

    @property
    def whole_text(self) -> str:
        """Return the text with its note, on one line."""
        return f"{self.text}, {self.note}" if self.note else self.text


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a caption and, below, a note such as what it leaves out. `name` is for its file: letters, dashes.

    `for_programs` makes the table for programs, if it has other rows or columns: views/table.py. A page folds the rows
    after the `first` ones, except where it `is_whole`. `test_id` is the promised `data-testid` of a row (docs/ci.md).
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    for_programs: Callable[[], Table] | None = field(default=None, compare=False)
    is_whole: bool = False
    first: int = 15
    test_id: str = ""

    @property
    def has_ticks(self) -> bool:
        """Return whether a reader of a page can tick its rows: they are replicas, which can be compared."""
        link = self.rows[0][0].link if self.is_whole and self.rows else None
        return link is not None and link.kind is Kind.REPLICA

    @property
    def data(self) -> Table:
        return self.for_programs() if self.for_programs else self


def number_cell(text: str, value: float | None) -> Cell:
    """Return a cell with a text and a number; None if the number is unknown."""
    return Cell(text, value=value if value is not None and math.isfinite(value) else None)


def value_of(cell: Cell, column: Column) -> DataValue | None:
    """Return the value of a cell for programs; None if it is unknown."""
    if cell.value is not None:
        return cell.value
    return None if column.is_number else cell.whole_text


@dataclass(frozen=True, slots=True)
class DifferenceTable:
    """A difference matrix. `kinds` are severities by path, `names` those of replicas by id.

    `suppressed` says by path who suppressed its findings, where none is active. `sightings` are by path,
    `column_sightings` by the key of a column; both are empty without a history. `measures` are rows above the settings:
    a title, and cells by the key of a column.

    On a page its settings are links to the page Compare of its pool; where it `is_interactive`, its cells are clicked.
    """

    name: str
    caption: str
    matrix: Matrix
    names: Mapping[str, str]
    kinds: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_interactive: bool = False
    sightings: Mapping[str, Sighting] = field(default_factory=dict)
    column_sightings: Mapping[str, Sighting] = field(default_factory=dict)
    suppressed: Mapping[str, str] = field(default_factory=dict)
    measures: tuple[tuple[str, Mapping[str, Cell]], ...] = ()

    def with_rows(self, rows: Iterable[MatrixRow]) -> DifferenceTable:
        matrix = replace(self.matrix, rows=tuple(rows))
        seen = {row.path: self.sightings[row.path] for row in matrix.rows if row.path in self.sightings}
        return replace(self, matrix=matrix, sightings=seen)


class Bar(NamedTuple):
    """One bar: what it is of, its value (None: unknown), whether that is an upper bound, and a cohort's letter.

    `mark` is a short text at its end, such as `−18%`; `tone` marks it. On a page bars of one `group` stand together
    above its name with a `tick` each; `hover` are the lines of its tooltip, `whole` is drawn behind the bar, `used` (a
    share of the value) inside it; `is_faint` pales a bar that no sum counts.
    """

    label: str
    value: float | None
    is_at_most: bool = False
    letter: str = ""
    mark: str = ""
    tone: Tone = Tone.PLAIN
    link: Link | None = None
    group: str = ""
    tick: str = ""
    hover: tuple[str, ...] = ()
    whole: float | None = None
    used: float | None = None
    is_faint: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars over one axis that begins at zero; `median` is drawn as a line. `unit` is written at the axis.

    Upright on a page, horizontal in an export. `more` is how many bars are left out, `name` is for its file. `ticks`
    writes the numbers of the axis.
    """

    name: str
    title: str
    unit: str
    bars: tuple[Bar, ...]
    median: float | None = None
    more: int = 0
    median_label: str = ""
    ticks: Callable[[Sequence[float]], Sequence[str]] | None = field(default=None, compare=False)
    is_wide: bool = True


@dataclass(frozen=True, slots=True)
class Gauges:
    """Shares under one another, with a note below. `caption` names them in an export, `title` on a page.

    The value of a bar is its share from 0 to 1, its mark the share in words. `heads` are those of the table in exports.
    """

    name: str
    caption: str
    title: str
    items: tuple[Bar, ...]
    note: str = ""
    heads: tuple[str, str] = ("Device", "KV cache")


class MapCell(NamedTuple):
    """A replica of a map, or those of a pool that are of one kind. `kind` is its look, one of the map's legend.

    `hint` has its name, that in words, and more. `mark` is written in a large cell.
    """

    name: str
    kind: str
    hint: str
    link: Link
    mark: str = ""


class MapRow(NamedTuple):
    """A row of a map: its title with a quiet note, the cells of each column, and a number of the row in words."""

    title: str
    link: Link | None
    note: str
    groups: tuple[tuple[MapCell, ...], ...]
    number: str


@dataclass(frozen=True, slots=True)
class FleetMap:
    """A cell for each replica. `columns` are the pools of each cluster; empty: a row is a pool, with one group.

    `legend` has the kinds of cells in words. `data` counts the replicas of each row by kind, for exports without
    colours; its last column is the number of a row.
    """

    columns: tuple[str, ...]
    rows: tuple[MapRow, ...]
    legend: tuple[tuple[str, str], ...]
    data: Table
    look: MapLook


@dataclass(frozen=True, slots=True)
class Columns:
    """Blocks side by side on a wide page, one after the other elsewhere. `shares` are the widths."""

    columns: tuple[tuple[Block, ...], ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Banner:
    """The head of the item that is open on a page: its tone, a quiet line, its title, and the page without it."""

    tone: Tone
    line: Text
    title: Text
    close: Link


PlainBlock = Paragraph | Figures | Entries | Table | DifferenceTable | Chart | TimeChart | FleetMap
Block = PlainBlock | Gauges | Columns | Banner


def flat_blocks(blocks: Iterable[Block]) -> Iterator[PlainBlock]:
    """Yield blocks as exports have them: columns one after the other, gauges as a table."""
    for block in blocks:
        if isinstance(block, Columns):
            for column in block.columns:
                yield from flat_blocks(column)
        elif isinstance(block, Banner):
            yield Paragraph(block.title, block.tone)
        elif isinstance(block, Gauges):
            rows = tuple((Cell(each.label), Cell(each.mark)) for each in block.items)
            yield Table(block.name, block.caption, tuple(map(Column, block.heads)), rows, block.note)
        else:
            yield block


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a view under its own heading. `anchor` is unique in the view: lower case letters, digits, dashes.

    `content` are its blocks, or makes them when they are read: pages link to the tables of most appendices.
    `is_appendix`: for reference, at the end of an export on a new page. `is_aside`: a page folds it.
    `is_exported_only`: not on the page. `note` is a quiet line at its title; links in it are at the right.
    """

    anchor: str
    title: str
    content: tuple[Block, ...] | Callable[[], tuple[Block, ...]]
    parts: tuple[Section, ...] = ()
    is_appendix: bool = False
    is_aside: bool = False
    is_exported_only: bool = False
    link: Link | None = None
    note: Text = ()

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.content() if callable(self.content) else self.content


@dataclass(frozen=True, slots=True)
class View:
    """The content of a page and of its exports: headline, lead, sections, and the context of its data."""

    title: str
    headline: str
    lead: str
    context: Context
    parts: tuple[Section, ...]
