"""Rename, export, delete, import and freeze: what they change, the audit log, and the option read_only."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.config import Options
from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.fleet.formatting import iso
from dashboard.sources import child
from dashboard.store.packing import READ_ONLY, content_of, packed
from tests import builders
from tests.builders import HOSTILE, NOW
from tests.captured import SERVER_INFO, capture
from tests.page_runner import EVERY_PAGE, address, drop, freeze, html, opened, rerun, show_with_snapshots, visit
from tests.saved_fleets import built_of_captures
from tests.store.folders import column, damage

BY = {"visitor": "anonymous", "role": "admin", "means": "anonymous", "client": "unknown"}
LLAMA = capture("llama").answers[SERVER_INFO]


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click()
    return rerun(app)


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines of the audit log since the last look, without their times."""
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", each.pop("at")) for each in found)
    return found


def exported(fleet: Fleet, tmp_path: Path, note: Note | None = None) -> tuple[str, bytes]:
    """Freeze and export a fleet in one folder, and show another one; return the id and the file."""
    show_with_snapshots(fleet, tmp_path / "here")
    key = freeze(fleet)
    if note:
        service.snapshots().note(key, "x", note)
    file = service.snapshots().export(key)
    show_with_snapshots(builders.fleet(polled_at=NOW), tmp_path / "there")
    return key, file


def test_one_click_renames_while_the_name_is_being_typed(live: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """A browser sends the name with the click that leaves its field."""
    key = freeze(live, "Monday")
    app = visit("snapshots", manage=key)
    assert not app.button(key="rename").disabled
    press(app, "rename")
    assert address(app, "manage") == key, "an unchanged name changes nothing"
    assert logged(capsys) == []

    app.text_input(key=f"name_{key}").set_value("Tuesday")
    press(app, "rename")
    assert service.snapshots().get(key).metadata.name == "Tuesday"
    assert address(app, "manage") is None
    assert "Tuesday" in html(app)
    assert logged(capsys) == [
        {"audit": "rename", "result": "done", **BY, "snapshot": key, "name": "Tuesday", "before": "Monday"}
    ]


def test_an_empty_name_becomes_the_default(live: Fleet) -> None:
    key = freeze(live)
    app = visit("snapshots", manage=key)
    assert app.text_input(key=f"name_{key}").placeholder == "prod-eu 2026-03-02T11:42:05Z"
    app.text_input(key=f"name_{key}").set_value(" ")
    press(app, "rename")

    assert service.snapshots().get(key).metadata.name == "prod-eu 2026-03-02T11:42:05Z"


def test_unreadable_notes_are_an_error_and_no_new_name_overwrites_them(live: Fleet) -> None:
    key = freeze(live)
    damage(service.snapshots(), key, metadata=b"{")
    error = f"The name and notes of snapshot {key} are damaged in the database"
    app = visit("snapshots", manage=key)
    assert html(app).count(error) == 1, "below the list"

    app.text_input(key=f"name_{key}").set_value("After the rollout")
    assert html(press(app, "rename")).count(error) == 2, "in the dialog too"
    assert column(service.snapshots(), key, "metadata") == b"{"
    assert "Also deletes its notes, which cannot be read." in html(press(app, "delete"))


def test_a_snapshot_is_deleted_only_by_its_name(live: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    key = freeze(live, "Monday")
    app = press(visit("snapshots", manage=key, snapshot=key), "delete")
    assert "permanently? Links to it will stop working." in html(app)

    for typed in ("", "monday"):
        app.text_input(key=f"delete_{key}").set_value(typed)
        assert "Not deleted: type the name, Monday." in html(press(app, "delete_for_good"))
        assert service.snapshots().beginning(key) == (key,)
    app.text_input(key=f"delete_{key}").set_value(" Monday ")
    press(app, "delete_for_good")

    assert service.snapshots().beginning(key) == ()
    assert "<h2>No snapshots</h2>" in html(app)
    assert address(app, "snapshot") is None, "the page is live again"
    line = {"audit": "delete", **BY, "snapshot": key, "name": "Monday"}
    failed = {**line, "result": "failed", "reason": "Not deleted: type the name, Monday."}
    assert logged(capsys) == [failed, failed, {**line, "result": "done"}]


def test_a_deletion_can_be_cancelled(live: Fleet) -> None:
    key = freeze(live)
    app = press(press(visit("snapshots", manage=key), "delete"), "keep")

    assert service.snapshots().beginning(key) == (key,)
    assert "permanently" not in html(app)


def test_the_dialog_of_a_deleted_snapshot_is_an_error(live: Fleet) -> None:
    freeze(live)

    assert "There is no snapshot “0000000000”" in html(visit("snapshots", manage="0000000000"))


@pytest.mark.usefixtures("live")
def test_saved_answers_are_frozen_and_opened_with_their_import_time() -> None:
    """They have no time of their own, and must never pass for fresh data."""
    app = drop(visit("snapshots"), ("chat-1.json", LLAMA), ("chat-2.json", LLAMA))
    (stored,) = service.snapshots().all()
    replicas = html(visit("replicas", snapshot=stored.id))

    assert (stored.metadata.fleet, stored.metadata.targets) == ("imported", 2)
    assert opened(app) == [f"./?snapshot={stored.id[:10]}"]
    assert f'<span class="roomy">imported </span><b>{iso(NOW)}</b>' in replicas
    assert f"<span>imported {iso(NOW)}</span>" in replicas
    assert "data as of" not in replicas
    assert f"imported {iso(NOW)}" in html(visit("snapshots"))
    assert f"</code> · imported {iso(NOW)} · " in html(visit("snapshots", manage=stored.id))


@pytest.mark.long
def test_an_imported_export_has_the_same_id_name_times_and_notes_and_keeps_newer_notes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = Note("Ana restarts it.", "ana", NOW)
    key, file = exported(built_of_captures(), tmp_path, note)
    later = NOW + timedelta(days=1)
    show_with_snapshots(builders.fleet(polled_at=later), tmp_path / "there", later)
    app = drop(visit("snapshots"), ("fleet.json.gz", file))

    assert opened(app) == [f"./?snapshot={key[:10]}"]
    assert service.snapshots().get(key).metadata.notes == {"x": note}
    assert f"saved {iso(NOW)} · imported {iso(later)}" in html(visit("snapshots", manage=key))
    assert logged(capsys) == [
        {"audit": "import", "result": "done", **BY, "name": "Ops review", "file": "fleet.json.gz", "snapshot": key}
    ]
    service.snapshots().note(key, "x", Note("Mine."))
    drop(visit("snapshots"), ("fleet.json.gz", file))
    assert service.snapshots().get(key).metadata.notes == {"x": Note("Mine.")}


def test_each_refused_file_has_its_reason_and_the_others_are_frozen(live: Fleet, tmp_path: Path) -> None:
    """A file without a name of a snapshot gets the name of the file."""
    show_with_snapshots(builders.fleet(polled_at=NOW), tmp_path / "there")
    unnamed = ("prod-eu-ops-review.json.gz", packed(content_of(live)))
    app = drop(visit("snapshots"), (f"{HOSTILE}.json", b"<html>"), unnamed, ("chat-2.json", b"{"))
    page = html(app)
    (stored,) = service.snapshots().all()

    assert stored.metadata.name == "prod-eu-ops-review"
    assert "web page or XML" in page
    assert page.count("<small>") == 2
    assert "<script>" not in page
    assert "<h2>2 files refused</h2>" in page
    assert f"./?snapshot={stored.id[:10]}" in page
    assert opened(app) == []


def test_a_folder_that_cannot_be_written_refuses_the_import(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    show_with_snapshots(builders.story(), tmp_path / "file")

    refused = html(drop(visit("snapshots"), ("chat-1.json", LLAMA))).partition("1 file refused")[2]
    assert "A snapshot cannot be written. The history history.db cannot be used: " in refused


@pytest.mark.usefixtures("live")
def test_an_import_that_waits_too_long_for_another_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "WAIT_SECONDS", 0.01)
    shown: list[str] = []

    def import_meanwhile() -> bytes:
        shown.append(html(drop(visit("snapshots"), ("chat-1.json", LLAMA))))
        return b""

    child.run_limited("tests.sources.importing.hungry", import_meanwhile)

    assert child.BUSY in shown[0].partition("1 file refused")[2]
    assert service.snapshots().all() == ()


@pytest.mark.parametrize(("page", "button"), [("overview", "save_snapshot"), ("review", "save_for_review")])
@pytest.mark.usefixtures("live")
def test_freezing_is_logged(page: str, button: str, capsys: pytest.CaptureFixture[str]) -> None:
    press(visit(page), button)
    (stored,) = service.snapshots().all()

    assert logged(capsys) == [
        {"audit": "save", "result": "done", **BY, "name": stored.metadata.name, "snapshot": stored.id}
    ]


def test_a_note_is_logged_without_its_text(live: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    key = freeze(live)
    app = visit("review", snapshot=key)
    field = next(each for each in app.text_area if each.key and each.key.startswith(f"note {key} "))
    field.set_value("between us")
    rerun(app)

    (line,) = logged(capsys)
    assert (line["audit"], line["snapshot"]) == ("note", key)
    assert "between us" not in json.dumps(line)


@pytest.fixture
def read_only_key(tmp_path: Path) -> str:
    """The id of a snapshot with a note, under read_only."""
    service.put(builders.story(), NOW, tmp_path)
    key = freeze(builders.story(), "Monday")
    service.snapshots().note(key, "fine", Note("agreed on it", "ann"))
    service.put(builders.story(), NOW, tmp_path, read_only=True)
    return key


def test_under_read_only_the_store_refuses_every_change(read_only_key: str) -> None:
    store, key = service.snapshots(), read_only_key
    before = store.all()
    for change in (
        lambda: store.save(builders.story(), "x", NOW),
        lambda: store.rename(key, "x"),
        lambda: store.note(key, "fine", Note("x")),
        lambda: store.delete(key),
    ):
        with pytest.raises(SnapshotError, match=re.escape(READ_ONLY)):
            change()

    assert store.all() == before


def test_the_option_read_only_reaches_the_store(tmp_path: Path) -> None:
    service.start(Options(read_only=True, data_folder=tmp_path))
    try:
        assert service.snapshots().read_only
    finally:
        service.stop()


@pytest.mark.few(3)
@pytest.mark.parametrize("page", EVERY_PAGE)
def test_under_read_only_no_page_offers_a_change(page: str, read_only_key: str) -> None:
    for url in ({}, {"snapshot": read_only_key}):
        app = visit(page, manage=read_only_key, **url)

        assert {"save_snapshot", "save_for_review", "rename", "delete", "import"} & {
            each.key for each in app.button
        } == set()
        assert [each.key for each in app.button if "Save" in each.label] == []
        assert app.text_area.values == []
        assert len(app.file_uploader) == 0


def test_under_read_only_snapshots_can_be_read_and_exported(read_only_key: str) -> None:
    dialog = visit("snapshots", manage=read_only_key)
    review = html(visit("review", snapshot=read_only_key))

    assert [each.key for each in dialog.get("download_button")] == ["download"]
    assert "agreed on it" in review
    assert READ_ONLY in review
