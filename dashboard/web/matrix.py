"""The difference matrix in the app: a table whose cells open by click, Tab and Enter."""

from pathlib import Path
from typing import NamedTuple

import streamlit as st

_HERE = Path(__file__).parent
_component = st.components.v2.component(
    "difference_matrix",
    html='<div class="surface"></div>',
    js="".join((_HERE / name).read_text(encoding="utf-8") for name in ("copying.js", "matrix.js")),
    isolate_styles=False,  # the one style sheet of the pages also dresses the table
)


class Opened(NamedTuple):
    """What the reader opened: a cell or a row's path (`path`), or a column's head (`column` alone)."""

    path: str | None
    column: str | None


def matrix(html: str, *, key: str) -> Opened | None:
    """Draw a table of `report.matrix_html`; return what was opened since the last run."""
    result = _component(key=key, data={"html": html}, on_cell_change=_nothing)
    return opened_from(result.get("cell"))


def opened_from(told: object) -> Opened | None:
    """Read what the browser says was opened; it may say anything."""
    return Opened(_text(told.get("path")), _text(told.get("column"))) if isinstance(told, dict) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _nothing() -> None:
    """Streamlit reports a trigger only to a component that has a callback for it."""
