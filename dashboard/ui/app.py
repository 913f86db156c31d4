"""The dashboard: `streamlit run app.py`, a link to this file. How it serves and looks: .streamlit/config.toml."""

from pathlib import Path

import streamlit as st

from dashboard import server

SCRIPT = Path(__file__).resolve().with_name("main.py")

options = server.options_or_exit()
app = st.App(SCRIPT, lifespan=server.lifespan(options), routes=server.routes())
