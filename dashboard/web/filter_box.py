"""The search box of a list, and the button next to it that writes the same filters into its text."""

from collections.abc import Callable, Mapping

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.fleet.formatting import one_line
from dashboard.views import pages
from dashboard.views.filters import FilterKey, Search, read_search, replace_filters
from dashboard.views.pool_comparison import SettingChoice
from dashboard.web import draw, links, markup

PREFIX = "filter_"  # before the key of a control
DIFFERENCES, ALL = "Only differences", "All settings"  # labels of the control and values in the URL


def draw_box(keys: Mapping[str, FilterKey], example: str, more: Callable[[], None]) -> Search:
    """Draw the box and, behind a button, a control for each key, then `more`; return what is searched for."""
    search = read_search(st.query_params.get(pages.SEARCH, ""), keys)
    with draw.controls_row("filters"):
        st.text_input(
            "Search",
            **links.bind(pages.SEARCH),
            placeholder=f"Search, or filter: {example}",
            label_visibility="collapsed",
            width=560,
            live=True,
        )
        with st.popover("Filter", key="filter"):
            for key, known in keys.items():
                if key != pages.POOL:  # the header has the pool of all pages
                    _draw_control(key, known, search)
            more()
    if search.problems:
        st.html(markup.notice("warning", markup.text(" ".join(search.problems))))
    return search


def draw_button(*choices: str) -> DeltaGenerator:
    """Draw the button for filters that are choices of their own in the URL, with the number of those that are set."""
    active = sum(name in st.query_params for name in choices)
    return st.popover(f"Filter ({active})" if active else "Filter", key="filter")


def draw_rows() -> SettingChoice:
    """Draw the controls for the rows of a comparison and return their choice."""
    rows = links.draw_segments("Show", pages.SHOW, (DIFFERENCES, ALL))
    search = st.text_input("Search", **links.bind(pages.SEARCH), placeholder="path or value", live=True, width=150)
    return SettingChoice(only_differences=rows != ALL, search=search or "")


def _draw_control(key: str, known: FilterKey, search: Search) -> None:
    name, chosen = f"{PREFIX}{key}", list(search.chosen.get(key, ()))
    if st.session_state.get(name) != chosen:
        st.session_state[name] = chosen
    st.multiselect(
        key.capitalize(),
        list(dict.fromkeys([*known.values, *chosen])),
        key=name,
        on_change=_write,
        args=(key,),
        format_func=one_line,
        max_selections=1 if known.others else None,
        placeholder="any",
    )


def _write(key: str) -> None:
    if f"{PREFIX}{key}" not in st.session_state:
        return  # the page was left
    text = replace_filters(st.query_params.get(pages.SEARCH, ""), key, st.session_state[f"{PREFIX}{key}"])
    if text:
        st.query_params[pages.SEARCH] = text
    else:
        st.query_params.pop(pages.SEARCH, None)
