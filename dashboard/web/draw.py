"""Draws the blocks of a view on a page: static blocks as HTML, charts and large tables by Streamlit."""

from __future__ import annotations  # prepared pieces nest

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.elements.arrow import SelectionMode
from streamlit.elements.lib.column_types import ButtonColumnResult, ColumnConfig

from dashboard.fleet.formatting import age
from dashboard.fleet.pieces import Kind, Link
from dashboard.render.html import HtmlWriter
from dashboard.render.svg import described
from dashboard.render.tabular import LETTERS
from dashboard.views import pages
from dashboard.views.blocks import (
    SIGNS,
    Block,
    Cell,
    Chart,
    Column,
    Columns,
    DifferenceTable,
    FleetMap,
    Section,
    Table,
    Tone,
    View,
    value_of,
)
from dashboard.views.chosen_columns import MOST_CHOSEN, write_chosen
from dashboard.views.table import ASCENDING, DESCENDING
from dashboard.web import charts, links, markup, state

ROW, HEAD, TALLEST = 35, 37, 702  # px of a large table
MATRIX_ROW, MATRIX_HEAD = 32, 90  # px of a difference table whose values fit on one line, and of the rest of it
TALLEST_SETTINGS = 460  # px: the value of the selected setting is visible below
LETTER, PADDING, WIDEST = 6.6, 24, 440  # px of a column: of a character, of its edges, at most
ARROWS = {ASCENDING: "\N{UPWARDS ARROW}", DESCENDING: "\N{DOWNWARDS ARROW}"}  # on the head of a sorted column
HINTS = {
    Kind.REPLICA: "Click a name to open the replica, a column title to sort.",
    Kind.SETTING: "Click a setting to see its whole value.",
}
COPY = '<button type="button" class="copy" data-copy-table>Copy table</button>'
_HERE = Path(__file__).parent
_component = st.components.v2.component(
    "difference_matrix",
    html='<div class="surface"></div>',
    js="".join((_HERE / name).read_text(encoding="utf-8") for name in ("copying.js", "matrix.js")),
    isolate_styles=False,  # the style sheet of the pages also applies to the table
)


_map_component = st.components.v2.component(
    "fleet_map",
    html='<div class="surface"></div>',
    js=(_HERE / "fleet_map.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


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


def open_link(link: Link) -> None:
    """Let the browser go to the page of a link, as it would by a click."""
    if url := links.address(link):
        links.open_url(url)


class FoldedSection(NamedTuple):
    """A section that a page folds, prepared."""

    title: str
    pieces: PreparedPieces


class MapHtml(NamedTuple):
    """A map of replicas that arrow keys walk through, as HTML."""

    html: str


class MatrixHtml(NamedTuple):
    """A difference table whose cells can be clicked, as HTML, and its pool."""

    html: str
    pool: str


PreparedPiece = str | MapHtml | MatrixHtml | FoldedSection | Block
PreparedPieces = tuple[PreparedPiece, ...]  # HTML of static blocks, and what Streamlit draws


def draw_sections(sections: Iterable[Section], key: str) -> Link | None:
    """Draw sections under their headings and return the link that was clicked.

    Appendices and sections of exports only are left out.
    """
    return draw_prepared(prepare_sections(sections), key)


def prepare_sections(sections: Iterable[Section], level: int = 2) -> PreparedPieces:
    """Write the static blocks of sections as HTML, which sessions can share."""
    return _joined(_section_pieces(sections, level))


def prepare(blocks: Iterable[Block]) -> PreparedPieces:
    """Write static blocks as HTML, which sessions can share."""
    return _joined(map(_prepared, blocks))


def heading_of(section: Section, level: int = 2) -> str:
    return str(_writer().heading(section, level))


def _section_pieces(sections: Iterable[Section], level: int) -> Iterator[PreparedPiece]:
    for section in sections:
        if section.is_appendix or section.is_exported_only:
            continue
        if section.is_aside:
            yield FoldedSection(section.title, (*prepare(section.blocks), *prepare_sections(section.parts, level + 1)))
            continue
        if section.title:
            yield heading_of(section, level)
        yield from map(_prepared, section.blocks)
        yield from _section_pieces(section.parts, level + 1)


def _prepared(block: Block) -> PreparedPiece:
    if isinstance(block, DifferenceTable) and block.is_interactive:
        return MatrixHtml(html_of([block]), block.matrix.pool.name)
    if isinstance(block, FleetMap):
        return MapHtml(html_of([block]))
    is_drawn = isinstance(block, Chart | Columns) or (isinstance(block, Table) and block.is_large)
    return block if is_drawn else html_of([block])


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
        elif isinstance(piece, MapHtml):
            _map_component(key=f"{key}_{place}", data={"html": piece.html})
        else:
            clicked = _draw(piece, f"{key}_{place}") or clicked
    return clicked


def _draw(piece: MatrixHtml | FoldedSection | Block, key: str) -> Link | None:
    if isinstance(piece, FoldedSection):
        if not any(isinstance(each, Chart) for each in piece.pieces):
            with st.expander(piece.title):
                return draw_prepared(piece.pieces, key)
        with st.expander(piece.title, key=f"{key}_aside", on_change="rerun") as aside:  # a folded chart costs 50 ms
            return draw_prepared(piece.pieces, key) if aside.open else None
    if isinstance(piece, MatrixHtml):
        return draw_matrix(piece.html, piece.pool, key)
    if isinstance(piece, Chart):
        return _draw_chart(piece, key)
    if isinstance(piece, Table):
        return _draw_large_table(piece, key)
    clicked = None
    if isinstance(piece, Columns):
        places = st.columns(piece.shares, gap="medium")
        for number, (place, column) in enumerate(zip(places, piece.columns, strict=True)):
            with place:
                clicked = draw_blocks(column, f"{key}_{number}") or clicked
    return clicked


def _draw_chart(chart: Chart, key: str) -> Link | None:
    figure = charts.figure_of(chart, charts.palette(st.context.theme.type))
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


def _draw_large_table(table: Table, key: str) -> Link | None:
    """Draw a table that scrolls and sorts. Return the link of the clicked name or setting.

    A name is a button: the grid selects its first cell when it gets the focus, so a selected cell opens no page. Ticks
    choose replicas and open nothing. A head with a link sorts by the URL: its selection is the click.
    """
    first = table.rows[0][0].link if table.rows else None
    is_settings = first is not None and first.kind is Kind.SETTING
    opens_page = first is not None and not is_settings
    formats: dict[str, ColumnConfig | ButtonColumnResult] = {
        each.title: _format_of(each, table) for each in table.columns
    }
    frame = _frame_of(table)
    if opens_page:
        title = table.columns[0].title
        frame[title] = frame[title].str.replace(r"^(?=\s*[\[:])", markup.NO_COMMAND, regex=True)
        formats[title] = st.column_config.ButtonColumn(
            _label_of(table.columns[0]),
            type="tertiary",
            alignment="left",
            width=_width_of(table.columns[0], table),
            key=f"{key}_name",
        )
    sorts = any(each.link for each in table.columns)
    modes: list[SelectionMode] = ["multi-row" if opens_page else "single-cell"]
    if sorts:
        modes.append("single-column")
    _keep_ticks(key, [row[0].link.key if row[0].link else "" for row in table.rows])
    bar = st.container(key=f"ticks_{key}", horizontal=True, vertical_alignment="center") if opens_page else None
    event = st.dataframe(
        frame,
        key=key,
        hide_index=True,
        on_select=partial(_sort_by_head, key, table.columns) if sorts else "rerun",
        selection_mode=modes,
        placeholder="–",
        height=min(HEAD + ROW * max(len(table.rows), 1), TALLEST_SETTINGS if is_settings else TALLEST),
        column_config=formats,
    )
    if foot := " ".join(filter(None, (table.note, HINTS.get(first.kind, "") if first else ""))):
        st.html(f'<div class="foot">{markup.text(foot)}</div>')
    if bar is not None:
        with bar:
            _offer_comparison(_targets(table, event["selection"]["rows"]), key)
    name = st.session_state.get(f"{key}_name")
    rows = [name["row"]] if name else [row for row, _ in event["selection"]["cells"]]
    return next(iter(_targets(table, rows)), None)


def _keep_ticks(key: str, ids: list[str]) -> None:
    """Tick the same replicas where their rows moved: Streamlit keeps the numbers of the rows."""
    before = st.session_state.get(f"{key}_ids", ids)
    st.session_state[f"{key}_ids"] = ids
    if key in st.session_state and before != ids:
        ticked = {before[row] for row in st.session_state[key]["selection"]["rows"] if row < len(before)}
        rows = [row for row, each in enumerate(ids) if each in ticked]
        st.session_state[key] = {"selection": {"rows": rows, "columns": [], "cells": []}}


def _sort_by_head(key: str, columns: Sequence[Column]) -> None:
    selection = st.session_state[key]["selection"]
    clicked = next((each.link for each in columns if each.title in selection["columns"]), None)
    if clicked is not None:
        st.query_params.update(dict(clicked.choices))
        st.session_state[key] = {"selection": {**selection, "columns": []}}


def _targets(table: Table, rows: Iterable[int]) -> list[Link]:
    """Return what rows are of; a filter may have removed a row since it was selected."""
    return [link for row in rows if row < len(table.rows) and (link := table.rows[row][0].link)]


def _offer_comparison(ticked: Sequence[Link], key: str) -> None:
    """Draw what ticked replicas lead to: the page of one, the comparison of several; and a button that clears them."""
    ids = list(dict.fromkeys(each.key for each in ticked if each.kind is Kind.REPLICA))
    if not ids:  # the place stays, so that the first tick moves nothing
        st.html(f'<p class="foot">Tick up to {MOST_CHOSEN} replicas to compare them.</p>')
        return
    if len(ids) == 1:
        link = markup.link(links.to(pages.REPLICA_PAGE, replica=ids[0]), "Open the ticked replica")
        then = markup.link(links.to(pages.COMPARE, replicas=write_chosen(ids)), "Compare it with a snapshot")
        st.html(f'<p class="ticked">1 selected · {link} · {then}</p>')
    elif len(ids) <= MOST_CHOSEN:
        link = markup.link(links.to(pages.COMPARE, replicas=write_chosen(ids)), f"Compare {len(ids)} replicas")
        st.html(f'<p class="ticked">{len(ids)} selected · {link}</p>')
    else:
        st.html(f'<p class="ticked">{len(ids):,} replicas ticked: at most {MOST_CHOSEN} can be compared.</p>')
    st.button("Clear", key=f"{key}_clear", type="tertiary", on_click=_clear_ticks, args=(key,))


def _clear_ticks(key: str) -> None:
    st.session_state[key] = {"selection": {"rows": [], "columns": [], "cells": []}}


def _frame_of(table: Table) -> pd.DataFrame:
    """Return the rows of a table: numbers as numbers, the rest as text; letters of cohorts have their own column."""
    data = {}
    for place, column in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        data[column.title] = pd.Series([_shown(each, column) for each in cells], dtype=_type_of(column))
        if any(each.letter for each in cells):
            data[LETTERS] = pd.Series([each.letter for each in cells], dtype="string")
    return pd.DataFrame(data)


def _shown(cell: Cell, column: Column) -> object:
    now = state.age_reference() if cell.age else None
    if cell.age and now:
        return cell.age.words.format(age((now - cell.age.time).total_seconds()))
    if column.is_number:
        return value_of(cell, column)
    return f"{SIGNS[cell.tone]} {cell.text}".rstrip() if cell.tone is not Tone.PLAIN else cell.text


def _type_of(column: Column) -> str:
    return "Float64" if column.is_number else "string"


def _format_of(column: Column, table: Table) -> ColumnConfig:
    if not column.is_number:
        return st.column_config.TextColumn(_label_of(column), width=_width_of(column, table))
    place = table.columns.index(column)
    numbers = [number for row in table.rows if isinstance(number := value_of(row[place], column), int | float)]
    is_whole = all(float(number).is_integer() for number in numbers)
    return st.column_config.NumberColumn(_label_of(column), format="localized" if is_whole else "%.1f")


def _label_of(column: Column) -> str:
    return f"{column.title} {ARROWS[column.order]}" if column.order else column.title


def _width_of(column: Column, table: Table) -> int:
    """Return the width of text in px: Streamlit would measure the first rows only."""
    place = table.columns.index(column)
    longest = max([len(column.title), *(len(str(_shown(row[place], column))) for row in table.rows)])
    return int(min(longest * LETTER + PADDING, WIDEST))


def _writer() -> HtmlWriter:
    return HtmlWriter(_address_of, is_page=True)


def _address_of(link: Link) -> str:
    return f"#{link.anchor}" if link.kind is Kind.SECTION else links.address(link) or ""


def draw_matrix(html: str, pool: str, key: str) -> Link | None:
    """Draw the HTML of a matrix and return the setting, cohort or replica that was opened since the last run."""
    with st.container(key=f"{key}_place"):  # as high as the table before it is there: nothing below moves
        height = MATRIX_HEAD + MATRIX_ROW * html.count("<tr data-path")
        st.html(f"<style>.st-key-{key}_place:not(:has(table)) {{ min-height: {height}px }}</style>")
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
