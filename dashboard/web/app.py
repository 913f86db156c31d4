"""The ASGI app: `streamlit run app.py` links to this file. Server and theme options: .streamlit/config.toml."""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

from dashboard.web import edge, server
from dashboard.web.sessions import Uploads, forget_expired

SCRIPT = Path(__file__).resolve().with_name("main.py")
PAGE = Path(st.__file__).with_name("static") / "index.html"

options = server.options_or_exit()
# A callable: the first st.get_option() reads all options, and only the app determines where config.toml is.
guard = edge.middleware(options, lambda: str(st.get_option("server.address")), PAGE)
life = server.lifespan(options, forget_expired)
app = st.App(SCRIPT, lifespan=life, routes=server.routes(), middleware=[guard, Middleware(Uploads)])
