"""Changes: what is different between two snapshots, or since one of them."""

from __future__ import annotations

import streamlit as st

from dashboard.ui import changes_view

head = st.container()
before, after = changes_view.choose()
changes_view.draw(before, after, head)
