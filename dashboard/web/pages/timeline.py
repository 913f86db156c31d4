"""Timeline: the cohorts of every pool over time."""

import streamlit as st

from dashboard.views import pages
from dashboard.views.timeline import timeline_report
from dashboard.web import draw, empty, links, share, state, timeline
from dashboard.web.pages.overview import pool_order


def draw_page() -> None:
    fleet = state.fleet()
    pools = pool_order(fleet)
    pool = links.read_choice(pages.POOL, ["", *pools]) or None
    head = st.container()
    blocks = timeline.draw_fleet(fleet, pools, pool)
    view = timeline_report(fleet, blocks, pool)
    with head:
        draw.draw_head(view)
    if not blocks:
        empty.no_history()
    share.offer(lambda: view, charts=bool(blocks))
