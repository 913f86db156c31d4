"""Capacity: how much KV cache each DP rank, each GPU and each pool really holds."""

import streamlit as st

from dashboard.views import pages
from dashboard.views.capacity import capacity_report
from dashboard.web import capacity_controls, capacity_view, empty, links, markup, share, state

fleet = state.fleet()
if not fleet.pools:
    empty.nothing_answered()
    st.stop()

head = st.container()
choice = capacity_controls.choose(capacity_view.capacity(fleet.generation, fleet.since, None, fleet).names)
if choice.misread:
    why = "is not a length in tokens, such as 32768 or 32k. Each replica's own maximum is used."
    st.html(markup.notice("warning", f"{markup.code(choice.misread)} {why}"))
parts = capacity_view.parts(fleet.generation, fleet.since, choice._replace(misread=""), st.context.theme.type, fleet)
head.html(parts.head)
clicked = capacity_view.draw(parts)
called = state.snapshot_name()
share.offer(lambda: capacity_report(fleet, choice.pool, choice.drawn, choice.length, name=called), charts=True)
if clicked:
    links.open_url(links.to(pages.REPLICA_PAGE, replica=clicked))
