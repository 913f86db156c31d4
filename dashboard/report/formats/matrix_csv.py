"""The difference matrix as CSV: what the page shows, a row per path and a column per cohort or replica."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from dashboard.report.formats.matrix_html import cell_text, is_cohort
from dashboard.wording import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dashboard.compare import Cell, Column, Matrix

FORMULA_STARTS = ("=", "+", "-", "@")  # a spreadsheet would run what begins so


def matrix_csv(matrix: Matrix, notes: Sequence[str] = (), names: Mapping[str, str] | None = None) -> str:
    """Write the matrix whole: values are canonical JSON text, uncut.

    `notes` stand above as comments, a line each that begins with `#`; `names` gives replicas their names.
    """
    out = io.StringIO()
    out.writelines(f"# {one_line(note)}\n" for note in notes)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["path", *(safe(_head(column, names or {})) for column in matrix.columns)])
    writer.writerows([safe(row.path), *(safe(_value(cell)) for cell in row.cells)] for row in matrix.rows)
    return out.getvalue()


def safe(text: str) -> str:
    """Quote what a spreadsheet would take for a formula."""
    flat = one_line(text)
    return f"'{flat}" if flat.lstrip().startswith(FORMULA_STARTS) else flat


def _head(column: Column, names: Mapping[str, str]) -> str:
    alone = names.get(column.replicas[0], column.replicas[0]) if column.count == 1 else ""
    return f"{column.key} x{column.count} {alone}".rstrip() if is_cohort(column) else alone or column.title


def _value(cell: Cell) -> str:
    return cell.value or cell_text(cell)
