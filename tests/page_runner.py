"""Run pages as a browser would request them: put a fleet or a folder of snapshots into the service, return the page."""

import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from html import escape, unescape
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from dashboard import service
from dashboard.access.visitor import Means, Visitor
from dashboard.analysis.assembly import Fleet
from dashboard.config.access import AccessRole
from dashboard.store.snapshots import Snapshots
from dashboard.web import search, sessions
from tests import builders

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "dashboard" / "web" / "pages" / "main.py"
EVERY_PAGE = (
    "overview",
    "findings",
    "compare",
    "capacity",
    "replicas",
    "settings",
    "status",
    "help",
    "replica",
    "review",
    "snapshots",
    "changes",
    "timeline",
)
CELL = r"<t[hd][ >].*?</t[hd]>"
WEEK = timedelta(days=7)
# A page without a server has no gate: everybody is admin, as on loopback.
sessions.outside = Visitor("anonymous", Means.NOBODY, fixed=AccessRole.ADMIN, client="unknown")


def open_page(fleet: Fleet, page: str = "overview", /, *, at: datetime | None = None, **url: str) -> AppTest:
    """Open a page of a fleet by its file's name, with choices in the URL. Fails on any exception in the page."""
    service.put(fleet, at=at or builders.NOW)
    return visit(page, **url)


def visit(page: str = "overview", /, **url: str) -> AppTest:
    """Open a page of the fleet that the service has, with choices in the URL. Fails on any exception in the page."""
    app = AppTest.from_file(SCRIPT, default_timeout=30)
    switch(app, page)
    for name, value in url.items():
        app.query_params[name] = value
    return rerun(app)


def switch(app: AppTest, page: str) -> None:
    """Show another page by the next run. AppTest knows pages that are files only."""
    app._page_hash = calc_hash("" if page == "overview" else page)


def rerun(app: AppTest) -> AppTest:
    """Run the page again. Fails on any exception in it."""
    app.run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def show_with_snapshots(fleet: Fleet, snapshots: Path | Snapshots, at: datetime = builders.NOW) -> None:
    """Make `fleet` the live one, with the snapshots of a folder, or others."""
    service.put(fleet, at, snapshots)


def review(fleet: Fleet, store: Snapshots, **url: str) -> AppTest:
    """Open the review of a fleet, with a folder of snapshots."""
    show_with_snapshots(fleet, store)
    return visit("review", **url)


def address(app: AppTest, name: str) -> str | None:
    """Return the value of a URL parameter."""
    value = app.query_params.get(name)
    return value[0] if isinstance(value, list) and value else value if isinstance(value, str) else None


def html(app: AppTest) -> str:
    """Return all HTML of the page, setting tables included, one piece a line, without the style sheet."""
    pieces = [piece.proto.body for piece in app.get("html") if "<style>" not in piece.proto.body]
    return "\n".join([*pieces, *tables(app)])


def copied(app: AppTest) -> list[str]:
    """Return the texts that the page offers to copy."""
    return [
        unescape(each) for each in re.findall(r'<div class="paste"><pre[^>]*><code>(.*?)</code>', html(app), re.DOTALL)
    ]


def tables(app: AppTest) -> list[str]:
    """Return the HTML of the setting tables: the matrix, then what decides prefix sharing."""
    return [each["html"] for each in _component_values(app) if "html" in each]


def table_of(app: AppTest, caption: str) -> dict[str, list[str]]:
    """Return the texts of a table by the heads of its columns, without signs and words for screen readers."""
    whole = re.search(rf"<caption[^>]*>{re.escape(escape(caption))}</caption>.*?</table>", html(app), re.DOTALL)
    assert whole is not None, f"no table {caption}"
    text = re.sub(r'<span class="(?:glyph|said|letter)[^>]*>[^<]*</span>|<input[^>]*>|<wbr>', "", whole.group())
    rows = [
        [" ".join(unescape(re.sub("<[^>]+>", " ", cell)).split()) for cell in re.findall(CELL, row, re.DOTALL)]
        for row in re.findall(r"<tr.*?</tr>", text, re.DOTALL)
    ]
    return {head: [row[place] for row in rows[1:]] for place, head in enumerate(rows[0])}


def opened(app: AppTest) -> list[str]:
    """Return the addresses to which the page sends the browser."""
    return [each["address"] for each in _component_values(app) if "address" in each]


def found(app: AppTest, question: dict[str, object]) -> dict[str, Any]:
    """Return the answer of the search to a question of the browser."""
    app.session_state[search.ASKED] = question
    return next(each["found"] for each in _component_values(rerun(app)) if "found" in each)


def _component_values(app: AppTest) -> list[dict[str, Any]]:
    return [json.loads(piece.proto.json) for piece in app.get("bidi_component") if piece.proto.json]


def drop(app: AppTest, *files: tuple[str, bytes]) -> AppTest:
    """Upload files and press Import."""
    app.file_uploader[0].set_value([(name, content, "application/octet-stream") for name, content in files])
    rerun(app)
    app.button(key="import").click()
    return rerun(app)


def freeze(fleet: Fleet, name: str = "Ops review") -> str:
    """Freeze a fleet into the folder of the service. Returns the id."""
    return service.snapshots().save(fleet, name, builders.NOW).id


def frozen(store: Snapshots, fleet: Fleet, name: str = "Review") -> str:
    """Freeze a fleet into a folder. Returns the id."""
    return store.save(fleet, name, builders.NOW).id


def earlier(fleet: Fleet, ago: timedelta = WEEK) -> Fleet:
    """Return the same fleet with the data time of an earlier day."""
    assert fleet.polled_at
    return replace(fleet, polled_at=fleet.polled_at - ago)


def a_finding(fleet: Fleet, rule: str = "RT-01") -> str:
    """Return the id of the finding of a rule."""
    return next(each.id for each in fleet.inspection.findings if each.rule == rule)


def field(snapshot: str, topic: str, part: str = "text") -> str:
    """Return the key of a note's field: its text or its owner."""
    return f"note {snapshot} {topic} {part}"
