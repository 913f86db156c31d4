"""The dashboard on the frozen simulated fleet with a recorded week."""

import os
import tempfile
from pathlib import Path

import streamlit as st

from dashboard import service
from dashboard.config import Options
from dashboard.web import edge, server
from tests.e2e.frozen_fleets import STORY, frozen
from tests.frozen import AT
from tests.store.history.recorded import Recorded
from tests.store.history.week import record_week

_OWN = tempfile.TemporaryDirectory(prefix="history-app-", dir=os.environ.get("FROZEN_APPS"))
_FOLDER = Path(_OWN.name)
_history = Recorded(_FOLDER)
record_week(_history, frozen(STORY))
_history.writer.close()
service.put(frozen(STORY), AT, _FOLDER / "snapshots", history=_history.reader)
_PAGE = Path(st.__file__).with_name("static") / "index.html"
app = st.App(
    "../../dashboard/web/pages/main.py",
    routes=server.routes(),
    middleware=[edge.middleware(Options(), lambda: "127.0.0.1", _PAGE)],
)
