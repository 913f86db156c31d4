"""Overview: the fleet in six numbers, its pools, the top findings, and replicas with incomplete data."""

import streamlit as st

from dashboard.fleet import ReplicaState
from dashboard.views import pages
from dashboard.views.blocks import Entries
from dashboard.views.overview import FIRST, NUMBERS, POOL_COLUMNS, POOLS, UNREAD
from dashboard.views.sorting import sort_names
from dashboard.views.timeline import with_timeline
from dashboard.web import draw, empty, links, overview, share, state, timeline

BY_URGENCY = ""  # no sort in the URL

fleet = state.fleet()
empty.draw_guide()
sort = links.read_choice(pages.SORT, [BY_URGENCY, *sort_names(each.title for each in POOL_COLUMNS)])
view = overview.overview_view(fleet, state.snapshot_name(), sort, has_ages=state.age_reference() is not None)
sections = {each.anchor: each for each in view.parts}
draw.draw_head(view)
draw.draw_blocks(sections[NUMBERS].blocks, "numbers")
past = timeline.draw_pools(fleet, overview.pool_order(fleet))
if POOLS in sections:
    with st.container(key="pools"):
        draw.draw_sections([sections[POOLS]], "overview")

has_findings = any(isinstance(block, Entries) for block in sections[FIRST].blocks)
is_split = has_findings and UNREAD in sections
left, right = st.columns([2.1, 1], gap="medium") if is_split else (st.container(), st.container())
with left:
    if has_findings or any(pool.cohorts for pool in fleet.pools):
        with st.container(key="first"):
            draw.draw_sections([sections[FIRST]], "overview")
    elif any(replica.state is ReplicaState.UP for replica in fleet.replicas):
        empty.no_settings_reported("fleet") if fleet.pools else empty.no_pool_labels()
if UNREAD in sections:
    with right, st.container(key="unread"):
        draw.draw_sections([sections[UNREAD]], "overview")
exported = overview.overview_view(fleet, state.snapshot_name(), sort)
share.offer(lambda: with_timeline(exported, past), charts=bool(past))
