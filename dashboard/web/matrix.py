"""The difference matrix on a page: a table whose cells open by click, Tab and Enter."""

from pathlib import Path

import streamlit as st

from dashboard.fleet.pieces import Kind, Link

COPY = '<button type="button" class="copy" data-copy-table>Copy table</button>'
_HERE = Path(__file__).parent
_component = st.components.v2.component(
    "difference_matrix",
    html='<div class="surface"></div>',
    js="".join((_HERE / name).read_text(encoding="utf-8") for name in ("copying.js", "matrix.js")),
    isolate_styles=False,  # the style sheet of the pages also applies to the table
)


def draw_matrix(html: str, pool: str, key: str) -> Link | None:
    """Draw the HTML of a matrix and return the setting, cohort or replica that was opened since the last run."""
    result = _component(key=key, data={"html": html}, on_cell_change=_nothing)
    return opened(result.get("cell"), pool)


def opened(cell: object, pool: str) -> Link | None:
    """Return the link that the browser sends; None for anything else that it sends."""
    if not isinstance(cell, dict):
        return None
    path, column = cell.get("path"), cell.get("column")
    if isinstance(path, str) and path:
        return Link(Kind.SETTING, path, pool)
    if isinstance(column, str) and column:
        is_cohort = column.isalpha() and column.isupper()
        return Link(Kind.COHORT if is_cohort else Kind.REPLICA, column, pool)
    return None


def _nothing() -> None:
    """Streamlit reports a trigger only to a component that has a callback for it."""
