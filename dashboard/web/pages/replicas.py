"""Replicas: every replica in one table."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import ReplicaState
from dashboard.fleet.formatting import count, natural, one_line
from dashboard.render.tabular import to_table_csv
from dashboard.views import pages
from dashboard.views.replicas import (
    INCOMPLETE,
    SEVERITIES,
    SORTED_BY,
    SORTS,
    TABLE,
    TITLES,
    ReplicaChoice,
    chosen_rows,
    replica_rows,
    replicas_data,
    replicas_report,
)
from dashboard.views.table import ASCENDING, DESCENDING, REVERSED, sort_name
from dashboard.web import draw, empty, links, share, state
from dashboard.web.draw import ARROWS
from dashboard.web.state import shared

ALL_POOLS, ALL_STATES = "all pools", "all"  # options of the controls
WORST_FIRST = ""  # no sort in the URL


known_rows = shared(max_entries=4, has_times=True)(replica_rows)


def choose(fleet: Fleet) -> ReplicaChoice:
    search = st.text_input(
        "Search", **links.bind(pages.SEARCH), placeholder="any column or label", width=260, live=True
    )
    pools = [ALL_POOLS, *(pool.name for pool in fleet.pools)]
    pool = links.draw_select("Pool", pages.POOL, pools, 250)
    state = links.draw_segments("State", pages.STATE, [ALL_STATES, *(each.value for each in ReplicaState), INCOMPLETE])
    return ReplicaChoice(
        pool=pool,
        state=None if state == ALL_STATES else state,
        search=search or "",
    )


def choose_more(replicas: pd.DataFrame, choice: ReplicaChoice) -> ReplicaChoice:
    """Draw the filters with several options, the sort and the columns, and return the choice with them."""
    versions, cohorts, sources = (
        sorted(replicas[each].dropna().unique(), key=natural) for each in ("version", "cohort", "best_answer")
    )
    sorts = [WORST_FIRST, *SORTS]
    return choice._replace(
        versions=_several("vLLM", pages.VERSION, versions),
        cohorts=_several("Cohort", pages.COHORTS, sorted(cohorts, key=lambda letter: (len(letter), letter))),
        severities=_several("Findings", pages.SEVERITY, SEVERITIES),
        sources=_several("Source", pages.SOURCE, sources),
        sort=str(st.selectbox("Sort", sorts, **links.bind(pages.SORT, sorts), format_func=_sort_text, width=180)),
        columns=_several("Columns", pages.COLUMNS, TITLES[1:]),
    )


def _several(label: str, name: str, options: Sequence[str]) -> tuple[str, ...]:
    bound = links.bind_several(name, options)
    return tuple(st.multiselect(label, options, **bound, format_func=one_line, placeholder="all", width=190))


def _sort_text(sort: str) -> str:
    if sort == WORST_FIRST:
        return "problems first"
    title = next(each for each in SORTED_BY if sort_name(each) == sort.removeprefix(REVERSED))
    return f"{title} {ARROWS[DESCENDING if sort.startswith(REVERSED) else ASCENDING]}"


def draw_page() -> None:
    fleet = state.fleet()
    head = st.container()
    rows = known_rows(fleet)
    controls = draw.controls_row("controls")
    with controls:
        choice = choose(fleet)
    with draw.controls_row("filters"):
        choice = choose_more(rows, choice)
    name = state.snapshot_name()
    view = replicas_report(fleet, choice, rows=rows, name=name)
    shown = chosen_rows(rows, choice)
    controls.download_button(
        "CSV",
        lambda: to_table_csv(replicas_data(shown), view.context),
        file_name=f"{links.make_file_name('replicas', *pages.choices_of(fleet).values())}.csv",
        mime="text/csv",
        on_click="ignore",
    )
    with head:
        draw.draw_head(view)
    share.offer(lambda: replicas_report(fleet, choice, rows=rows, name=name))
    if shown.empty:
        empty.filter_hides_all(f"{count(len(rows), 'replica')} hidden.", links.to(pages.REPLICAS))
        return
    (table,) = (each for each in view.parts if each.anchor == TABLE)
    clicked = draw.draw_blocks(table.blocks, "replicas")
    if clicked:
        draw.open_link(clicked)
