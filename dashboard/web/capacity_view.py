"""Draws the Capacity page: the sentence, the bars of the chosen pool, what is said around them, the tables."""

from collections import Counter
from datetime import datetime
from typing import NamedTuple

import plotly.graph_objects as go
import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.report.capacity.pools import PoolCapacity, pools_of
from dashboard.report.capacity.ranks import Measure, Rank, outliers_of, ranks_of
from dashboard.web import charts
from dashboard.web.capacity_controls import Choice
from dashboard.web.capacity_parts import Drawing, Parts, parts_of
from dashboard.web.state import shared

BESIDE = (3.4, 1)  # widths of the bars and of what stands beside them


class Capacity(NamedTuple):
    """All ranks of a fleet, their sums by pool, and the pools: those with the most ranks that run short first."""

    ranks: tuple[Rank, ...]
    pools: tuple[PoolCapacity, ...]
    names: tuple[str, ...]


@shared(max_entries=8)
def capacity(generation: int, since: datetime | None, length: int | None, _fleet: Fleet) -> Capacity:  # noqa: ARG001  # the cache's key
    """Compute the numbers of one fleet at one length; every session that shows them shares the result."""
    ranks = ranks_of(_fleet, length)
    short = Counter(
        ranks[place].replica.pool for place, outlier in outliers_of(ranks, Measure.TOKENS).items() if outlier.share < 0
    )
    names = sorted((pool.name for pool in _fleet.pools), key=lambda name: -short[name])
    return Capacity(ranks, pools_of(ranks), tuple(names))


@shared(max_entries=32)
def parts(
    generation: int,
    since: datetime | None,
    choice: Choice,
    theme: str | None,
    _fleet: Fleet,
) -> Parts:
    """Write the page of one fleet and one choice; likewise shared."""
    found = capacity(generation, since, choice.length, _fleet)
    return parts_of(_fleet, found.ranks, found.pools, choice, charts.palette(theme))


def draw(found: Parts) -> str | None:
    """Draw what stands below the controls and return the id of the replica that was clicked."""
    clicked = _draw_bars(found.drawing)
    st.html(found.pools)
    return clicked or _draw_table(found)


def _draw_bars(drawing: Drawing) -> str | None:
    clicked = None
    left, right = st.columns(BESIDE, gap="medium") if drawing.side else (st.container(), None)
    with left:
        if drawing.figure is not None:
            clicked = _draw_figure(drawing.figure, drawing.alt)
        st.html(drawing.below)
    if right is not None:
        right.html(drawing.side)
    if drawing.apart:
        st.html(drawing.apart)
    return clicked


def _draw_figure(figure: go.Figure, alt: str) -> str | None:
    event = st.plotly_chart(
        figure,
        key="bars",
        theme=None,
        on_select="rerun",
        selection_mode="points",
        config={"displayModeBar": False},
        alt=alt,
    )
    points = event["selection"]["points"]
    target = points[0].get("customdata", [""])[0] if points else ""
    return str(target) or None


def _draw_table(found: Parts) -> str | None:
    """Offer the same as a table, for those who cannot use a chart, and return the replica whose row was chosen."""
    if not found.replicas:
        return None
    number = len(found.replicas)
    which = f"All {number:,} ranks" if number > 1 else "The one rank"
    with st.expander(f"{which} of this pool as a table"):
        event = st.dataframe(
            found.table,
            key="ranks",
            hide_index=True,
            on_select="rerun",
            selection_mode="single-row",
            placeholder="–",
            column_config={
                "KV tokens": st.column_config.NumberColumn(format="localized"),
                "Blocks × size": st.column_config.NumberColumn(format="localized"),
                "Requests": st.column_config.NumberColumn(format="%.1f"),
                "KV GiB": st.column_config.NumberColumn(format="%.1f"),
            },
        )
    rows = [row for row in event["selection"]["rows"] if row < len(found.replicas)]
    return found.replicas[rows[0]] if rows else None
