"""Tables of a page that are more than HTML: rows of replicas that can be ticked, and grids of very many rows."""

import re
from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.elements.arrow import SelectionMode
from streamlit.elements.lib.column_types import ButtonColumnResult, ColumnConfig

from dashboard.fleet.formatting import age
from dashboard.fleet.pieces import Link
from dashboard.render.tabular import LETTERS
from dashboard.views import pages
from dashboard.views.blocks import SIGNS, Cell, Column, Table, Tone, value_of
from dashboard.views.chosen_columns import MOST_CHOSEN, write_chosen
from dashboard.views.table import ASCENDING, DESCENDING
from dashboard.web import links, markup, state

ROW, HEAD, TALLEST = 35, 37, 702  # px of a grid, and of a table whose cells have one line
LETTER, PADDING, WIDEST = 6.6, 24, 440  # px of a column: of a character, of its edges, at most
ARROWS = {ASCENDING: "\N{UPWARDS ARROW}", DESCENDING: "\N{DOWNWARDS ARROW}"}  # on the head of a sorted column
_ticks_component = markup.component("ticked_table", "ticks.js", css="surface")


def draw_grid(table: Table, key: str) -> Link | None:
    """Draw a table that scrolls and sorts. Return the link of the clicked name.

    A name is a button: the grid selects its first cell when it gets the focus, so a selected cell opens no page. A head
    with a link sorts by the URL: its selection is the click.
    """
    formats: dict[str, ColumnConfig | ButtonColumnResult] = {
        each.title: _format_of(each, table) for each in table.columns
    }
    frame = _frame_of(table)
    if table.rows[0][0].link is not None:
        title = table.columns[0].title
        frame[title] = frame[title].str.replace(r"^(?=\s*[\[:])", markup.NO_COMMAND, regex=True)
        formats[title] = st.column_config.ButtonColumn(
            _label_of(table.columns[0]),
            type="tertiary",
            alignment="left",
            width=_width_of(table.columns[0], table),
            key=f"{key}_name",
        )
    modes: list[SelectionMode] = ["multi-row"] if table.has_ticks else []
    modes += ["single-column"] if any(each.link for each in table.columns) else []
    ids = ids_of(table)
    if modes:
        _select_rows(f"{key}_grid", ids, _ticked_in(key, ids))
    if table.has_ticks:
        _draw_tick_bar(key, ids)
    st.dataframe(
        frame,
        key=f"{key}_grid",
        hide_index=True,
        on_select=partial(_read_selection, key, ids, table.columns) if modes else "ignore",
        selection_mode=modes or "multi-row",
        placeholder="–",
        height=min(HEAD + ROW * len(table.rows), TALLEST),
        column_config=formats,
    )
    if table.note:
        st.html(f'<div class="foot">{markup.text(table.note)}</div>')
    clicked = st.session_state.get(f"{key}_name")
    return table.rows[clicked["row"]][0].link if clicked and clicked["row"] < len(table.rows) else None


def _select_rows(key: str, ids: Sequence[str], ticked: Sequence[str]) -> None:
    """Select the rows of the ticked replicas: Streamlit keeps the numbers of rows, which move."""
    rows = [row for row, each in enumerate(ids) if each in ticked]
    selection = {"rows": rows, "columns": [], "cells": []}
    if (st.session_state[key]["selection"] if key in st.session_state else {**selection, "rows": []}) != selection:
        st.session_state[key] = {"selection": selection}


def _read_selection(key: str, ids: Sequence[str], columns: Sequence[Column]) -> None:
    """Keep the ticked replicas, and sort by the head that was clicked."""
    selection = st.session_state[f"{key}_grid"]["selection"]
    st.session_state[f"{key}_ticked"] = [ids[row] for row in selection["rows"] if row < len(ids)]
    clicked = next((each.link for each in columns if each.title in selection["columns"]), None)
    if clicked is not None:
        st.query_params.update(dict(clicked.choices))


def draw_ticked_table(html: str, ids: Sequence[str], key: str) -> None:
    """Draw a table whose rows can be ticked; `ids` are those of its replicas."""
    place = st.container()
    with reserved(key, HEAD + ROW * len(ids)):
        ticked, cleared = _ticked_in(key, ids), st.session_state.get(f"{key}_cleared", 0)
        data = {"html": html, "ticked": ticked, "cleared": cleared}
        found = _ticks_component(key=key, data=data, on_ticked_change=nothing).get("ticked")
    if isinstance(found, list):
        st.session_state[f"{key}_ticked"] = [each for each in ids if each in found]
    with place:
        _draw_tick_bar(key, ids)


def _ticked_in(key: str, ids: Sequence[str]) -> list[str]:
    """Return the ticked replicas of a table. One that a filter hides is not ticked."""
    kept = st.session_state.get(f"{key}_ticked", ())
    return [each for each in ids if each in kept]


def _draw_tick_bar(key: str, ids: Sequence[str]) -> None:
    """Draw what ticked replicas lead to: the page of one, the comparison of several; and a button that clears them."""
    ticked = _ticked_in(key, ids)
    with st.container(key=f"ticks_{key}", horizontal=True, vertical_alignment="center"):
        if not ticked:  # the place stays, so that the first tick moves nothing
            st.html(f'<p class="foot">Tick up to {MOST_CHOSEN} replicas to compare them.</p>')
            return
        url = links.to(pages.COMPARE, replicas=write_chosen(ticked))
        if len(ticked) == 1:
            link = markup.link(links.to(pages.REPLICA_PAGE, replica=ticked[0]), "Open the ticked replica")
            shown = f"1 selected · {link} · {markup.link(url, 'Compare it with a snapshot')}"
        elif len(ticked) <= MOST_CHOSEN:
            shown = f"{len(ticked)} selected · {markup.link(url, f'Compare {len(ticked)} replicas')}"
        else:
            shown = f"{len(ticked):,} replicas ticked: at most {MOST_CHOSEN} can be compared."
        st.html(f'<p class="ticked">{shown}</p>')
        st.button("Clear", key=f"{key}_clear", type="tertiary", on_click=_clear_ticks, args=(key,))


def _clear_ticks(key: str) -> None:
    st.session_state[f"{key}_ticked"] = []
    st.session_state[f"{key}_cleared"] = st.session_state.get(f"{key}_cleared", 0) + 1


def ids_of(table: Table) -> tuple[str, ...]:
    """Return what the rows are of; empty where a name is no link."""
    return tuple(row[0].link.key if row[0].link else "" for row in table.rows)


def _frame_of(table: Table) -> pd.DataFrame:
    """Return the rows of a table: numbers as numbers, the rest as text; letters of cohorts have their own column."""
    data = {}
    for place, column in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        data[column.title] = pd.Series(
            [_shown(each, column) for each in cells], dtype="Float64" if _is_number(column) else "string"
        )
        if any(each.letter for each in cells):
            data[LETTERS] = pd.Series([each.letter for each in cells], dtype="string")
    return pd.DataFrame(data)


def _shown(cell: Cell, column: Column) -> object:
    now = state.age_reference() if cell.age else None
    if cell.age and now:
        return cell.age.words.format(age((now - cell.age.time).total_seconds()))
    if _is_number(column):
        return value_of(cell, column)
    text = cell.whole_text
    return f"{SIGNS[cell.tone]} {text}".rstrip() if cell.tone is not Tone.PLAIN else text


def _is_number(column: Column) -> bool:
    """Return whether a grid has a column as numbers: one that the URL sorts has the texts, which have units."""
    return column.is_number and column.link is None


def _format_of(column: Column, table: Table) -> ColumnConfig:
    if not _is_number(column):
        return st.column_config.TextColumn(
            _label_of(column), width=_width_of(column, table), alignment="right" if column.is_number else None
        )
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


def reserved(key: str, height: int) -> DeltaGenerator:
    """Return the place of a component, as high as its table (px) before that is there: nothing below moves."""
    place = st.container(key=f"{key}_place")
    css = re.sub(r"[^\w-]", "-", f"st-key-{key}_place")  # as Streamlit makes a class of a key
    place.html(f"<style>.{css}:not(:has(table)) {{ min-height: {height}px }}</style>")
    return place


def nothing() -> None:
    """Streamlit reports a trigger only to a component that has a callback for it."""
