"""Opens pages with a folder of snapshots beside the live fleet, as a browser would."""

from datetime import datetime
from pathlib import Path

from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from tests import builders
from tests.page_runner import PAGES, SCRIPT, rerun

EVERY_PAGE = (
    "overview",
    "findings",
    "compare",
    "capacity",
    "replicas",
    "replica",
    "review",
    "snapshots",
    "changes",
)


def shown_beside(fleet: Fleet, folder: Path, at: datetime = builders.NOW) -> None:
    """Let `fleet` be the live one, and `folder` hold the snapshots."""
    service.put(fleet, at, folder)


def visit(page: str = "overview", **url: str) -> AppTest:
    """Open a page of what is shown; its address names `url`. Fail on any exception in it."""
    app = AppTest.from_file(SCRIPT, default_timeout=30)
    if page != "overview":
        app.switch_page(str(PAGES / f"{page}.py"))
    for name, value in url.items():
        app.query_params[name] = value
    return rerun(app)


def address(app: AppTest, name: str) -> str | None:
    """Return what stands in the address under a name."""
    told = app.query_params.get(name)
    return str(told[0]) if isinstance(told, list) and told else told if isinstance(told, str) else None


def freeze(fleet: Fleet, name: str = "Ops review") -> str:
    """Freeze a fleet into the folder that is shown; return the id."""
    return service.snapshots().freeze(fleet, name, builders.NOW).id


def drop(app: AppTest, *files: tuple[str, bytes]) -> AppTest:
    """Drop files and press Import."""
    app.file_uploader[0].set_value([(name, content, "application/octet-stream") for name, content in files])
    rerun(app)
    app.button(key="import").click()
    return rerun(app)
