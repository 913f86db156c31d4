"""Roles on pages: what a visitor may not do is disabled, refused when it is tried all the same, and never done."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.access import audit
from dashboard.access.visitor import Means, Visitor
from dashboard.analysis.assembly import Fleet
from dashboard.config import Options
from dashboard.config.access import AccessOptions, AccessRole
from dashboard.config.rules import load_suppressions
from dashboard.fleet import Note
from dashboard.store.audit import AuditEntry
from dashboard.store.history.audit import AuditTable
from dashboard.store.history.database import Database
from dashboard.store.history.reader import HistoryReader
from dashboard.store.snapshots import Snapshots
from dashboard.views.finding_list import list_findings
from dashboard.web import sessions
from tests import builders
from tests.builders import HOSTILE, NOW
from tests.page_runner import a_finding, drop, field, freeze, html, rerun, show_with_snapshots, table_of, visit
from tests.store.history.recorded import Recorded

CLIENT = "10.0.0.7"


def signed_in(monkeypatch: pytest.MonkeyPatch, name: str, role: AccessRole | None) -> None:
    """Let the pages that follow be those of a visitor."""
    monkeypatch.setattr(sessions, "outside", Visitor(name, Means.PROXY, fixed=role, client=CLIENT))


@pytest.fixture(autouse=True)
def all_written() -> Iterator[None]:
    """Wait for refusals that a thread writes: the next test has another history."""
    yield
    audit._THREAD.submit(int).result()


@pytest.fixture
def viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    signed_in(monkeypatch, "vic", AccessRole.VIEWER)


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch) -> None:
    signed_in(monkeypatch, "ann", AccessRole.EDITOR)


def button(app: AppTest, key: str) -> Any:
    return app.button(key=key)


def enabled(widget: Any) -> Any:
    """Return a widget that can be used although it is disabled: a browser cannot be trusted."""
    widget.proto.disabled = False
    return widget


def press(app: AppTest, key: str) -> AppTest:
    enabled(button(app, key)).click()
    return rerun(app)


def lines(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    return [(each["audit"], each["result"]) for each in found]


@pytest.mark.usefixtures("live", "viewer")
def test_a_viewer_cannot_save_a_snapshot() -> None:
    for page, key in (("overview", "save_snapshot"), ("review", "save_for_review")):
        app = visit(page)
        assert button(app, key).disabled
        assert button(app, key).help == "Needs role editor; yours is viewer."
        press(app, key)

    assert service.snapshots().all() == ()
    assert "Saving one needs role editor; yours is viewer. Once one is saved, " in html(visit("snapshots"))
    assert "Saving one needs role editor; yours is viewer." in html(visit("review"))


@pytest.mark.usefixtures("live", "editor")
def test_an_empty_page_offers_an_editor_to_save_and_not_to_import() -> None:
    assert "select Save snapshot under Share.</p>" in html(visit("snapshots"))


@pytest.mark.usefixtures("viewer")
def test_a_viewer_reads_and_exports_a_snapshot_and_changes_nothing_of_it(live: Fleet) -> None:
    key = freeze(live, "Monday")
    app = visit("snapshots", manage=key)
    (download,) = [each.proto for each in app.get("download_button") if each.proto.label == "Export"]

    assert not download.disabled
    assert app.text_input(key=f"name_{key}").disabled
    assert button(app, "rename").help == "Needs role admin; yours is viewer."
    assert button(app, "delete").disabled
    for control in ("Rename", "Delete"):
        assert f">{control} needs role admin; yours is viewer.</p>" in html(app)
    enabled(app.text_input(key=f"name_{key}")).set_value("Tuesday")
    press(app, "rename")
    app = press(visit("snapshots", manage=key), "delete")
    assert "permanently" not in html(app)
    assert [each.metadata.name for each in service.snapshots().all()] == ["Monday"]


@pytest.mark.parametrize("role", [AccessRole.VIEWER, AccessRole.EDITOR, None])
@pytest.mark.usefixtures("live")
def test_only_an_admin_imports(role: AccessRole | None, monkeypatch: pytest.MonkeyPatch) -> None:
    signed_in(monkeypatch, "eve", role)
    app = visit("snapshots")
    assert app.file_uploader[0].disabled
    assert f"Needs role admin; yours is {role.word if role else 'none'}." in html(app)
    enabled(app.file_uploader[0]).set_value([("chat-1.json", b"{}", "application/json")])
    assert [each.key for each in rerun(app).button if each.key == "import"] == []
    assert service.snapshots().all() == ()


@pytest.mark.usefixtures("viewer")
def test_a_viewer_reads_the_notes_of_a_review(live: Fleet) -> None:
    key = freeze(live)
    service.snapshots().note(key, a_finding(live), Note("drain it", "bob", NOW, "ann"))
    app = visit("review", snapshot=key)

    assert app.text_area.values == []
    assert "drain it" in html(app)
    assert ", ann)" in html(app)
    assert "Editing notes needs role editor; yours is viewer." in html(app)


@pytest.mark.usefixtures("editor")
def test_what_a_visitor_saves_has_the_name_of_the_session(live: Fleet) -> None:
    press(visit(), "save_snapshot")
    (stored,) = service.snapshots().all()
    app = visit("review", snapshot=stored.id)
    app.text_area(key=field(stored.id, a_finding(live))).input("drain it")
    app = rerun(app)

    assert stored.metadata.author == "ann"
    (note,) = service.snapshots().get(stored.id).metadata.notes.values()
    assert (note.text, note.author) == ("drain it", "ann")
    assert "saved 11:42</span> by ann" in html(app)
    assert " by ann</p>" in html(visit("snapshots", manage=stored.id))
    assert " by ann</" in html(visit("snapshots"))


def test_an_import_has_the_name_of_who_imported_it(
    live: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.snapshots().save(live, "Monday", NOW, author="mallory")
    file = service.snapshots().export(service.snapshots().all()[0].id)
    show_with_snapshots(builders.fleet(polled_at=NOW), tmp_path / "there")
    signed_in(monkeypatch, "ada", AccessRole.ADMIN)
    drop(visit("snapshots"), ("fleet.json.gz", file))

    assert [each.metadata.author for each in service.snapshots().all()] == ["ada"]


@pytest.mark.parametrize(("author", "is_allowed"), [("ann", True), ("bob", False), ("", False)])
@pytest.mark.usefixtures("editor")
def test_an_editor_renames_own_snapshots_only(author: str, is_allowed: bool, live: Fleet) -> None:  # noqa: FBT001
    key = service.snapshots().save(live, "Monday", NOW, author=author).id
    app = visit("snapshots", manage=key)
    assert button(app, "rename").disabled is not is_allowed
    enabled(app.text_input(key=f"name_{key}")).set_value("Tuesday")
    press(app, "rename")

    assert service.snapshots().get(key).metadata.name == ("Tuesday" if is_allowed else "Monday")
    assert service.snapshots().get(key).metadata.author == author


def test_a_role_that_is_taken_away_counts_at_the_next_click(
    live: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The controls that are still shown were enabled when they were drawn."""
    key = freeze(live, "Monday")
    signed_in(monkeypatch, "ada", AccessRole.ADMIN)
    sharing, reviewing, deleting = visit(), visit("review", snapshot=key), visit("snapshots", manage=key)
    press(deleting, "delete")
    deleting.text_input(key=f"delete_{key}").set_value("Monday")
    sharing.text_input(key="snapshot_name").set_value("Tuesday")
    reviewing.text_area(key=field(key, a_finding(live))).input("drain it")
    signed_in(monkeypatch, "ada", AccessRole.VIEWER)
    press(sharing, "save_snapshot")
    page = html(rerun(reviewing))
    assert "Not saved. Not allowed: note. Needs role editor; yours is viewer." in page
    assert "drain it" in reviewing.text_area.values, "what was typed is not lost"
    press(deleting, "delete_for_good")

    (stored,) = service.snapshots().all()
    assert (stored.metadata.name, stored.metadata.notes) == ("Monday", {})
    assert lines(capsys) == [("save", "refused"), ("note", "refused")]


@pytest.mark.usefixtures("viewer")
def test_read_only_wins_over_roles(live: Fleet, tmp_path: Path) -> None:
    service.put(live, NOW, tmp_path, read_only=True)

    assert "Snapshots are read-only here (option read_only)." in html(visit())
    assert "Needs role" not in html(visit()) + html(visit("snapshots")) + html(visit("review"))


def test_an_editor_undoes_own_acceptances_only_and_a_viewer_accepts_nothing(
    accepting: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = list_findings(service.current()).active[0].key

    def save(app: AppTest) -> AppTest:
        app.text_input(key=f"accept_owner_{key}").set_value("team")
        app.text_input(key=f"accept_reason_{key}").set_value("canary")
        return press(app, f"accept_save_{key}")

    signed_in(monkeypatch, "vic", AccessRole.VIEWER)
    app = visit("findings", finding=key)
    assert button(app, f"accept_save_{key}").help == "Needs role editor; yours is viewer."
    assert "Save needs role editor; yours is viewer. Save adds this to accepted.yaml." in html(save(app))
    assert not accepting.exists()

    signed_in(monkeypatch, "ann", AccessRole.EDITOR)
    save(visit("findings", finding=key))
    assert [each.author for each in load_suppressions(accepting)] == ["ann"]
    assert "by team: canary (accepted.yaml), saved by ann" in html(visit("findings", finding=key))
    assert "saved by ann</small>" in html(visit("findings", rules="Suppressed"))

    signed_in(monkeypatch, "bob", AccessRole.EDITOR)
    app = visit("findings", finding=key)
    assert button(app, f"accept_undo_{key}").help == "Needs role admin; yours is editor."
    press(app, f"accept_undo_{key}")
    assert len(load_suppressions(accepting)) == 1

    signed_in(monkeypatch, "ann", AccessRole.EDITOR)
    press(visit("findings", finding=key), f"accept_undo_{key}")
    assert load_suppressions(accepting) == ()
    assert lines(capsys) == [("accept", "done"), ("undo", "done")]


class Logged(NamedTuple):
    """A history with one poll, and an audit log."""

    fleet: Fleet
    table: AuditTable


@pytest.fixture
def logged(tmp_path: Path) -> Logged:
    fleet, history = builders.story(), Recorded(tmp_path)
    history.record(fleet)
    history.writer.close()
    reader = HistoryReader(Database(f"sqlite:///{tmp_path / 'history.db'}"))
    service.put(fleet, NOW, Snapshots(tmp_path), history=reader)
    return Logged(fleet, reader.audit)


def entry(minutes: int, action: str, visitor: str = "ann", result: str = "done", **details: str) -> AuditEntry:
    role = {"viewer": "viewer"}.get(visitor, "editor")
    return AuditEntry(
        NOW - timedelta(minutes=minutes), action, result, "", visitor, role, "proxy", CLIENT, dict(details)
    )


WHO_CHANGED_WHAT = partial(visit, "timeline", show="audit")
KEY = "3fa9c01b2e" + "0" * 22


def fill(logged: Logged) -> None:
    logged.table.add(entry(90, "save", "zoe", name="Old", snapshot=KEY))
    logged.table.add(entry(50, "save", name="Monday", snapshot=KEY))
    logged.table.add(entry(40, "accept", "bob", rule="RT-01", pool="chat", until="2026-04-01", labels=""))
    logged.table.add(entry(30, "rename", result="failed", snapshot=KEY, name="x"))
    logged.table.add(entry(20, "delete", "ada", name="Monday", snapshot=KEY))
    logged.table.add(entry(10, "export", "vic", file="a.html"))
    logged.table.add(entry(5, "token", "ci"))


@pytest.mark.usefixtures("editor")
def test_history_lists_who_changed_what_without_addresses_and_refusals(logged: Logged) -> None:
    fill(logged)
    app = WHO_CHANGED_WHAT(range="1h")
    table = table_of(app, "Who changed what")

    assert list(table) == ["Time", "Who", "Role", "Action", "Object"]
    assert table["Who"] == ["ada", "bob", "ann"]
    assert table["Action"] == ["Delete snapshot", "Accept findings", "Save snapshot"]
    assert table["Object"] == ["Monday", "rule RT-01, pool chat, until 2026-04-01", "Monday"]
    assert "<h1>3 changes by 3 visitors</h1>" in html(app)
    assert html(app).count("./?snapshot=3fa9c01b2e") == 1, "a deleted one has no link"
    assert CLIENT not in html(app)


def test_an_admin_sees_every_entry_with_its_result_and_address(logged: Logged) -> None:
    fill(logged)
    table = table_of(WHO_CHANGED_WHAT(range="1h"), "Who changed what")

    assert table["Action"] == [
        "Use token",
        "Export",
        "Delete snapshot",
        "Rename snapshot",
        "Accept findings",
        "Save snapshot",
    ]
    assert table["Result"] == ["done", "done", "done", "failed", "done", "done"]
    assert set(table["Client"]) == {CLIENT}


@pytest.mark.usefixtures("editor")
def test_who_changed_what_is_filtered_by_range_visitor_and_action(logged: Logged) -> None:
    fill(logged)

    def who(**choices: str) -> list[str]:
        return table_of(WHO_CHANGED_WHAT(**choices), "Who changed what")["Who"]

    assert who(range="6h") == ["ada", "bob", "ann", "zoe"]
    assert who(range="6h", who="A") == ["ada", "ann"]
    assert who(range="6h", action="save") == ["ann", "zoe"]
    app = WHO_CHANGED_WHAT(range="1h", who="%", action="save")
    assert "<h2>No matches for these filters</h2>" in html(app)
    assert "timeline?show=audit&amp;range=1h" in html(app)


@pytest.mark.usefixtures("editor")
def test_where_nobody_changed_anything_the_page_says_so(logged: Logged) -> None:
    logged.table.add(entry(5, "token", "ci"))
    page = html(WHO_CHANGED_WHAT())

    assert "<h2>No changes in this range</h2>" in page
    assert "Listed are saved, renamed, imported and deleted snapshots" in page


@pytest.mark.usefixtures("logged")
def test_what_a_visitor_did_just_now_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "now", service.utc_now)
    press(visit(), "save_snapshot")

    assert table_of(WHO_CHANGED_WHAT(range="1h"), "Who changed what")["Action"] == ["Save snapshot"]


def test_foreign_names_in_the_audit_log_are_text(logged: Logged) -> None:
    logged.table.add(entry(5, "save", HOSTILE, name=HOSTILE, snapshot=HOSTILE, file=HOSTILE))
    page = html(WHO_CHANGED_WHAT())

    assert "<script" not in page
    assert "<img" not in page


def test_without_a_history_there_is_no_audit_log_on_the_page(live: Fleet) -> None:
    assert "<h2>No history</h2>" in html(WHO_CHANGED_WHAT())
    assert live.pools


def test_the_header_has_name_and_role_and_sign_out_where_there_is_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"ann{HOSTILE}"
    by_proxy = Visitor(name, Means.PROXY, fixed=AccessRole.EDITOR)
    service.put(builders.story(), NOW)
    assert 'class="visitor"' not in html(visit()), "nobody signs in on loopback"

    monkeypatch.setattr(sessions, "outside", by_proxy)
    page = html(visit())
    assert "(editor)</span>" in page
    assert "<script" not in page
    assert "Sign out" not in page, "the session is that of the proxy"
    access = AccessOptions.model_validate({"proxy": {"sign_out_url": "/oauth2/sign_out"}})
    with monkeypatch.context() as configured:
        configured.setattr(service, "options", lambda: Options(access=access))
        assert '<form method="post" action="./auth/logout">' in html(visit()), "it leads to the proxy"

    monkeypatch.setattr(sessions, "outside", replace(by_proxy, session="0" * 32))
    assert '<form method="post" action="./auth/logout">' in html(visit())
