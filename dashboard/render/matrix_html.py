"""The difference matrix as an HTML table, every value escaped, for pages and exports."""

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
    "unknown": ("?", "unknown on some"),
}

_SIGNS = {"critical": "!", "warning": "!", "info": "i"}


def breakable(shown: str) -> str:
    """Return an escaped value; a long one may break after a comma or an underscore."""
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
    """Draw a matrix. `names` are the replicas' names by id, `addresses` the links of rows by path.

    `kinds` are the severities of findings by path: such a row has the mark and the tint of the severity.
    `interactive` makes cells reachable by keyboard: one stop for Tab, arrow keys from there. Rows have their path and
    heads the key of their column as data attribute. Columns beyond `MOST_COLUMNS` are omitted.
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
    """Return `differs`, `same`, or `unknown` where a cell has no value to compare."""
    if row.differs:
        return "differs"
    return "same" if all(cell.state is CellState.SAME for cell in row.cells) else "unknown"


def cell_text(cell: Cell) -> str:
    """Write a cell on one line: its value, or the reason without one."""
    if cell.value:
        return setting_text(cell.value, State.REPORTED)
    return setting_text("null", _WITHOUT_VALUE.get(cell.state, State.ABSENT))


def colour(letter: str) -> int:
    """Return the place of a letter among the cohort colours: A is the first, AA follows Z."""
    place = 0
    for char in letter:
        place = place * 26 + ord(char) - ord("A") + 1
    return (place - 1) % COHORT_COLOURS


class _Focus:
    """Gives only the first cell a stop for Tab."""

    def __init__(self) -> None:
        self._given = False

    def attribute(self) -> str:
        index = -1 if self._given else 0
        self._given = True
        return f' tabindex="{index}"'


def _head_cell(column: Column, names: Mapping[str, str], focus: _Focus | None) -> str:
    title = _cohort_title(column, names) if is_cohort(column) else escape(one_line(names.get(column.key, column.title)))
    opens = f' data-column="{_named(column.key)}" tabindex="0"' if focus and column.replicas else ""
    incomplete = f"{column.read_in_part:,} incomplete" if is_cohort(column) else "incomplete data"
    partly = f"<small>{incomplete}</small>" if column.read_in_part else ""
    note = f"<small>{_note(column)}</small>" if column.note else ""
    return f'<th scope="col"{opens}>{title}{note}{partly}</th>'


def _note(column: Column) -> str:
    """Write the note of a column; the letter of a replica's cohort has the cohort's colour."""
    if column.cohort:
        return f'cohort <span class="letter c{colour(column.cohort)}">{column.cohort}</span>'
    return escape(one_line(column.note))


def is_cohort(column: Column) -> bool:
    """Return whether a column is a cohort's: its key is a letter, not an address."""
    return column.key.isalpha() and column.key.isupper()


def _cohort_title(column: Column, names: Mapping[str, str]) -> str:
    letter = f'<span class="letter c{colour(column.key)}">{escape(column.key)}</span> ×{column.count:,}'
    only = f" {escape(one_line(names.get(column.replicas[0], column.replicas[0])))}" if column.count == 1 else ""
    return letter + only


def _row(row: Row, columns: Sequence[Column], focus: _Focus | None, kind: str, address: str) -> str:
    mark = row_mark(row)
    sign, word = _MARKS["tie" if row.tie and row.differs else mark]
    if kind and row.differs:
        mark, sign, word = kind, _SIGNS[kind], f"{word} ({kind} finding)"
    path, label = escape(one_line(row.path)), _path_html(one_line(row.label))
    label = f'<a href="{escape(address)}">{label}</a>' if address else label
    opens = f' data-path="{_named(row.path)}"' if focus else ""
    cells = "".join(_cell(row, cell, column, focus) for cell, column in zip(row.cells, columns, strict=False))
    return (
        f'<tr{opens}><th scope="row" title="{path}"{_stop(focus)}>{label}</th>'
        f'<td class="mark" title="{word}"><span class="glyph {mark}" aria-hidden="true">{sign}</span>'
        f'<span class="said">{word}</span></td>{cells}</tr>'
    )


def _named(key: str) -> str:
    """Escape a key that a script reads back: hidden characters as their number."""
    return HIDDEN.sub(lambda found: f"&#{ord(found.group())};", escape(key))


def _path_html(path: str) -> str:
    """Escape a path: it may break after its dots, and its section is muted."""
    *sections, name = path.split(".")
    within = "".join(f"{escape(each)}.<wbr>" for each in sections)
    return f'<span class="mute">{within}</span>{escape(name)}' if within else escape(name)


def _cell(row: Row, cell: Cell, column: Column, focus: _Focus | None) -> str:
    has_value = bool(cell.value) and (cell.state is not CellState.UNKNOWN or bool(column.replicas))
    kind = words = ""
    if not has_value:  # also a path that the baseline does not have
        kind = ' class="none"'
    elif cell.state is CellState.DIFFERS:
        kind = ' class="differs"'
        words = f'<span class="said"> {"no majority" if row.tie else "differs"}</span>'
    reporting = ""
    if cell.tellers is not None:
        share = f"{cell.tellers:,} of {column.count:,}"
        reporting = f'<small class="mute" aria-hidden="true"> {share}</small>'
        reporting += f'<span class="said"> reported by {share} replicas</span>'
    return f"<td{kind}{_stop(focus)}>{breakable(escape(cell_text(cell)))}{reporting}{words}</td>"


def _stop(focus: _Focus | None) -> str:
    return focus.attribute() if focus else ""
