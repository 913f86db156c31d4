"""Runs a page as a browser would ask for it, with a fleet put into the service, and hands back what stands on it."""

import json
from datetime import datetime
from pathlib import Path

from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from tests import builders

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "dashboard" / "web" / "main.py"
PAGES = ROOT / "dashboard" / "web" / "page_scripts"


def open_page(fleet: Fleet, page: str = "overview", *, at: datetime | None = None, **url: str) -> AppTest:
    """Open a page by its file's name, with choices in the URL, and fail on any exception in it."""
    service.put(fleet, at=at or builders.NOW)
    app = AppTest.from_file(SCRIPT, default_timeout=20)
    if page != "overview":
        app.switch_page(str(PAGES / f"{page}.py"))
    for name, value in url.items():
        app.query_params[name] = value
    return rerun(app)


def rerun(app: AppTest) -> AppTest:
    """Run the page again and fail on any exception in it."""
    app.run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def html(app: AppTest) -> str:
    """Return all HTML that the page shows, tables of settings included, one piece a line; not the style sheet."""
    pieces = [piece.proto.body for piece in app.get("html") if "<style>" not in piece.proto.body]
    return "\n".join([*pieces, *tables(app)])


def opened(app: AppTest) -> list[str]:
    """Return the addresses that the page sends the browser to."""
    data = [json.loads(piece.proto.json) for piece in app.get("bidi_component") if piece.proto.json]
    return [each["address"] for each in data if "address" in each]


def tables(app: AppTest) -> list[str]:
    """Return the HTML of the tables of settings: the band on prefix sharing, then the matrix."""
    data = [json.loads(piece.proto.json) for piece in app.get("bidi_component") if piece.proto.json]
    return [each["html"] for each in data if "html" in each]
