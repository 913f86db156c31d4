"""Settings: any setting over the whole fleet, and its values on every replica."""

import streamlit as st

from dashboard.views import pages
from dashboard.views.settings import settings_report
from dashboard.views.timeline import with_timeline
from dashboard.web import draw, empty, links, markup, settings_page, share, state, timeline

fleet = state.fleet()
if not fleet.pools:
    empty.nothing_answered()
    state.end_page()

head = st.container()
with st.container(key="filters", horizontal=True, vertical_alignment="bottom", gap="small"):
    path = settings_page.choose_path(fleet)
    choice = settings_page.choose(fleet, has_path=bool(path))
rows = None if path else settings_page.rows(fleet, choice._replace(search=""))
view = settings_report(fleet, choice, path=path, rows=rows, name=state.snapshot_name(), has_replicas=True)
with head:
    if path:
        st.html(markup.link(links.to(pages.SETTINGS), "All settings"))
    draw.draw_head(view)
if clicked := draw.draw_sections(view.parts, f"settings_{path}"):
    draw.open_link(clicked)
past = timeline.draw_setting(fleet, path, choice.pool) if path else ()
share.offer(lambda: with_timeline(view, past), charts=bool(past))
