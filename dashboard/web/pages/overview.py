"""Overview: the fleet in six numbers, its pools, the top findings, and replicas with incomplete data."""

import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import ReplicaState
from dashboard.views import pages
from dashboard.views.blocks import Entries
from dashboard.views.overview import FIRST, NUMBERS, POOLS, UNREAD, overview_report, pools_table
from dashboard.views.pool_text import pools_by_urgency
from dashboard.views.table import sort_names
from dashboard.web import draw, empty, links, share, state
from dashboard.web.state import shared

BY_URGENCY = ""  # no sort in the URL


overview_view = shared(max_entries=8, has_times=True)(overview_report)


@shared(max_entries=4, has_times=True)
def pool_order(fleet: Fleet) -> tuple[str, ...]:
    return tuple(pool.name for pool in pools_by_urgency(fleet))


def draw_page() -> None:
    fleet = state.fleet()
    empty.draw_guide()
    sort = links.read_choice(
        pages.SORT, [BY_URGENCY, *sort_names(each.title for each in pools_table(fleet, ()).columns)]
    )
    view = overview_view(fleet, state.snapshot_name(), sort)
    sections = {each.anchor: each for each in view.parts}
    draw.draw_head(view)
    draw.draw_blocks(sections[NUMBERS].blocks, "numbers")
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
    share.offer(lambda: view)
