"""Capacity: KV cache per DP rank, per GPU and per pool."""

import streamlit as st

from dashboard.web import capacity_page, draw, empty, markup, share, state

fleet = state.fleet()
if not fleet.pools:
    empty.nothing_answered()
    state.end_page()

head = st.container()
choice = capacity_page.choose(capacity_page.pool_names(fleet))
if choice.misread:
    why = "is not a length in tokens, such as 32768 or 32k. Requests use each replica's own length."
    st.html(markup.notice("warning", f"{markup.code(choice.misread)} {why}"))
name = state.snapshot_name()
view = capacity_page.capacity_view(fleet, name, choice._replace(misread=""))
with head:
    draw.draw_head(view)
clicked = draw.draw_sections(view.parts, "capacity")
share.offer(lambda: view, charts=True)
if clicked:
    draw.open_link(clicked)
