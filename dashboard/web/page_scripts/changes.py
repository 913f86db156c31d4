"""Changes: what changed between two fleets: snapshots, past times, or the live fleet."""

import streamlit as st

from dashboard.web import changes_page, changes_sides

head = st.container()
sides = changes_sides.settled()
wanted = changes_page.choose(sides)
changes_page.draw_changes(sides, wanted, head)
