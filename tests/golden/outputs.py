"""All outputs of the program for a fleet, by file name."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mcp import Client

from dashboard import service
from dashboard.access import audit
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.events import EventPeriod
from dashboard.analysis.plan import plan_of
from dashboard.analysis.timeline import Period, Timeline
from dashboard.config import NotifyOptions
from dashboard.config.baseline_file import baseline_yaml, find_settings
from dashboard.documents.changes import changes_json, events_json
from dashboard.documents.findings import findings_json
from dashboard.documents.fleet import fleet_json
from dashboard.documents.plan import plan_json
from dashboard.fleet.times import write_time
from dashboard.mcp.server import build_server
from dashboard.mcp.tools import Fleets
from dashboard.notify.alerts import AlertEvent, alerts_of
from dashboard.notify.sending import alertmanager_body, slack_body, webhook_body
from dashboard.render.export import Format, written
from dashboard.render.github_annotations import to_github_annotations
from dashboard.render.junit import to_junit
from dashboard.render.markdown import to_markdown
from dashboard.render.sarif import to_sarif
from dashboard.render.svg_timeline import draw_times
from dashboard.render.terminal import to_terminal
from dashboard.render.verdict import verdict_of
from dashboard.rules.findings import Severity
from dashboard.store.snapshots import Snapshots
from dashboard.views.changes import changes_report
from dashboard.views.changes_text import sentences
from dashboard.views.command_line import check_view, poll_view
from dashboard.views.context import context_line, context_of
from dashboard.views.pages import TIMELINE
from dashboard.views.plan import plan_view
from dashboard.views.time_chart import TimeChart
from dashboard.views.timeline import here_at, pool_blocks
from dashboard.web.metrics import FleetMetrics
from dashboard.web.share import OFFERED
from tests.captured import capture
from tests.e2e.frozen_store import fleet_before
from tests.frozen import frozen_fleet
from tests.mcp.agent import Agent
from tests.page_runner import visit
from tests.saved_fleets import built_of_captures
from tests.store.history.recorded import Recorded
from tests.store.history.week import CHAT, record_week

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

FOLDER = Path(__file__).parent / "files"
FLEETS = ("demo", "captures")
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
CAPTURES = (("gemma3_b32", "0.12.0"), ("llama_dp2", "0.32.0"), ("qwen3_xxhash", "0.33.0"))
COLUMNS = 120
WEEK = timedelta(days=7)
RESTARTED = timedelta(hours=30)  # before the end of the week: after a rollout, before restarts
USED = 1_000  # generation of the fleet with traffic: pages are cached by it
TABULAR = {"review", "compare", "replicas", "settings", "status", "capacity"}
IGNORED = "Ignored invalid URL"  # the notice of a page that does not know a choice
OF_THE_RUN = {"generated_at", "program_version"}


def outputs(name: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each output for the fleet of this name."""
    if name == "captures":
        fleet = built_of_captures(*(capture(*each) for each in CAPTURES))
        yield from _documents(fleet)
    else:
        fleet = frozen_fleet()
        yield from _documents(fleet)
        yield from _changes(fleet_before(), fleet)
        yield from _with_history(fleet)
        yield from _notifications(fleet)
        yield "chat-70b.baseline.yaml", _baseline(fleet, "chat-70b", "A")
        yield from _used()
        service.put(fleet, AT)
        audit.refusals.counts.clear()  # of tests before
        yield "metrics.txt", FleetMetrics().text().decode()
    service.put(fleet, fleet.polled_at)
    for page, choices in _addresses(fleet):
        yield from _page(page, choices)


def _documents(fleet: Fleet) -> Iterator[tuple[str, str]]:
    verdict = verdict_of(fleet, Severity.CRITICAL, 100)
    yield "poll.json", _json(fleet_json(fleet, AT))
    yield "poll.txt", to_terminal(poll_view(fleet), width=COLUMNS, colour=False)
    yield "check.json", _json(findings_json(fleet, AT))
    yield "check.txt", f"{to_terminal(check_view(fleet), width=COLUMNS, colour=False)}\n{verdict.sentence}\n"
    yield "check.md", to_markdown(check_view(fleet))
    yield "plan.json", _json(plan_json(fleet, AT))
    yield "plan.md", to_markdown(plan_view(fleet, plan_of(fleet)))
    yield "plan.txt", to_terminal(plan_view(fleet, plan_of(fleet), is_short=True), width=COLUMNS, colour=False)
    yield "check.xml", to_junit(fleet, Severity.CRITICAL, verdict)
    yield "check.sarif", _json(to_sarif(fleet, verdict, "fleet.yaml"))
    yield "check.github.txt", to_github_annotations(fleet, verdict)


def _used() -> Iterator[tuple[str, str]]:
    """Yield what shows the traffic of replicas that served requests."""
    fleet = replace(frozen_fleet(is_used=True), generation=USED)
    for name, text in _documents(fleet):
        if name in {"poll.txt", "check.txt", "check.github.txt", "plan.txt", "plan.json"}:
            yield f"used-{name}", text
    service.put(fleet, AT)
    yield "agent.txt", asyncio.run(_agent())
    for page in ("overview", "findings", "compare", "capacity", "replicas", "review"):
        yield from ((name, text) for name, text in _page(page, {}, "used-") if name.endswith(".page.txt"))


async def _agent() -> str:
    """Return what an agent asks and answers."""
    async with Client(build_server(Fleets(service.current, service.happened, service.now))) as client:
        return await Agent(client).transcript()


def _changes(before: Fleet, after: Fleet) -> Iterator[tuple[str, str]]:
    changes = changes_between(before, after)
    report = changes_report(changes, context_of(before), context_of(after))
    yield "diff.json", _json(changes_json(changes, **sentences(changes)))
    yield "diff.txt", to_terminal(report, width=COLUMNS, colour=False)
    yield "diff.md", to_markdown(report)


def _with_history(fleet: Fleet) -> Iterator[tuple[str, str]]:
    """Yield what a history of a week and a snapshot add."""
    end = fleet.polled_at
    assert end is not None
    with TemporaryDirectory() as folder:
        history = Recorded(Path(folder))
        now = replace(record_week(history, fleet), generation=fleet.generation + 1)  # pages are cached by it
        history.writer.close()
        reader = history.reader
        yield "timeline.svg", _timeline(now, reader.timeline(Period(end - WEEK, end)))
        yield "events.json", _json(events_json(EventPeriod(reader.events(end - WEEK, end), end - WEEK, end), now.name))
        store = Snapshots(Path(folder) / "kept")
        frozen = store.save(fleet_before(), "Review of 6 November", end - 2 * WEEK).id
        service.put(now, end, store, history=reader)
        before = write_time(end - RESTARTED)
        for page, choices in (
            ("timeline", {"range": "7d"}),
            ("overview", {"at": before}),
            ("compare", {"pool": CHAT, "range": "7d"}),
            ("replica", {"replica": now.replicas[0].id, "at": before}),
            ("findings", {"snapshot": frozen}),
            ("snapshots", {}),
            ("review", {"from": frozen}),
            ("review", {"from": frozen, "new": "7d"}),
            ("changes", {"from": frozen, "to": "live"}),
            ("changes", {"from": before, "to": "live"}),
        ):
            for name, text in _page(page, choices, "history-"):
                yield name.replace(frozen, "SNAPSHOT"), text.replace(frozen, "SNAPSHOT")


def _timeline(fleet: Fleet, timeline: Timeline) -> str:
    blocks = pool_blocks(fleet, timeline, [each.name for each in fleet.pools], here_at(TIMELINE, "7d"))
    (chart,) = (each for each in blocks if isinstance(each, TimeChart))
    return draw_times(chart, context="golden").replace("><", ">\n<") + "\n"


def _notifications(fleet: Fleet) -> Iterator[tuple[str, str]]:
    notify = NotifyOptions(external_url="https://fleet.example.com", docs_url="https://docs.example.com")
    assert fleet.polled_at is not None
    alerts = list(alerts_of(fleet, fleet.polled_at).values())
    ended = alerts[-1].with_changes(until=AT, event=AlertEvent.RESOLVED)
    for name, body in (
        ("alertmanager", alertmanager_body([*alerts, ended], AT, notify)),
        ("webhook", webhook_body([*alerts, ended], notify)),
        ("slack", slack_body([*alerts, ended], notify)),
    ):
        yield f"notify.{name}.json", json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def _baseline(fleet: Fleet, name: str, letter: str) -> str:
    (pool,) = (each for each in fleet.pools if each.name == name)
    found = find_settings(fleet, pool, letter)
    assert found is not None
    settings, source = found
    return baseline_yaml(name, settings, source=source, context_line=context_line(context_of(fleet)))


def _addresses(fleet: Fleet) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield pages with the choices in their URLs: each page, each pool, one finding, one replica."""
    pool = fleet.pools[0].name
    yield from (
        (page, {})
        for page in (
            "overview",
            "findings",
            "capacity",
            "replicas",
            "settings",
            "status",
            "review",
            "snapshots",
            "help",
        )
    )
    yield "help", {"about": "compare"}
    yield "settings", {"path": "cache_config.block_size"}
    yield "findings", {"finding": fleet.inspection.findings[0].id}
    yield from (("compare", {"pool": each.name}) for each in fleet.pools)
    yield "compare", {"pool": pool, "show": "All settings", "section": "cache_config"}
    yield from (("capacity", {"pool": pool, "measure": each}) for each in ("GiB", "requests"))
    yield from (("capacity", {"per": each}) for each in ("GPU", "pool"))
    yield "replica", {"replica": fleet.replicas[0].id}
    yield "replica", {"replica": fleet.replicas[0].id, "show": "true"}
    if unread := next((each for each in fleet.replicas if each.document is None), None):
        yield "replica", {"replica": unread.id}


def _page(page: str, choices: dict[str, str], begin: str = "") -> Iterator[tuple[str, str]]:
    """Yield the elements of a page and its export; of some pages in every format."""
    app = visit(page, screenshot="1", **choices)
    values = (each.rpartition("/")[2].replace(":", "_").replace(" ", "_") for each in choices.values())
    name = begin + "-".join([page, *values])
    drawn = "\n".join(_drawn(app))
    assert IGNORED not in drawn, f"{name} asks for what no page knows"
    yield f"{name}.page.txt", drawn
    offered = app.session_state[OFFERED]
    if offered is None or (begin and page != "changes"):  # the page of snapshots; what pages without a history have
        return
    report = offered()
    yield f"{name}.json", _json(written(report, Format.JSON))
    if page not in TABULAR or choices.keys() - {"pool"}:
        return
    if page in {"review", "compare"}:
        yield f"{name}.md", written(report, Format.MARKDOWN).decode()
    if page == "review":  # has every kind of block
        yield f"{name}.html", written(report, Format.HTML).decode()
    for output in (Format.CSV, Format.SVG):
        with zipfile.ZipFile(io.BytesIO(written(report, output))) as archive:
            yield from ((f"{name}.{each}", archive.read(each).decode()) for each in archive.namelist())


def _drawn(app: AppTest) -> Iterator[str]:
    """Yield the elements of a page in order."""
    for element in app.main:
        yield f"[{element.type}] {_text(element)}"


def _text(element: Any) -> str:
    proto = getattr(element, "proto", None)
    return next((str(text) for field in ("body", "label", "json", "value") if (text := getattr(proto, field, ""))), "")


def _json(content: str | bytes) -> str:
    """Return JSON with one value per line, without values that change with every run."""
    document = json.loads(content)
    return (
        json.dumps({key: document[key] for key in document if key not in OF_THE_RUN}, indent=1, ensure_ascii=False)
        + "\n"
    )
