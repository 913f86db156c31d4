"""The dashboard: `streamlit run app.py`."""

import streamlit as st

from dashboard import server

options = server.options_or_exit()
app = st.App("dashboard/ui/main.py", lifespan=server.lifespan(options), routes=server.routes())
