"""Replicas: all of them in one table, to find one and to take the list away."""

import streamlit as st

from dashboard.views import pages
from dashboard.views.replicas import replicas_report
from dashboard.web import empty, links, replicas_view, share, state

fleet = state.fleet()
rows = replicas_view.rows(fleet.generation, fleet.polled_at, fleet)
replicas_view.draw_head(fleet)
controls = replicas_view.controls()
choice = replicas_view.choose(fleet, controls)
kept = replicas_view.kept(rows, choice)
if kept.empty:
    empty.filter_hides_all(
        f"They hide all {len(rows):,} replicas." if len(rows) > 1 else "They hide the only replica.",
        links.to(pages.REPLICAS),
    )
    st.stop()
number = replicas_view.number_words(len(kept), len(rows))
replicas_view.offer_csv(fleet, kept, number, controls)
chosen = replicas_view.draw_table(kept, state.age_reference())
replicas_view.draw_foot(kept, number)
if chosen:
    links.open_url(links.to(pages.REPLICA_PAGE, replica=chosen))
called = state.snapshot_name()
share.offer(lambda: replicas_report(fleet, pool=choice.pool, state=choice.state, search=choice.search, name=called))
