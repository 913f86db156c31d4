"""Replicas: all of them in one table, to find one and to take the list away."""

from __future__ import annotations

import streamlit as st

from dashboard import service
from dashboard.ui import empty, links, markup, replica_opening, replicas_view, state

fleet, now = state.fleet(), service.now()
rows = replicas_view.rows(fleet.generation, fleet.polled_at, fleet)
replicas_view.draw_head(fleet)
controls = replicas_view.controls()
kept = replicas_view.kept(rows, replicas_view.choose(fleet, controls))
if kept.empty:
    empty.filter_hides_all(f"all {len(rows):,} replicas", links.to(links.REPLICAS))
    st.stop()
number = replicas_view.number_words(len(kept), len(rows))
replicas_view.offer_csv(fleet, kept, number, controls)
chosen = replicas_view.draw_table(kept, now)
st.html(f'<div class="foot">{markup.text(number)} shown.</div>')
if chosen:
    replica_opening.open_replica(chosen)
