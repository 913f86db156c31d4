"""Search: pages, pools, replicas, versions, settings, rules and findings by words."""

import streamlit as st

from dashboard.views import pages
from dashboard.views.search import search_report
from dashboard.web import draw, links, share, state
from dashboard.web.pages.findings import known_findings


def draw_page() -> None:
    fleet = state.fleet()
    with st.container(key="search_box"):
        text = st.text_input("Search", **links.bind(pages.SEARCH), placeholder="chat-7, block_size, RT-01", live=True)
    known = known_findings(fleet)
    view = search_report(fleet, text or "", known=known, name=state.snapshot_name())
    draw.draw_head(view)
    draw.draw_sections(view.parts, "search")
    share.offer(lambda: view)
