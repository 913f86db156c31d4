"""An exported snapshot is one file that carries its name and notes, and is still the frozen bytes to everybody else."""

import gzip
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dashboard.fleet import Note
from dashboard.store import Snapshots
from dashboard.store.notes_file import MOST_BYTES, ExportMetadata, read_export_metadata
from dashboard.store.packing import commented, id_of, packed, unpacked
from tests import builders
from tests.builders import NOW, POLLED_AT
from tests.saved_fleets import built_of_captures

NOTE = Note("Ana restarts it.\nAsk Bo: größer?", "ana", datetime(2026, 3, 2, tzinfo=UTC))
SIMPLE = packed(b"{}")


@pytest.fixture
def export(tmp_path: Path) -> bytes:
    store = Snapshots(tmp_path)
    key = store.freeze(builders.story(), "Ops review", NOW).id
    store.note(key, "x", NOTE)
    return store.export(key)


def test_a_snapshot_that_is_imported_was_frozen_when_it_was_frozen(tmp_path: Path) -> None:
    """Both dashboards tell the same of the same id; the other one says when it was brought."""
    here, there, later = Snapshots(tmp_path / "here"), Snapshots(tmp_path / "there"), NOW + timedelta(days=3)
    key = here.freeze(built_of_captures(), "Ops review", NOW).id
    beside = there.freeze(here.fleet(key), "Ops review", later, read_export_metadata(here.export(key))).metadata

    assert (beside.frozen_at, beside.imported_at) == (NOW, later)
    assert here.get(key).metadata.imported_at is None
    assert there.export(key) == here.export(key)


@pytest.mark.parametrize("told", [None, POLLED_AT - timedelta(seconds=1), NOW + timedelta(days=3, seconds=1)])
def test_a_time_of_freezing_that_cannot_be_is_not_believed(tmp_path: Path, told: datetime | None) -> None:
    """Older exports tell none; nobody freezes data that is not there yet, and nothing comes from the future."""
    later = NOW + timedelta(days=3)
    beside = Snapshots(tmp_path).freeze(builders.story(), "x", later, ExportMetadata(frozen_at=told)).metadata

    assert (beside.frozen_at, beside.imported_at) == (later, None)


def test_what_is_in_the_file_is_what_was_frozen_whatever_unpacks_it(export: bytes, tmp_path: Path) -> None:
    """Its hash is the id, and programs that know nothing of notes read it."""
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
        commented(SIMPLE, b'{"name": "' + b" " * MOST_BYTES + b'"}'),
        commented(SIMPLE, b'{"name": "cut"}')[:20],
        commented(SIMPLE, b'{"name": "x", "frozen_at": "yesterday"}'),
        commented(SIMPLE, b'{"name": "x", "frozen_at": 1e300}'),
        commented(SIMPLE, b'{"name": "x", "frozen_at": "2026-03-02T11:42:05"}'),
        commented(SIMPLE, b'{"name": "\xff\xfe'),
    ],
    ids=range(15),
)
def test_a_file_that_no_export_wrote_carries_nothing(raw: bytes) -> None:
    assert read_export_metadata(raw) == ExportMetadata()


def test_secrets_in_a_note_that_somebody_brings_are_taken_out() -> None:
    told = read_export_metadata(commented(SIMPLE, b'{"notes":{"x":{"text":"curl https://ana:hunter2secret@host/"}}}'))

    assert "hunter2secret" not in told.notes["x"].text
    assert "curl" in told.notes["x"].text
