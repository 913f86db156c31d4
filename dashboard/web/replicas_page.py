"""The page Replicas: its filters, whose choices are in the URL, and its rows, shared by all sessions."""

from datetime import datetime

import pandas as pd
import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import ReplicaState
from dashboard.fleet.formatting import one_line
from dashboard.views import pages
from dashboard.views.replicas import INCOMPLETE, Choice, replica_rows
from dashboard.web import links
from dashboard.web.state import shared

ALL_POOLS, ALL_STATES = "all pools", "all"  # options of the controls


@shared(max_entries=4)
def rows(generation: int, polled_at: datetime | None, _fleet: Fleet) -> pd.DataFrame:  # noqa: ARG001  # the cache's key
    """Return the rows of one fleet."""
    return replica_rows(_fleet)


def choose(fleet: Fleet) -> Choice:
    """Draw the filters and return their choice."""
    search = st.text_input(
        "Search", **links.bind(pages.SEARCH), placeholder="any column or label", width=260, live=True
    )
    pools = [ALL_POOLS, *(pool.name for pool in fleet.pools)]
    pool = st.selectbox("Pool", pools, **links.bind(pages.POOL, pools), format_func=one_line, width=250)
    state = links.draw_segments("State", pages.STATE, [ALL_STATES, *(each.value for each in ReplicaState), INCOMPLETE])
    return Choice(
        pool=None if pool in {None, ALL_POOLS} else pool,
        state=None if state == ALL_STATES else state,
        search=search or "",
    )
