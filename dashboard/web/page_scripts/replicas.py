"""Replicas: every replica in one table."""

import streamlit as st

from dashboard.fleet.formatting import count
from dashboard.render.csv_table import to_table_csv
from dashboard.views import pages
from dashboard.views.replicas import TABLE, chosen_rows, replicas_data, replicas_report
from dashboard.web import draw, empty, links, replicas_page, share, state

fleet = state.fleet()
head = st.container()
rows = replicas_page.rows(fleet)
controls = st.container(key="controls", horizontal=True, vertical_alignment="bottom", gap="small")
with controls:
    choice = replicas_page.choose(fleet)
with st.container(key="filters", horizontal=True, vertical_alignment="bottom", gap="small"):
    choice = replicas_page.choose_more(rows, choice)
name = state.snapshot_name()
view = replicas_report(fleet, choice, rows=rows, now=state.age_reference(), name=name)
shown = chosen_rows(rows, choice)
controls.download_button(
    "CSV",
    lambda: to_table_csv(replicas_data(shown), view.context),
    file_name=f"{links.make_file_name('replicas', *pages.choices_of(fleet).values())}.csv",
    mime="text/csv",
    on_click="ignore",
)
with head:
    draw.draw_head(view)
share.offer(lambda: replicas_report(fleet, choice, rows=rows, name=name))
if shown.empty:
    empty.filter_hides_all(f"{count(len(rows), 'replica')} hidden.", links.to(pages.REPLICAS))
    state.end_page()
(table,) = (each for each in view.parts if each.anchor == TABLE)
clicked = draw.draw_blocks(table.blocks, "replicas")
if clicked:
    draw.open_link(clicked)
