"""The dashboard on frozen fleets: same clock, same seed, same pixels.

It shows the simulated fleet; GET /frozen/NAME switches to another one, for all sessions.
"""

import os
import tempfile
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dashboard import service
from dashboard.config import Options
from dashboard.web import edge, server
from tests.e2e.frozen_fleets import NOTHING, STORY, frozen
from tests.e2e.frozen_store import snapshots
from tests.frozen import AT


def put(name: str) -> None:
    """Switch to the fleet of this name. The fleet without targets has no snapshots."""
    store, _ = snapshots()
    service.put(frozen(name), AT, None if name == NOTHING else store.folder)


async def show(request: Request) -> Response:
    """Switch to another fleet; return the ids of the snapshots by their placeholders."""
    put(request.path_params["name"])
    return JSONResponse(snapshots()[1])


# A separate working folder: simultaneous servers have separate snapshots in folders of the same name.
_OWN = tempfile.TemporaryDirectory(prefix="frozen-app-", dir=os.environ.get("FROZEN_APPS"))
os.chdir(_OWN.name)
put(STORY)
_PAGE = Path(st.__file__).with_name("static") / "index.html"
app = st.App(
    "../../dashboard/web/pages/main.py",
    routes=[*server.routes(), Route("/frozen/{name}", show)],
    middleware=[edge.middleware(Options(), lambda: "127.0.0.1", _PAGE)],
)
