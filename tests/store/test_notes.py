"""Notes of a snapshot are never lost."""

import json
import re
import threading

import pytest

from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.store import metadata as snapshot_metadata
from dashboard.store.metadata import LONGEST_NAME, LONGEST_NOTE, MOST_BYTES, MOST_NOTES, read_export_metadata
from dashboard.store.snapshots import Snapshots
from tests.builders import HOSTILE, NOW
from tests.store.folders import a_fleet, full_disk


@pytest.mark.parametrize("note", [Note("x" * (LONGEST_NOTE + 1)), Note("x", "y" * (LONGEST_NAME + 1))])
def test_a_too_long_note_is_refused(any_store: Snapshots, any_key: str, note: Note) -> None:
    any_store.note(any_key, "there", Note("before"))
    sentence = "The note is too long: the limit is 4,000 characters, and 80 for its owner. Shorten it."

    with pytest.raises(SnapshotError, match=re.escape(sentence)):
        any_store.note(any_key, "new", note)
    assert any_store.get(any_key).notes == {"there": Note("before")}


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"", "is not a complete JSON object"),
        (b"[]", "is not a complete JSON object"),
        (b"\xff", "is not a complete JSON object"),
        (b"[" * 100_000, "is not a complete JSON object"),
        (b'{"name": 3}', "has an unexpected value at name"),
        (b'{"schema_version": 2}', "has an unexpected value at schema_version"),
        (b" " * (MOST_BYTES + 1), "is larger than 8 MiB"),
    ],
)
def test_unreadable_notes_are_reported_and_never_overwritten(
    store: Snapshots, key: str, content: bytes, wrong: str
) -> None:
    file = store.folder / f"{key}.notes.json"
    file.write_bytes(content)
    sentence = (
        f"The name and notes of snapshot {key} cannot be read: {key}.notes.json in the data folder {wrong}; "
        "repair it or move it away. It is never overwritten."
    )

    assert [(each.id, each.metadata.fleet, each.notes, each.problem) for each in store.all()] == [
        (key, "prod", {}, sentence)
    ]
    assert store.listed().damaged == (sentence,)
    with pytest.raises(SnapshotError, match=re.escape(sentence)):
        store.note(key, "a", Note("new"))
    with pytest.raises(SnapshotError, match=re.escape(sentence)):
        store.rename(key, "new")
    assert store.freeze(a_fleet(), "new", NOW).problem == sentence
    assert file.read_bytes() == content


def test_the_place_of_an_error_is_one_short_line(store: Snapshots, key: str) -> None:
    file = store.folder / f"{key}.notes.json"
    metadata = json.loads(file.read_bytes())
    file.write_text(json.dumps({**metadata, "notes": {HOSTILE * 100: 3}}))
    problem = store.get(key).problem

    assert "has an unexpected value at notes." in problem
    assert len(problem) < 400
    assert problem.isprintable()


def test_the_size_of_notes_is_limited(store: Snapshots, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger file is not read. The limit is lowered to 1 MiB: reading 8 MiB of notes takes a second."""
    most_bytes = 2**20
    monkeypatch.setattr(snapshot_metadata, "MOST_BYTES", most_bytes)
    file = store.folder / f"{key}.notes.json"
    note, size = Note("x" * LONGEST_NOTE), file.stat().st_size
    store.note(key, "0000", note)
    count = (most_bytes - size) // (file.stat().st_size - size) - 1  # of notes: one more fits
    metadata = json.loads(file.read_bytes())
    notes = {f"{number:04}": {"text": note.text} for number in range(count)}
    file.write_text(json.dumps({**metadata, "notes": notes}))
    for number in range(3):
        try:
            store.note(key, f"more {number}", note)
        except SnapshotError as error:
            refused = str(error)
            break

    assert refused == (f"The notes of snapshot {key} take more than 1 MiB; shorten this one or delete others.")
    assert file.stat().st_size <= most_bytes
    assert len(store.get(key).notes) == len(read_export_metadata(store.export(key)).notes) == len(notes) + number
    store.note(key, "0000", None)
    store.note(key, "in its place", note)


def test_the_number_of_notes_is_limited(store: Snapshots, key: str) -> None:
    file = store.folder / f"{key}.notes.json"
    metadata = json.loads(file.read_bytes())
    file.write_text(json.dumps({**metadata, "notes": {str(number): {"text": ""} for number in range(MOST_NOTES)}}))

    with pytest.raises(SnapshotError, match=f"Snapshot {key} has more than 10,000 notes; delete some"):
        store.note(key, "more", Note("x"))
    store.note(key, "0", Note("instead"))
    assert len(read_export_metadata(store.export(key)).notes) == MOST_NOTES


def test_a_failed_write_keeps_the_earlier_notes(store: Snapshots, key: str) -> None:
    store.note(key, "findings/1", Note("kept", "ana", NOW))
    with full_disk(10), pytest.raises(SnapshotError):
        store.note(key, "findings/1", Note("lost", "bob", NOW))

    assert store.get(key).notes == {"findings/1": Note("kept", "ana", NOW)}


def test_notes_are_written_changed_and_deleted(store: Snapshots, key: str) -> None:
    store.note(key, "a", Note("one", "ana", NOW))
    store.note(key, "b", Note(HOSTILE))
    store.note(key, "a", Note("two", "bob", NOW))

    assert Snapshots(store.folder).get(key).notes == {"a": Note("two", "bob", NOW), "b": Note(HOSTILE)}
    store.note(key, "a", None)
    assert set(store.get(key).notes) == {"b"}


def test_notes_of_parallel_threads_are_all_kept(store: Snapshots, key: str) -> None:
    begin = threading.Barrier(8)

    def write(number: int) -> None:
        begin.wait()
        for each in range(10):
            store.note(key, f"{number}/{each}", Note(str(each)))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert len(store.get(key).notes) == 80
