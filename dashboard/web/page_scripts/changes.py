"""Changes: what is different between two snapshots, or since one of them."""

import streamlit as st

from dashboard.web import changes_sides, changes_view

head = st.container()
sides = changes_sides.settled()
changes_view.choose(sides)
changes_view.draw(sides, head)
