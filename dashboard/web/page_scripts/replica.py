"""Replica: everything known about one replica, with its sources."""

from functools import partial

import streamlit as st

from dashboard.fleet.pieces import Kind
from dashboard.views import pages
from dashboard.views.replica import ENGINES, HEAD, IDENTITY, PROBES, PROVIDER, SETTINGS, replica_report
from dashboard.views.timeline import with_timeline
from dashboard.web import draw, links, replica_page, share, state, timeline

fleet = state.fleet()
asked = st.query_params.get(pages.REPLICA)
data = replica_page.known_data(fleet, asked) if asked else None
if data is None:
    replica_page.draw_unknown(asked)
    state.end_page()

head = st.container()
first = replica_page.TABS[-1 if data.replica.document is None else 0]  # probes show why a replica was not read
tabs = st.tabs(replica_page.TABS, **links.bind(pages.TAB, replica_page.TABS, default=first))
with tabs[0]:
    choice = replica_page.choose_settings(data.comparison)
name = state.snapshot_name()
view = replica_report(fleet, data.replica.id, choice, data=data, now=state.age_reference(), name=name)
sections = {each.anchor: each for each in view.parts}
with head:
    replica_page.draw_head(view)
    draw.draw_blocks(sections[HEAD[0]].blocks, HEAD[0])
    draw.draw_sections([sections[each] for each in HEAD[1:] if each in sections], "head")
    past = timeline.draw_replica(fleet, data.replica)
for tab, anchor in zip(tabs, (SETTINGS, ENGINES, IDENTITY, PROBES), strict=True):
    with tab:
        clicked = draw.draw_blocks(sections[anchor].blocks, anchor)
        draw.draw_sections(sections[anchor].parts, f"{anchor}_parts")
        if clicked and clicked.kind is Kind.SETTING:
            replica_page.draw_setting(clicked.key, data.settings[clicked.key])
with tabs[-1]:
    replica_page.draw_raw_answer(fleet, data.replica)
if PROVIDER in sections:
    draw.draw_sections([sections[PROVIDER]], PROVIDER)
report = partial(replica_report, fleet, data.replica.id, data=data, name=name)
share.offer(lambda: with_timeline(report(), past), charts=bool(past))
