"""Draws the blocks of a view on a page: static blocks as HTML, charts and large tables by Streamlit."""

from collections.abc import Iterable
from itertools import groupby

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from dashboard.fleet.pieces import Kind, Target
from dashboard.render.html import HtmlWriter
from dashboard.views.blocks import Block, Cell, Chart, Column, Columns, Section, Table, View, value_of
from dashboard.web import charts, links, markup

ROW, HEAD, TALLEST = 35, 37, 702  # px of a large table


def html_of(blocks: Iterable[Block]) -> str:
    """Return static blocks as HTML, with links to the pages of their targets."""
    return str(_writer().blocks(blocks))


def draw_head(view: View) -> None:
    """Draw the headline and the lead of a view."""
    st.html(markup.heading(markup.text(view.headline), markup.text(view.lead)))


def open_target(target: Target) -> None:
    """Let the browser go to the page of a target, as it would by a link."""
    if url := links.address(target):
        links.open_url(url)


def draw_sections(sections: Iterable[Section], key: str) -> Target | None:
    """Draw sections under their headings and return the target that was clicked in a chart or a large table.

    Appendices and sections of exports only are left out.
    """
    clicked = None
    for section in sections:
        if section.is_appendix or section.is_exported_only:
            continue
        own = f"{key}_{section.anchor}"
        if section.is_aside:
            with st.expander(section.title):
                found = draw_blocks(section.blocks, own)
        else:
            found = draw_blocks(section.blocks, own, str(_writer().heading(section, 2)) if section.title else "")
        clicked = found or draw_sections(section.parts, key) or clicked
    return clicked


def draw_blocks(blocks: Iterable[Block], key: str, heading: str = "") -> Target | None:
    """Draw blocks, static ones that follow each other as one piece of HTML, and return the target that was clicked.

    `heading` is HTML above them.
    """
    clicked = None
    for place, (is_static, run) in enumerate(groupby(blocks, _is_static)):
        if is_static:
            st.html(heading + html_of(run))
            heading = ""
            continue
        if heading:
            st.html(heading)
            heading = ""
        for number, block in enumerate(run):
            clicked = _draw(block, f"{key}_{place}_{number}") or clicked
    return clicked


def _is_static(block: Block) -> bool:
    return not (isinstance(block, Chart | Columns) or (isinstance(block, Table) and block.is_large))


def _draw(block: Block, key: str) -> Target | None:
    if isinstance(block, Chart):
        return _draw_chart(block, key)
    if isinstance(block, Table):
        return _draw_large_table(block, key)
    if isinstance(block, Columns):
        places = st.columns(block.shares, gap="medium")
        clicked = None
        for number, (place, column) in enumerate(zip(places, block.columns, strict=True)):
            with place:
                clicked = draw_blocks(column, f"{key}_{number}") or clicked
        return clicked
    return None


def _draw_chart(chart: Chart, key: str) -> Target | None:
    event = st.plotly_chart(
        charts.figure_of(chart, charts.palette(st.context.theme.type)),
        key=key,
        theme=None,
        on_select="rerun",
        selection_mode="points",
        config={"displayModeBar": False},
        alt=charts.describe(chart),
    )
    points = event["selection"]["points"]
    place = points[0].get("customdata", [None])[0] if points else None
    return chart.bars[int(place)].target if place is not None and int(place) < len(chart.bars) else None


def _draw_large_table(table: Table, key: str) -> Target | None:
    """Draw a table that scrolls and sorts, and return the target of the row that was chosen."""
    event = st.dataframe(
        _frame_of(table),
        key=key,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        placeholder="–",
        height=min(HEAD + ROW * max(len(table.rows), 1), TALLEST),
        column_config={each.title: _format_of(each, table) for each in table.columns if each.is_number},
    )
    rows = [row for row in event["selection"]["rows"] if row < len(table.rows)]
    return table.rows[rows[0]][0].target if rows else None


def _frame_of(table: Table) -> pd.DataFrame:
    """Return the rows of a table: numbers as numbers, the rest as people read it."""
    data = {
        column.title: pd.Series([_shown(row[place], column) for row in table.rows], dtype=_type_of(column))
        for place, column in enumerate(table.columns)
    }
    return pd.DataFrame(data)


def _shown(cell: Cell, column: Column) -> object:
    if column.is_number:
        return value_of(cell, column)
    return " ".join(filter(None, (cell.letter, cell.text)))


def _type_of(column: Column) -> str:
    return "Float64" if column.is_number else "string"


def _format_of(column: Column, table: Table) -> ColumnConfig:
    place = table.columns.index(column)
    numbers = [number for row in table.rows if isinstance(number := value_of(row[place], column), int | float)]
    is_whole = all(float(number).is_integer() for number in numbers)
    return st.column_config.NumberColumn(format="localized" if is_whole else "%.1f")


def _writer() -> HtmlWriter:
    return HtmlWriter(_link, is_page=True)


def _link(target: Target) -> str:
    return f"#{target.anchor}" if target.kind is Kind.SECTION else links.address(target) or ""
