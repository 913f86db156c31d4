"""Draws the blocks of a view on a page: static blocks as HTML, charts and tables of very many rows by Streamlit."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.fleet.pieces import Kind, Link
from dashboard.render.html import HtmlWriter
from dashboard.render.svg import described
from dashboard.views.blocks import (
    Block,
    Chart,
    Columns,
    DifferenceTable,
    FleetMap,
    Section,
    Table,
    View,
)
from dashboard.web import charts, links, markup, tables

MATRIX_ROW, MATRIX_HEAD = 32, 90  # px of a difference table whose values fit on one line, and of the rest of it
MOST_HTML_ROWS = 200  # of a table; more are a grid, as a page of so much HTML is slow
_component = markup.component("difference_matrix", "copying.js", "matrix.js", css="surface")
_map_component = markup.component("fleet_map", "fleet_map.js", css="surface")


def html_of(blocks: Iterable[Block]) -> str:
    """Return static blocks as HTML, with links to their pages."""
    return str(_writer().blocks(blocks))


def folded_html(section: Section) -> str:
    """Return a section of static blocks as HTML, folded where it is an aside."""
    return str(_writer().sections([section]))


def draw_head(view: View) -> None:
    st.html(markup.heading(markup.text(view.headline), markup.text(view.lead)))


def controls_row(key: str | None = None) -> DeltaGenerator:
    """Return the place of controls next to each other."""
    return st.container(key=key, horizontal=True, vertical_alignment="bottom", gap="small")


def open_link(link: Link | None) -> None:
    """Let the browser go to the page of a link, as it would by a click; None: nothing was clicked."""
    if link and (url := links.address(link)):
        links.open_url(url)


# HTML of static blocks, or what draws under a key and returns the link that was clicked, if any.
PreparedPiece = str | partial[Any]
PreparedPieces = tuple[PreparedPiece, ...]


def draw_sections(sections: Iterable[Section], key: str) -> Link | None:
    """Draw sections under their headings and return the link that was clicked.

    Appendices and sections of exports only are left out.
    """
    return draw_prepared(prepare_sections(sections), key)


def prepare_sections(sections: Iterable[Section], level: int = 2) -> PreparedPieces:
    """Write the static blocks of sections as HTML, which sessions can share."""
    return _joined(_section_pieces(sections, level))


def prepare(blocks: Iterable[Block], below: str = "") -> PreparedPieces:
    """Write static blocks as HTML, which sessions can share, with HTML `below` each table whose cells are clicked."""
    return _joined(_prepared(each, below) for each in blocks)


def folded(title: str, pieces: PreparedPieces) -> PreparedPiece:
    return partial(_draw_folded, title, pieces)


def heading_of(section: Section, level: int = 2) -> str:
    return str(_writer().heading(section, level))


def _section_pieces(sections: Iterable[Section], level: int) -> Iterator[PreparedPiece]:
    for section in sections:
        if section.is_appendix or section.is_exported_only:
            continue
        if section.is_aside:
            yield folded(section.title, (*prepare(section.blocks), *prepare_sections(section.parts, level + 1)))
            continue
        if section.title:
            yield heading_of(section, level)
        yield from map(_prepared, section.blocks)
        yield from _section_pieces(section.parts, level + 1)


def _prepared(block: Block, below: str = "") -> PreparedPiece:
    if isinstance(block, DifferenceTable) and block.is_interactive:
        return partial(draw_matrix, html_of([block]) + below, block.matrix.pool.name)
    if isinstance(block, FleetMap):
        return partial(_draw_map, html_of([block]))
    if isinstance(block, Chart | Columns):
        return partial(_draw_chart, block) if isinstance(block, Chart) else partial(_draw_columns, block)
    if isinstance(block, Table) and block.is_whole and len(block.rows) > MOST_HTML_ROWS:
        return partial(tables.draw_grid, block)
    html = html_of([block])
    if isinstance(block, Table) and block.has_ticks:
        return partial(tables.draw_ticked_table, html, tables.ids_of(block))
    return html


def _joined(pieces: Iterable[PreparedPiece]) -> PreparedPieces:
    """Join pieces of HTML that follow each other."""
    joined: list[PreparedPiece] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    return tuple(joined)


def draw_blocks(blocks: Iterable[Block], key: str) -> Link | None:
    """Draw blocks, static ones that follow each other as one piece of HTML, and return the link that was clicked."""
    return draw_prepared(prepare(blocks), key)


def draw_prepared(pieces: PreparedPieces, key: str) -> Link | None:
    clicked = None
    for place, piece in enumerate(pieces):
        if isinstance(piece, str):
            st.html(piece)
        else:
            clicked = piece(f"{key}_{place}") or clicked
    return clicked


def _draw_folded(title: str, pieces: PreparedPieces, key: str) -> Link | None:
    if not any(isinstance(each, partial) and each.func is _draw_chart for each in pieces):
        with st.expander(title):
            return draw_prepared(pieces, key)
    with st.expander(title, key=f"{key}_aside", on_change="rerun") as aside:  # a folded chart costs 50 ms
        return draw_prepared(pieces, key) if aside.open else None


def _draw_map(html: str, key: str) -> None:
    _map_component(key=key, data={"html": html})


def _draw_columns(block: Columns, key: str) -> Link | None:
    clicked = None
    for number, (place, column) in enumerate(zip(st.columns(block.shares, gap="medium"), block.columns, strict=True)):
        with place:
            clicked = draw_blocks(column, f"{key}_{number}") or clicked
    return clicked


def _draw_chart(chart: Chart, key: str) -> Link | None:
    figure = charts.figure_of(chart, charts.DARK if st.context.theme.type == "dark" else charts.LIGHT)
    with st.container(key=f"chart_{key}"):
        st.html(charts.first_html(figure))
        event = st.plotly_chart(
            figure,
            key=key,
            theme=None,
            on_select="rerun",
            selection_mode="points",
            config={"displayModeBar": False},
            alt=described(chart),
        )
    points = event["selection"]["points"]
    place = points[0].get("customdata", [None])[0] if points else None
    return chart.bars[int(place)].link if place is not None and int(place) < len(chart.bars) else None


def _writer() -> HtmlWriter:
    return HtmlWriter(_address_of, is_page=True)


def _address_of(link: Link) -> str:
    return f"#{link.anchor}" if link.kind is Kind.SECTION else links.address(link) or ""


def draw_matrix(html: str, pool: str, key: str) -> Link | None:
    """Draw the HTML of a matrix and return the setting, cohort or replica that was opened since the last run."""
    with tables.reserved(key, MATRIX_HEAD + MATRIX_ROW * html.count("<tr ")):
        result = _component(key=key, data={"html": html}, on_cell_change=tables.nothing)
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
