"""Overview: is the fleet fine, and if not, what is wrong first."""

import streamlit as st

from dashboard.fleet.formatting import count
from dashboard.views.overview import overview_report
from dashboard.web import empty, markup, share, state
from dashboard.web.overview import MOST_POOLS, overview
from dashboard.web.unread import unread

fleet = state.fleet()
empty.draw_guide()
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
        st.html(f'<div class="first">{markup.section("First things first")}{markup.entries(shown.first)}</div>')
    elif any(pool.cohorts for pool in fleet.pools):
        empty.all_equal(shown.calm[0], " ".join(shown.calm[1:]))
    elif len(shown.unread) < len(fleet.replicas):
        empty.no_settings_reported("fleet") if fleet.pools else empty.no_pool_labels()
with right:
    if shown.unread:
        entries = markup.section("Could not be read") + markup.entries(unread(shown.unread, state.age_reference()))
        st.html(entries if shown.first else f'<div class="alone">{entries}</div>')
called = state.snapshot_name()
share.offer(lambda: overview_report(fleet, called))
