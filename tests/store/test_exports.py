"""An export is one file with name and notes; unpacked it is the frozen content."""

import gzip
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dashboard.fleet import Note
from dashboard.store.packing import (
    NOTES_BYTES,
    ExportMetadata,
    commented,
    id_of,
    packed,
    read_export_metadata,
    unpacked,
)
from dashboard.store.snapshots import Snapshots
from tests import builders
from tests.builders import NOW, POLLED_AT
from tests.saved_fleets import built_of_captures

NOTE = Note("Ana restarts it.\nAsk Bo: größer?", "ana", datetime(2026, 3, 2, tzinfo=UTC))
SIMPLE = packed(b"{}")


@pytest.fixture
def export(tmp_path: Path) -> bytes:
    store = Snapshots(tmp_path)
    key = store.save(builders.story(), "Ops review", NOW).id
    store.note(key, "x", NOTE)
    return store.export(key)


def test_an_imported_snapshot_keeps_its_time_of_freezing(tmp_path: Path) -> None:
    here, there, later = Snapshots(tmp_path / "here"), Snapshots(tmp_path / "there"), NOW + timedelta(days=3)
    key = here.save(built_of_captures(), "Ops review", NOW).id
    imported = there.save(here.fleet(key), "Ops review", later, read_export_metadata(here.export(key))).metadata

    assert (imported.saved_at, imported.imported_at) == (NOW, later)
    assert here.get(key).metadata.imported_at is None
    assert there.export(key) == here.export(key)


@pytest.mark.parametrize("saved_at", [None, POLLED_AT - timedelta(seconds=1), NOW + timedelta(days=3, seconds=1)])
def test_an_impossible_time_of_freezing_is_ignored(tmp_path: Path, saved_at: datetime | None) -> None:
    """Older exports have none; before the data and after the import are impossible."""
    later = NOW + timedelta(days=3)
    imported = Snapshots(tmp_path).save(builders.story(), "x", later, ExportMetadata(saved_at=saved_at)).metadata

    assert (imported.saved_at, imported.imported_at) == (later, None)


def test_unpacking_an_export_gives_the_frozen_content(export: bytes, tmp_path: Path) -> None:
    (key,) = (each.id for each in Snapshots(tmp_path).all())
    by_gzip = subprocess.run(["gzip", "-dc"], input=export, capture_output=True, check=True, timeout=30).stdout

    assert id_of(unpacked(export)) == key
    assert by_gzip == gzip.decompress(export) == unpacked(export)


def test_the_same_name_and_notes_give_the_same_bytes(export: bytes, tmp_path: Path) -> None:
    store = Snapshots(tmp_path)
    (stored,) = store.all()
    assert store.export(stored.id) == export

    store.note(stored.id, "x", None)
    assert store.export(stored.id) != export


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"\x1f\x8b",
        SIMPLE,
        commented(SIMPLE, b"made by another program"),
        commented(SIMPLE, b'{"name": 3}'),
        commented(SIMPLE, b'{"name": "' + b"x" * 81 + b'"}'),
        commented(SIMPLE, b"[" * 100_000),
        commented(SIMPLE, b'{"notes": {"x": {"text": "' + b"x" * 4_001 + b'"}}}'),
        commented(SIMPLE, b'{"name": "' + b" " * NOTES_BYTES + b'"}'),
        commented(SIMPLE, b'{"name": "cut"}')[:20],
        commented(SIMPLE, b'{"name": "x", "saved_at": "yesterday"}'),
        commented(SIMPLE, b'{"name": "x", "saved_at": 1e300}'),
        commented(SIMPLE, b'{"name": "x", "saved_at": "2026-03-02T11:42:05"}'),
        commented(SIMPLE, b'{"name": "\xff\xfe'),
    ],
    ids=range(15),
)
def test_another_file_has_no_export_metadata(raw: bytes) -> None:
    assert read_export_metadata(raw) == ExportMetadata()


def test_secrets_in_imported_notes_are_redacted() -> None:
    export = read_export_metadata(commented(SIMPLE, b'{"notes":{"x":{"text":"curl https://ana:hunter2secret@host/"}}}'))

    assert "hunter2secret" not in export.notes["x"].text
    assert "curl" in export.notes["x"].text
