"""Changes: what changed between two snapshots, or since one of them."""

import streamlit as st

from dashboard.web import changes_page, changes_sides

head = st.container()
sides = changes_sides.settled()
changes_page.choose(sides)
changes_page.draw_changes(sides, head)
