"""The dashboard: `streamlit run app.py`, a link to this file. How it serves and looks: .streamlit/config.toml."""

from pathlib import Path

import streamlit as st

from dashboard import edge, server

SCRIPT = Path(__file__).resolve().with_name("main.py")
PAGE = Path(st.__file__).with_name("static") / "index.html"

options = server.options_or_exit()
guard = edge.middleware(options, str(st.get_option("server.address")), PAGE.read_text())
app = st.App(SCRIPT, lifespan=server.lifespan(options), routes=server.routes(), middleware=[guard])
