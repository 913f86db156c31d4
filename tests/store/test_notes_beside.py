"""Notes beside a snapshot are kept, changed and taken away; what people wrote is never lost."""

import json
import re
import threading

import pytest

from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.store import Snapshots
from dashboard.store.notes_file import LONGEST_NAME, LONGEST_NOTE, MOST_BYTES, MOST_NOTES, read_export_metadata
from tests.builders import HOSTILE, NOW
from tests.store.folders import a_fleet, full_disk


@pytest.mark.parametrize("note", [Note("x" * (LONGEST_NOTE + 1)), Note("x", "y" * (LONGEST_NAME + 1))])
def test_a_note_that_is_too_long_is_refused_with_what_to_do_and_the_rest_stays(
    store: Snapshots, key: str, note: Note
) -> None:
    store.note(key, "there", Note("before"))
    said = "The note is too long: the limit is 4,000 characters, and 80 for its owner. Shorten it."

    with pytest.raises(SnapshotError, match=re.escape(said)):
        store.note(key, "new", note)
    assert store.get(key).notes == {"there": Note("before")}


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
def test_notes_that_cannot_be_read_hide_no_snapshot_and_are_never_written_over(
    store: Snapshots, key: str, content: bytes, wrong: str
) -> None:
    """Somebody mended the file by hand and forgot a comma: all that was noted is still in it."""
    file = store.folder / f"{key}.notes.json"
    file.write_bytes(content)
    said = (
        f"The name and notes of snapshot {key} cannot be read: {key}.notes.json in the folder of snapshots {wrong}; "
        "repair it or move it away. It is never overwritten."
    )

    assert [(each.id, each.metadata.fleet, each.notes, each.problem) for each in store.all()] == [
        (key, "prod", {}, said)
    ]
    assert store.listed().damaged == (said,)
    with pytest.raises(SnapshotError, match=re.escape(said)):
        store.note(key, "a", Note("new"))
    with pytest.raises(SnapshotError, match=re.escape(said)):
        store.rename(key, "new")
    assert store.freeze(a_fleet(), "new", NOW).problem == said
    assert file.read_bytes() == content


def test_the_place_that_is_wrong_is_one_short_line_whatever_it_is_called(store: Snapshots, key: str) -> None:
    file = store.folder / f"{key}.notes.json"
    told = json.loads(file.read_bytes())
    file.write_text(json.dumps({**told, "notes": {HOSTILE * 100: 3}}))
    problem = store.get(key).problem

    assert "has an unexpected value at notes." in problem
    assert len(problem) < 400
    assert problem.isprintable()


def test_a_note_more_than_is_read_again_is_refused_and_the_others_stay(store: Snapshots, key: str) -> None:
    """Written, it would be the last one: a larger file is not read."""
    file = store.folder / f"{key}.notes.json"
    note, told = Note("x" * LONGEST_NOTE), json.loads(file.read_bytes())
    notes = {f"{number:04}": {"text": note.text} for number in range(MOST_BYTES // (LONGEST_NOTE + 100))}
    file.write_text(json.dumps({**told, "notes": notes}))
    for number in range(100):
        try:
            store.note(key, f"more {number}", note)
        except SnapshotError as error:
            refused = str(error)
            break

    assert refused == (f"The notes of snapshot {key} take more than 8 MiB; shorten this one or delete others.")
    assert file.stat().st_size <= MOST_BYTES
    assert len(store.get(key).notes) == len(read_export_metadata(store.export(key)).notes) == len(notes) + number
    store.note(key, "0000", None)
    store.note(key, "in its place", note)


def test_more_notes_than_an_export_carries_are_refused_and_the_others_stay(store: Snapshots, key: str) -> None:
    file = store.folder / f"{key}.notes.json"
    told = json.loads(file.read_bytes())
    file.write_text(json.dumps({**told, "notes": {str(number): {"text": ""} for number in range(MOST_NOTES)}}))

    with pytest.raises(SnapshotError, match=f"Snapshot {key} has more than 10,000 notes; delete some"):
        store.note(key, "more", Note("x"))
    store.note(key, "0", Note("instead"))
    assert len(read_export_metadata(store.export(key)).notes) == MOST_NOTES


def test_notes_that_cannot_be_written_leave_the_earlier_ones(store: Snapshots, key: str) -> None:
    store.note(key, "findings/1", Note("kept", "ana", NOW))
    with full_disk(10), pytest.raises(SnapshotError):
        store.note(key, "findings/1", Note("lost", "bob", NOW))

    assert store.get(key).notes == {"findings/1": Note("kept", "ana", NOW)}


def test_a_note_is_kept_changed_and_taken_away_and_the_others_stay(store: Snapshots, key: str) -> None:
    store.note(key, "a", Note("one", "ana", NOW))
    store.note(key, "b", Note(HOSTILE))
    store.note(key, "a", Note("two", "bob", NOW))

    assert Snapshots(store.folder).get(key).notes == {"a": Note("two", "bob", NOW), "b": Note(HOSTILE)}
    store.note(key, "a", None)
    assert set(store.get(key).notes) == {"b"}


def test_notes_written_at_once_are_all_kept(store: Snapshots, key: str) -> None:
    """People type in one meeting: no thread overwrites what another one has just kept."""
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
