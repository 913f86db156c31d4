"""Overview: is the fleet fine, and if not, what is wrong first."""

from __future__ import annotations

import streamlit as st

from dashboard import service
from dashboard.ui import empty, markup, state
from dashboard.ui.overview import MOST_POOLS, overview
from dashboard.ui.unread import unread
from dashboard.wording import count

fleet = state.fleet()
shown = overview(fleet.generation, fleet.polled_at, fleet)
st.html(shown.head + shown.cards)
if fleet.pools:
    st.html(markup.section("Pools") + shown.pools)
if shown.more_pools:
    with st.expander(f"and {count(len(shown.order) - MOST_POOLS, 'more pool', 'more pools')}"):
        st.html(shown.more_pools)
left, right = st.columns([2.1, 1], gap="medium") if shown.first and shown.unread else (st.container(), st.container())
with left:
    if shown.first:
        st.html(markup.section("First things first") + markup.entries(shown.first))
    elif any(pool.cohorts for pool in fleet.pools):
        empty.all_equal("No finding.", shown.calm)
with right:
    if shown.unread:
        entries = markup.entries(unread(shown.unread, service.now()))
        st.html(markup.section("Could not be read") + entries)
