"""The difference matrix as an HTML table, every value escaped. The app and reports draw the same one."""

from collections.abc import Mapping, Sequence
from html import escape, unescape

from dashboard.compare import Cell, CellState, Column, Matrix, Row
from dashboard.fleet import State
from dashboard.fleet.formatting import HIDDEN, one_line, setting_text
from dashboard.views.blocks import MOST_COLUMNS

COHORT_COLOURS = 6  # classes c0 to c5 of the style sheet, then again from the first
UNBROKEN = 20  # characters of a value that has no places to break
_WITHOUT_VALUE = {
    CellState.ABSENT: State.ABSENT,
    CellState.UNSUPPORTED: State.UNSUPPORTED,
    CellState.REDACTED: State.REDACTED,
    CellState.UNKNOWN: State.UNKNOWN,
}
_MARKS = {
    "tie": ("≠", "no majority"),
    "same": ("=", "all equal"),
    "differs": ("≠", "differs"),
    "unknown": ("?", "not known everywhere"),
}

_SIGNS = {"critical": "!", "warning": "!", "info": "i"}


def breakable(shown: str) -> str:
    """Let an escaped value, if it is long, break after a comma or an underscore before it breaks anywhere."""
    return shown if len(unescape(shown)) <= UNBROKEN else shown.replace(",", ",<wbr>").replace("_", "_<wbr>")


def matrix_html(
    matrix: Matrix,
    names: Mapping[str, str],
    *,
    caption: str,
    corner: str,
    kinds: Mapping[str, str] | None = None,
    interactive: bool = False,
    addresses: Mapping[str, str] | None = None,
) -> str:
    """Draw a matrix. `names` gives replicas their names.

    `kinds` (path -> severity) are the rows that a finding names: their mark, and the tint of what differs in them, are
    those of the severity. `addresses` (path -> address) makes a link of a row's path.

    `interactive` makes cells reachable by keyboard: one stop for Tab, arrow keys from there. Each row carries its
    path, each head the key of its column as data attribute. Columns beyond `MOST_COLUMNS` are left out.
    """
    focus = _Focus() if interactive else None
    columns = matrix.columns[:MOST_COLUMNS]
    head = "".join(_head_cell(column, names, focus) for column in columns)
    kinds, addresses = kinds or {}, addresses or {}
    body = "".join(
        _row(row, columns, focus, kinds.get(row.path, ""), addresses.get(row.path, "")) for row in matrix.rows
    )
    role = ' role="grid"' if interactive else ""
    return (
        f'<div class="scroll matrix"><table{role} style="--columns:{len(columns)}">'
        f'<caption class="said">{escape(caption)}</caption>'
        f'<colgroup><col class="path"><col class="mark"><col span="{max(len(columns), 1)}"></colgroup>'
        f'<thead><tr><th scope="col">{escape(corner)}</th><td class="mark"></td>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def row_mark(row: Row) -> str:
    """Say how a row stands as a whole: `differs`, `same`, or `unknown` when a cell has no value to compare."""
    if row.differs:
        return "differs"
    return "same" if all(cell.state is CellState.SAME for cell in row.cells) else "unknown"


def cell_text(cell: Cell) -> str:
    """Write a cell on one line: its value, or in words why it has none."""
    if cell.value:
        return setting_text(cell.value, State.REPORTED)
    return setting_text("null", _WITHOUT_VALUE.get(cell.state, State.ABSENT))


def colour(letter: str) -> int:
    """Return which of the cohort colours a letter has: A the first, and after Z comes AA."""
    place = 0
    for char in letter:
        place = place * 26 + ord(char) - ord("A") + 1
    return (place - 1) % COHORT_COLOURS


class _Focus:
    """Gives the first cell that asks the table's one stop for Tab."""

    def __init__(self) -> None:
        self._given = False

    def attribute(self) -> str:
        index = -1 if self._given else 0
        self._given = True
        return f' tabindex="{index}"'


def _head_cell(column: Column, names: Mapping[str, str], focus: _Focus | None) -> str:
    title = _cohort_title(column, names) if is_cohort(column) else escape(one_line(names.get(column.key, column.title)))
    opens = f' data-column="{_named(column.key)}" tabindex="0"' if focus and column.replicas else ""
    partly = f"<small>{_tell_less(column)}</small>" if column.read_in_part else ""
    note = f"<small>{_note(column)}</small>" if column.note else ""
    return f'<th scope="col"{opens}>{title}{note}{partly}</th>'


def _note(column: Column) -> str:
    """Write the note of a column; the letter of a replica's cohort has its colour."""
    if column.cohort:
        return f'cohort <span class="letter c{colour(column.cohort)}">{column.cohort}</span>'
    return escape(one_line(column.note))


def _tell_less(column: Column) -> str:
    if not is_cohort(column):
        return "tells less than its cohort"
    return f"{column.read_in_part:,} {'tells' if column.read_in_part == 1 else 'tell'} less"


def is_cohort(column: Column) -> bool:
    """Tell a cohort's column from a replica's: a letter is no address."""
    return column.key.isalpha() and column.key.isupper()


def _cohort_title(column: Column, names: Mapping[str, str]) -> str:
    letter = f'<span class="letter c{colour(column.key)}">{escape(column.key)}</span> ×{column.count:,}'
    only = f" {escape(one_line(names.get(column.replicas[0], column.replicas[0])))}" if column.count == 1 else ""
    return letter + only


def _row(row: Row, columns: Sequence[Column], focus: _Focus | None, kind: str, address: str) -> str:
    mark = row_mark(row)
    sign, word = _MARKS["tie" if row.tie and row.differs else mark]
    if kind and row.differs:
        mark, sign, word = kind, _SIGNS[kind], f"{word}: {kind}, a finding names it"
    path, label = escape(one_line(row.path)), _breakable(one_line(row.label))
    label = f'<a href="{escape(address)}">{label}</a>' if address else label
    opens = f' data-path="{_named(row.path)}"' if focus else ""
    cells = "".join(_cell(row, cell, column, focus) for cell, column in zip(row.cells, columns, strict=False))
    return (
        f'<tr{opens}><th scope="row" title="{path}"{_stop(focus)}>{label}</th>'
        f'<td class="mark" title="{word}"><span class="glyph {mark}" aria-hidden="true">{sign}</span>'
        f'<span class="said">{word}</span></td>{cells}</tr>'
    )


def _named(key: str) -> str:
    """Escape what a script reads back as it is: what is hidden as the number of its character."""
    return HIDDEN.sub(lambda found: f"&#{ord(found.group())};", escape(key))


def _breakable(path: str) -> str:
    """Escape a path, let it break after its dots, and make all but the setting's own name quiet."""
    *sections, name = path.split(".")
    within = "".join(f"{escape(each)}.<wbr>" for each in sections)
    return f'<span class="mute">{within}</span>{escape(name)}' if within else escape(name)


def _cell(row: Row, cell: Cell, column: Column, focus: _Focus | None) -> str:
    css, word = _standing(row, cell, column)
    kind = f' class="{css}"' if css else ""
    said = f'<span class="said"> {word}</span>' if word else ""
    return f"<td{kind}{_stop(focus)}>{breakable(escape(cell_text(cell)))}{_tellers(cell, column)}{said}</td>"


def _tellers(cell: Cell, column: Column) -> str:
    """Say how many replicas of a cohort tell a value, when not all of them do."""
    if cell.tellers is None:
        return ""
    share = f"{cell.tellers:,} of {column.count:,}"
    seen = f'<small class="mute" aria-hidden="true"> {share}</small>'
    return f'{seen}<span class="said"> told by {share} replicas</span>'


def _standing(row: Row, cell: Cell, column: Column) -> tuple[str, str]:
    """Return the class of a cell and the word for what its colour says.

    What a baseline, which no replica holds, does not agree on is no value, but words.
    """
    if not cell.value or (cell.state is CellState.UNKNOWN and not column.replicas):
        return "none", ""
    if cell.state is CellState.DIFFERS:
        return "differs", "no majority" if row.tie else "differs"
    return "", ""


def _stop(focus: _Focus | None) -> str:
    return focus.attribute() if focus else ""
