"""Notes of a snapshot are never lost."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.store import packing
from dashboard.store.packing import LONGEST_NAME, LONGEST_NOTE, MOST_NOTES, NOTES_BYTES, read_export_metadata
from dashboard.store.snapshots import Snapshots
from tests.builders import HOSTILE, NOW
from tests.store.folders import a_fleet, column, damage, full_disk


@pytest.mark.parametrize("note", [Note("x" * (LONGEST_NOTE + 1)), Note("x", "y" * (LONGEST_NAME + 1))])
def test_a_too_long_note_is_refused(store: Snapshots, key: str, note: Note) -> None:
    store.note(key, "there", Note("before"))
    sentence = "The note is too long: the limit is 4,000 characters, and 80 for its owner. Shorten it."

    with pytest.raises(SnapshotError, match=re.escape(sentence)):
        store.note(key, "new", note)
    assert store.get(key).metadata.notes == {"there": Note("before")}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"\xff", b"[" * 100_000, b'{"name": 3}', b'{"schema_version": 2}', b" " * (NOTES_BYTES + 1), 3,
    ],
)  # fmt: skip
def test_unreadable_notes_are_reported_and_never_overwritten(store: Snapshots, key: str, content: bytes | int) -> None:
    damage(store, key, metadata=content)
    sentence = (
        f"The name and notes of snapshot {key} are damaged in the database; restore a copy of it. "
        "They are never overwritten."
    )

    assert [(each.id, each.metadata.fleet, each.metadata.notes, each.problem) for each in store.all()] == [
        (key, "prod", {}, sentence)
    ]
    assert store.listed().damaged == (sentence,)
    with pytest.raises(SnapshotError, match=re.escape(sentence)):
        store.note(key, "a", Note("new"))
    with pytest.raises(SnapshotError, match=re.escape(sentence)):
        store.rename(key, "new")
    assert store.save(a_fleet(), "new", NOW).problem == sentence
    assert column(store, key, "metadata") == content


def test_the_size_of_notes_is_limited(store: Snapshots, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger ones are not read."""
    note, size = Note("x" * LONGEST_NOTE), len(column(store, key, "metadata"))
    monkeypatch.setattr(packing, "NOTES_BYTES", size + 5 * LONGEST_NOTE)
    for number in range(4):
        store.note(key, f"{number}", note)
    with pytest.raises(SnapshotError, match=f"The notes of snapshot {key} take more than 0 MiB; shorten this one or"):
        store.note(key, "more", note)

    assert len(store.get(key).metadata.notes) == len(read_export_metadata(store.export(key)).notes) == 4
    store.note(key, "0", None)
    store.note(key, "in its place", note)


def test_the_number_of_notes_is_limited(store: Snapshots, key: str) -> None:
    metadata = json.loads(column(store, key, "metadata"))
    notes = {str(number): {"text": ""} for number in range(MOST_NOTES)}
    damage(store, key, metadata=json.dumps({**metadata, "notes": notes}).encode())

    with pytest.raises(SnapshotError, match=f"Snapshot {key} has more than 10,000 notes; delete some"):
        store.note(key, "more", Note("x"))
    store.note(key, "0", Note("instead"))
    assert len(read_export_metadata(store.export(key)).notes) == MOST_NOTES


def test_a_failed_write_keeps_the_earlier_notes(store: Snapshots, key: str) -> None:
    store.note(key, "findings/1", Note("kept", "ana", NOW))
    with full_disk(10), pytest.raises(SnapshotError):
        store.note(key, "findings/1", Note("lost", "bob", NOW))

    assert store.get(key).metadata.notes == {"findings/1": Note("kept", "ana", NOW)}


def test_notes_are_written_changed_and_deleted(store: Snapshots, key: str) -> None:
    store.note(key, "a", Note("one", "ana", NOW))
    store.note(key, "b", Note(HOSTILE))
    store.note(key, "a", Note("two", "bob", NOW))

    assert Snapshots(store.folder).get(key).metadata.notes == {"a": Note("two", "bob", NOW), "b": Note(HOSTILE)}
    store.note(key, "a", None)
    assert set(store.get(key).metadata.notes) == {"b"}


def test_notes_of_parallel_threads_are_all_kept(store: Snapshots, key: str) -> None:
    begin = threading.Barrier(8)

    def write(number: int) -> None:
        begin.wait()
        for each in range(10):
            store.note(key, f"{number}/{each}", Note(str(each)))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))

    assert len(store.get(key).metadata.notes) == 80
