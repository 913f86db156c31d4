"""What all formats write of a difference matrix: the text of a cell, the mark of a row, the colour of a cohort."""

from dashboard.compare import CellState, MatrixCell, MatrixColumn, MatrixRow
from dashboard.fleet import State
from dashboard.fleet.formatting import setting_text

_WITHOUT_VALUE = {
    CellState.ABSENT: State.ABSENT,
    CellState.UNSUPPORTED: State.UNSUPPORTED,
    CellState.REDACTED: State.REDACTED,
    CellState.UNKNOWN: State.UNKNOWN,
}


def row_mark(row: MatrixRow) -> str:
    """Return `differs`, `same`, or `unknown` where a cell has no value to compare."""
    if row.differs:
        return "differs"
    return "same" if all(cell.state is CellState.SAME for cell in row.cells) else "unknown"


def cell_text(cell: MatrixCell) -> str:
    """Write a cell on one line: its value, or the reason without one."""
    if cell.value:
        return setting_text(cell.value, State.REPORTED)
    return setting_text("null", _WITHOUT_VALUE.get(cell.state, State.ABSENT))


def is_cohort(column: MatrixColumn) -> bool:
    """Return whether a column is a cohort's: its key is a letter, not an address."""
    return column.key.isalpha() and column.key.isupper()
