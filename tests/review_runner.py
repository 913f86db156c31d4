"""Opens the review page with a folder of snapshots, and names what stands on it."""

from dataclasses import replace
from datetime import timedelta

from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.store import Snapshots
from tests.builders import NOW
from tests.page_runner import PAGES, SCRIPT, rerun

WEEK = timedelta(days=7)


def review(shown: Fleet, store: Snapshots, **url: str) -> AppTest:
    """Open the page on a fleet, with a folder of snapshots."""
    service.put(shown, NOW, store.folder)
    app = AppTest.from_file(SCRIPT, default_timeout=20)
    app.switch_page(str(PAGES / "review.py"))
    app.query_params.update(url)
    return rerun(app)


def earlier(told: Fleet, ago: timedelta = WEEK) -> Fleet:
    """The fleet as it is, its data of another day."""
    assert told.polled_at
    return replace(told, polled_at=told.polled_at - ago)


def frozen(store: Snapshots, told: Fleet, name: str = "Review") -> str:
    return store.freeze(told, name, NOW).id


def a_finding(shown: Fleet, rule: str = "RT-01") -> str:
    """The id of a finding of the story: one replica has another block size."""
    return next(each.id for each in shown.inspection.findings if each.rule == rule)


def field(snapshot: str, about: str, part: str = "text") -> str:
    """The key of a field of a note: its text or its owner."""
    return f"note {snapshot} {about} {part}"
