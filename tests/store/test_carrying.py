"""An exported snapshot is one file that carries its name and notes, and is still the frozen bytes to everybody else."""

from __future__ import annotations

import gzip
import subprocess
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.models import Note
from dashboard.store import Snapshots
from dashboard.store.carrying import Carried, carried_by
from dashboard.store.packing import comment_of, commented, id_of, packed, unpacked
from dashboard.store.sidecar import MOST_BYTES, MOST_NOTES
from tests import builders
from tests.builders import HOSTILE, NOW

if TYPE_CHECKING:
    from pathlib import Path

NOTE = Note("Ana restarts it.\nAsk Bo: größer?", "ana", datetime(2026, 3, 2, tzinfo=UTC))
SIMPLE = packed(b"{}")


@pytest.fixture
def export(tmp_path: Path) -> bytes:
    store = Snapshots(tmp_path)
    key = store.freeze(builders.story(), "Ops review", NOW).id
    store.note(key, "x", NOTE)
    return store.export(key)


def test_name_and_notes_come_back(export: bytes) -> None:
    told = carried_by(export)

    assert told.name == "Ops review"
    assert told.notes == {"x": NOTE}


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
        commented(SIMPLE, b'{"name": "\xff\xfe'),
    ],
    ids=range(12),
)
def test_a_file_that_no_export_wrote_carries_nothing(raw: bytes) -> None:
    assert carried_by(raw) == Carried()


def test_very_many_notes_are_not_taken() -> None:
    notes = ",".join(f'"{number}":{{"text":""}}' for number in range(MOST_NOTES + 1))

    assert carried_by(commented(SIMPLE, f'{{"notes":{{{notes}}}}}'.encode())) == Carried()


def test_secrets_in_a_note_that_somebody_brings_are_taken_out() -> None:
    told = carried_by(commented(SIMPLE, b'{"notes":{"x":{"text":"curl https://ana:hunter2secret@host/"}}}'))

    assert "hunter2secret" not in told.notes["x"].text
    assert "curl" in told.notes["x"].text


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_a_comment_changes_nothing_of_the_content(content: bytes, comment: bytes) -> None:
    written = comment.replace(b"\0", b"")
    raw = commented(packed(content), written)

    assert comment_of(raw, MOST_BYTES) == written
    assert unpacked(raw) == zlib.decompress(raw, wbits=zlib.MAX_WBITS | 16) == content


def test_a_name_that_attacks_is_only_text(tmp_path: Path) -> None:
    store = Snapshots(tmp_path)
    key = store.freeze(builders.story(), HOSTILE, NOW).id

    assert carried_by(store.export(key)).name == store.get(key).beside.name
