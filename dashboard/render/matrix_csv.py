"""The difference matrix as CSV: what the page shows, a row per path and a column per cohort or replica."""

import csv
import io
import re
from collections.abc import Mapping, Sequence

from dashboard.compare import Cell, Column, Matrix
from dashboard.fleet.formatting import FORMULA, csv_cell, one_line
from dashboard.render.matrix_html import cell_text, is_cohort

_IN_COMMENT = re.compile(FORMULA.pattern.replace("<=;", "<=[;,]"))  # no quotes keep a comma from separating


def matrix_csv(matrix: Matrix, notes: Sequence[str] = (), names: Mapping[str, str] | None = None) -> str:
    """Write the matrix whole: values are canonical JSON text, uncut.

    `notes` stand above as comments, a line each that begins with `#`; `names` gives replicas their names.
    """
    out = io.StringIO()
    out.writelines(map(comment, notes))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["path", *(csv_cell(_head(column, names or {})) for column in matrix.columns)])
    writer.writerows([csv_cell(row.path), *(csv_cell(_value(cell)) for cell in row.cells)] for row in matrix.rows)
    return out.getvalue()


def comment(text: str) -> str:
    """Write a line that stands above a table."""
    return f"# {_IN_COMMENT.sub(chr(39), one_line(text))}\n"


def _head(column: Column, names: Mapping[str, str]) -> str:
    alone = names.get(column.replicas[0], column.replicas[0]) if column.count == 1 else ""
    return f"{column.key} x{column.count} {alone}".rstrip() if is_cohort(column) else alone or column.title


def _value(cell: Cell) -> str:
    return cell.value or cell_text(cell)
