"""Draws the page Replicas: the sentence, the filters, the table, its CSV."""

from datetime import datetime
from typing import NamedTuple

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import ReplicaState, formatting
from dashboard.report.replicas import table as replica_table
from dashboard.views import fleet_summary, pages
from dashboard.views.context import as_of
from dashboard.web import links, markup
from dashboard.web.state import shared

EVERY_POOL, EVERY_STATE = "all pools", "all"
ROW, HEAD, TALLEST = 35, 37, 702  # px of the table
OPENS = "Replica"  # the column whose cells open a replica; the rows' own boxes do, too
HINT = "Click a name to open the replica."
_WIDTHS = {  # px; what is said of a fleet that is up fits a page of 1,024, and why a replica is not one of 1,400
    "State": 92,
    "Replica": 138,
    "Findings": 112,
    "Pool": 112,
    "Cohort": 58,
    "vLLM": 60,
    "Best answer": 104,
    "Read": 76,
    "Role": 66,
    "Started": 124,
    "Reason": 410,
}
_WITH_REASONS = {**_WIDTHS, "State": 182, "Pool": 132, "Best answer": 92}  # a narrow page scrolls then
_WITH_TIMES = 150  # of the column Read


class Choice(NamedTuple):
    """What the reader filters by; None is everything."""

    pool: str | None
    state: str | None
    search: str


@shared(max_entries=4)
def rows(generation: int, polled_at: datetime | None, _fleet: Fleet) -> pd.DataFrame:  # noqa: ARG001  # the cache's key
    """Return the rows of one fleet; every session that shows it shares them and none changes them."""
    return replica_table.rows_of(_fleet)


def draw_head(fleet: Fleet) -> None:
    """Say how many replicas there are and how they stand."""
    now = fleet_summary.summarize(fleet)
    lead = f"{formatting.count(now.pools, 'pool')}. {HINT}"
    st.html(markup.heading(markup.text(fleet_summary.replicas_title(now)), markup.text(lead)))


def choose(fleet: Fleet, row: DeltaGenerator) -> Choice:
    """Draw the filters into a row and return what they say."""
    with row:
        search = st.text_input(
            "Search", **links.bind(pages.SEARCH), placeholder="name, address or label", width=260, live=True
        )
        pools = [EVERY_POOL, *(pool.name for pool in fleet.pools)]
        pool = st.selectbox("Pool", pools, **links.bind(pages.POOL, pools), format_func=formatting.one_line, width=250)
        states = [EVERY_STATE, *(each.value for each in ReplicaState)]
        state = links.draw_segments("State", pages.STATE, states)
    return Choice(
        pool=None if pool in {None, EVERY_POOL} else pool,
        state=None if state == EVERY_STATE else state,
        search=search or "",
    )


def kept(rows: pd.DataFrame, choice: Choice) -> pd.DataFrame:
    """Return the rows that the filters leave."""
    return replica_table.filtered(rows, pool=choice.pool, state=choice.state, search=choice.search)


def draw_table(rows: pd.DataFrame, now: datetime | None) -> str | None:
    """Draw the table and return the id of the replica whose row was selected. Without `now` it tells no ages."""
    shown = replica_table.shown(rows, now)
    widths = (_WITH_REASONS if "Reason" in shown.columns else _WIDTHS) | ({} if now else {"Read": _WITH_TIMES})
    event = st.dataframe(
        shown,
        key="replicas_table",
        hide_index=True,
        height=min(HEAD + ROW * len(rows), TALLEST),
        on_select="rerun",
        selection_mode=["single-row", "single-cell"],
        placeholder="–",
        column_config={
            **{name: st.column_config.TextColumn(width=width) for name, width in widths.items()},
            "Best answer": st.column_config.TextColumn(
                width=widths["Best answer"], help="Of all that answered, what tells most and is trusted most."
            ),
            "Differs in": st.column_config.NumberColumn(
                width=72,
                help="Settings that are not what most of its pool have; where no value has the majority, none counts.",
            ),
            "Started": st.column_config.DatetimeColumn(
                format="YYYY-MM-DD HH:mm", timezone="UTC", width=_WIDTHS["Started"], help="In UTC."
            ),
        },
    )
    named = [row for row, column in event["selection"]["cells"] if column == OPENS]
    selected = [row for row in (*event["selection"]["rows"], *named) if row < len(rows)]
    return str(rows["id"].iloc[selected[0]]) if selected else None


def draw_foot(rows: pd.DataFrame, number: str) -> None:
    """Say below the table how many rows it has, and what the signs in it mean where any has one."""
    found = f" {replica_table.FINDINGS_NOTE}" if rows["worst"].ne("").any() else ""
    st.html(f'<div class="foot">{markup.text(f"{number} shown.{found}")}</div>')


def controls() -> DeltaGenerator:
    """Open the row of the filters; what stands last in it goes to the right."""
    return st.container(key="controls", horizontal=True, vertical_alignment="bottom", gap="small")


def offer_csv(fleet: Fleet, rows: pd.DataFrame, number: str, row: DeltaGenerator) -> None:
    """Offer these rows as CSV; it is written only when it is asked for."""
    note = ", ".join(filter(None, (f"{fleet.name}: {number}", as_of(fleet))))
    row.download_button(
        "CSV", lambda: replica_table.to_csv(rows, [note]), file_name="replicas.csv", mime="text/csv", on_click="ignore"
    )


def number_words(shown: int, total: int) -> str:
    """Write how many replicas the filters leave: `3 of 39 replicas`."""
    return f"{shown:,} of {formatting.count(total, 'replica')}" if shown < total else formatting.count(total, "replica")
