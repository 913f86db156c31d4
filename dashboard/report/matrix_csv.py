"""The difference matrix as CSV: what the page shows, a row per path and a column per cohort or replica."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from dashboard.report.matrix_html import cell_text
from dashboard.report.values import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.compare import Cell, Matrix

FORMULA_STARTS = ("=", "+", "-", "@")  # a spreadsheet would run what begins so


def matrix_csv(matrix: Matrix, notes: Sequence[str] = ()) -> str:
    """Write the matrix whole: values are canonical JSON text, uncut. `notes` stand below, a line each."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["path", *(safe(_head(column.title, column.count)) for column in matrix.columns)])
    writer.writerows([safe(row.path), *(safe(_value(cell)) for cell in row.cells)] for row in matrix.rows)
    writer.writerows([safe(note)] for note in notes)
    return out.getvalue()


def safe(text: str) -> str:
    """Quote what a spreadsheet would take for a formula."""
    flat = one_line(text)
    return f"'{flat}" if flat.lstrip().startswith(FORMULA_STARTS) else flat


def _head(title: str, number: int) -> str:
    return f"{title} x{number}" if number > 1 else title


def _value(cell: Cell) -> str:
    return cell.value or cell_text(cell)
