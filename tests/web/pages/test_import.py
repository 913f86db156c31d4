"""Files that are dropped onto the page of snapshots: frozen and opened, or refused with a sentence."""

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Note
from dashboard.fleet.formatting import iso
from dashboard.store.packing import content_of, packed
from tests import builders
from tests.builders import HOSTILE, NOW
from tests.captured import SERVER_INFO, capture
from tests.page_runner import html, opened, rerun
from tests.report.saved_fleets import built_of_captures
from tests.snapshot_pages import drop, freeze, shown_beside, visit


@pytest.mark.usefixtures("live")
def test_files_that_are_dropped_are_frozen_and_opened() -> None:
    answer = capture("llama").answers[SERVER_INFO]
    app = drop(visit("snapshots"), ("chat-1.json", answer), ("chat-2.json", answer))

    (stored,) = service.snapshots().all()
    assert stored.beside.fleet == "imported"
    assert stored.beside.targets == 2
    assert opened(app) == [f"./?snapshot={stored.id}"]
    assert "<h1>./llama</h1>" in html(visit("compare", snapshot=stored.id))


@pytest.mark.usefixtures("live")
def test_saved_answers_never_pass_for_fresh_data() -> None:
    """They tell no time: header and foot say when they were imported."""
    drop(visit("snapshots"), ("chat-1.json", capture("llama").answers[SERVER_INFO]))
    (stored,) = service.snapshots().all()
    page = html(visit("replicas", snapshot=stored.id))

    assert f'<span class="roomy">imported </span><b>{iso(NOW)}</b>' in page
    assert f"<span>imported {iso(NOW)}</span>" in page
    assert "data as of" not in page


@pytest.mark.usefixtures("live")
def test_the_list_of_snapshots_says_of_saved_answers_when_they_were_imported() -> None:
    drop(visit("snapshots"), ("chat-1.json", capture("llama").answers[SERVER_INFO]))
    (stored,) = service.snapshots().all()

    assert f">imported {iso(NOW)}</span>" in html(visit("snapshots"))
    assert f"</code> · imported {iso(NOW)} · " in html(visit("snapshots", manage=stored.id))


def test_an_export_of_another_dashboard_is_the_same_snapshot_here(live: Fleet, tmp_path: Path) -> None:
    shown_beside(live, tmp_path / "here")
    key = freeze(built_of_captures())
    exported = service.snapshots().export(key)
    shown_beside(builders.fleet(polled_at=NOW), tmp_path / "there")
    app = drop(visit("snapshots"), ("prod-eu-ops-review.json.gz", exported))

    assert [(each.id, each.beside.name) for each in service.snapshots().all()] == [(key, "Ops review")]
    assert opened(app) == [f"./?snapshot={key}"]


def test_an_export_says_when_it_was_frozen_and_when_it_was_imported(live: Fleet, tmp_path: Path) -> None:
    shown_beside(live, tmp_path / "here")
    key = freeze(built_of_captures())
    exported = service.snapshots().export(key)
    later = NOW + timedelta(days=1)
    shown_beside(builders.fleet(polled_at=later), tmp_path / "there", later)
    drop(visit("snapshots"), ("fleet.json.gz", exported))

    assert f"frozen {iso(NOW)} · imported {iso(later)}" in html(visit("snapshots", manage=key))


@pytest.mark.usefixtures("live")
def test_the_answer_that_tells_all_settings_is_asked_for() -> None:
    assert "<code>/inference/v1/config?full=true</code>" in html(visit("snapshots"))


@pytest.mark.usefixtures("live")
def test_the_button_is_called_as_the_text_says() -> None:
    app = visit("snapshots")
    assert "Select files, then <b>Import</b> below them" in html(app)
    app.file_uploader[0].set_value([("chat-1.json", b"{}", "application/json")])

    assert rerun(app).button(key="import").label == "Import"


def test_an_export_brings_its_notes_and_leaves_those_that_are_there(live: Fleet, tmp_path: Path) -> None:
    shown_beside(live, tmp_path / "here")
    key = freeze(built_of_captures())
    service.snapshots().note(key, "x", Note("Ana restarts it.", "ana", NOW))
    exported = service.snapshots().export(key)
    shown_beside(builders.fleet(polled_at=NOW), tmp_path / "there")
    drop(visit("snapshots"), ("fleet.json.gz", exported))
    assert service.snapshots().get(key).notes == {"x": Note("Ana restarts it.", "ana", NOW)}

    service.snapshots().note(key, "x", Note("Mine."))
    drop(visit("snapshots"), ("fleet.json.gz", exported))
    assert service.snapshots().get(key).notes == {"x": Note("Mine.")}


def test_a_file_that_was_exported_without_a_name_is_called_after_itself(live: Fleet, tmp_path: Path) -> None:
    shown_beside(builders.fleet(polled_at=NOW), tmp_path / "there")
    drop(visit("snapshots"), ("prod-eu-ops-review.json.gz", packed(content_of(live))))

    assert [each.beside.name for each in service.snapshots().all()] == ["prod-eu-ops-review"]


@pytest.mark.usefixtures("live")
def test_each_file_that_cannot_be_used_has_its_own_sentence_and_the_others_are_frozen() -> None:
    app = drop(
        visit("snapshots"),
        (f"{HOSTILE}.json", b"<html>"),
        ("chat-1.json", capture("llama").answers[SERVER_INFO]),
        ("chat-2.json", b"{"),
    )
    page = html(app)

    (stored,) = service.snapshots().all()
    assert "web page or XML" in page
    assert "ends in the middle" in page
    assert f"./?snapshot={stored.id}" in page
    assert "<script>" not in page
    assert "<h2>2 files refused</h2>" in page
    assert opened(app) == []


def test_a_disk_that_is_full_is_said_and_nothing_breaks(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shown_beside(builders.story(), tmp_path / "file")
    app = drop(visit("snapshots"), ("chat-1.json", capture("llama").answers[SERVER_INFO]))

    assert "cannot be read in" in html(app) or "cannot be written in" in html(app)
