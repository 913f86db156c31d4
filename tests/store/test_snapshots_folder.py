"""A folder of snapshots is found, changed and damaged by people and programs: nothing of that is a traceback."""

from __future__ import annotations

import gzip
import json
import re
import resource
import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dashboard.errors import SnapshotError
from dashboard.models import Note
from dashboard.store import Snapshots
from dashboard.store.beside import LARGEST
from dashboard.store.sidecar import LONGEST_NAME, LONGEST_NOTE
from tests import builders
from tests.builders import HOSTILE, NOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dashboard.fleet import Fleet


def a_fleet(**more: Any) -> Fleet:
    told = builders.document()
    return builders.fleet([builders.replica(document=told), builders.down()], [told], **{"name": "prod", **more})


@pytest.fixture
def store(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path / "kept")


@pytest.fixture
def key(store: Snapshots) -> str:
    return store.freeze(a_fleet(), "the first", NOW).id


def test_a_folder_that_is_not_there_yet_holds_nothing(tmp_path: Path) -> None:
    store = Snapshots(tmp_path / "none")

    assert store.all() == ()
    assert store.beginning("0123456789") == ()
    assert not store.folder.exists()


def test_the_newest_data_is_listed_first(store: Snapshots) -> None:
    for days in (2, 0, 1):
        store.freeze(a_fleet(polled_at=NOW - timedelta(days=days)), f"{days} days ago", NOW)

    assert [each.beside.name for each in store.all()] == ["0 days ago", "1 days ago", "2 days ago"]


@pytest.mark.parametrize("spoken", ["{}", " {} ", "{:.4}", "{:.9}"])
def test_an_id_is_found_as_people_type_it(store: Snapshots, key: str, spoken: str) -> None:
    assert store.beginning(spoken.format(key)) == (key,)
    assert store.beginning(spoken.format(key).upper()) == (key,)
    assert store.beginning("-".join((key[:5], key[5:]))) == (key,)
    assert store.beginning(" ".join(key)) == (key,)


@pytest.mark.parametrize("typed", ["", "abc", "zzzz", "0" * 11, "../../etc/passwd", "*", "????", "[0-9]", "0000\n"])
def test_what_is_no_beginning_of_an_id_finds_nothing(store: Snapshots, key: str, typed: str) -> None:
    assert store.beginning(typed) == ()
    assert store.beginning(key) == (key,)


def test_a_beginning_that_several_share_finds_none_of_them(store: Snapshots, key: str) -> None:
    twin = key[:5] + ("0" if key[5] != "0" else "1") * 5
    (store.folder / f"{twin}.json.gz").write_bytes(b"")

    assert store.beginning(key[:5]) == tuple(sorted((key, twin)))
    assert store.beginning(key) == (key,)


def test_files_of_others_are_not_listed(store: Snapshots, key: str) -> None:
    for name in ("README", "x.json.gz", f"{key}.old.json.gz", ".0123456789.json.gz", f"{key}.json.gz.part"):
        (store.folder / name).write_bytes(b"not ours")

    assert [each.id for each in store.all()] == [key]
    assert store.listed().damaged == ()


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b"\x1f\x8bnonsense", b"{}", b"[" * 100_000, b"\xff\xfe"])
def test_a_damaged_file_is_told_and_hides_no_other(store: Snapshots, key: str, content: bytes) -> None:
    (store.folder / "0123456789.json.gz").write_bytes(content)

    listed = store.listed()

    assert [each.id for each in listed.snapshots] == [key]
    assert len(listed.damaged) == 1
    assert "0123456789" in listed.damaged[0]


def test_a_file_that_was_changed_after_freezing_does_not_open(store: Snapshots, key: str) -> None:
    """The id promises what was seen: a number that somebody mended by hand is not that."""
    file = store.folder / f"{key}.json.gz"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()).replace(b'"block_size":16', b'"block_size":32')))

    with pytest.raises(SnapshotError, match="was changed after it was frozen"):
        store.fleet(key)
    with pytest.raises(SnapshotError, match="was changed after it was frozen"):
        store.export(key)


def test_a_file_cut_short_says_so_and_freezing_again_mends_it(store: Snapshots, key: str) -> None:
    file = store.folder / f"{key}.json.gz"
    file.write_bytes(file.read_bytes()[:-20])

    with pytest.raises(SnapshotError, match="ends in the middle"):
        store.fleet(key)
    store.freeze(store_fleet := a_fleet(), "again", NOW)
    assert store.fleet(key).inspection == store_fleet.inspection


@pytest.mark.parametrize("note", [Note("x" * (LONGEST_NOTE + 1)), Note("x", "y" * (LONGEST_NAME + 1))])
def test_a_note_that_is_too_long_is_refused_with_what_to_do_and_the_rest_stays(
    store: Snapshots, key: str, note: Note
) -> None:
    store.note(key, "there", Note("before"))
    said = "The note is too long: it may have 4,000 characters, and its owner 80. Shorten it."

    with pytest.raises(SnapshotError, match=re.escape(said)):
        store.note(key, "new", note)
    with pytest.raises(SnapshotError, match=re.escape(said)):
        store.freeze(a_fleet(name="other"), "", NOW, {"new": note})
    assert store.get(key).notes == {"there": Note("before")}


def test_a_snapshot_that_came_without_its_notes_is_described_from_itself(store: Snapshots, key: str) -> None:
    """Somebody copied one file: all but the name is known, and it can be named."""
    before = store.get(key).beside
    (store.folder / f"{key}.notes.json").unlink()

    described = store.get(key).beside
    assert described.model_dump(exclude={"name", "frozen_at"}) == before.model_dump(exclude={"name", "frozen_at"})
    assert described.name == ""

    store.rename(key, "found again")
    assert store.get(key).beside.name == "found again"


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"", "is no complete JSON object"),
        (b"[]", "is no complete JSON object"),
        (b"\xff", "is no complete JSON object"),
        (b"[" * 100_000, "is no complete JSON object"),
        (b'{"name": 3}', "does not hold what is expected at name"),
        (b'{"schema_version": 2}', "does not hold what is expected at schema_version"),
        (b" " * (LARGEST + 1), "is larger than the 16 MiB that are read"),
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
        "mend it, or move it away, for nothing is written over it."
    )

    assert [(each.id, each.beside.fleet, each.notes, each.problem) for each in store.all()] == [(key, "prod", {}, said)]
    assert store.listed().damaged == (said,)
    with pytest.raises(SnapshotError, match=re.escape(said)):
        store.note(key, "a", Note("new"))
    with pytest.raises(SnapshotError, match=re.escape(said)):
        store.rename(key, "new")
    assert store.freeze(a_fleet(), "new", NOW).problem == said
    assert file.read_bytes() == content


def test_notes_that_cannot_be_opened_are_not_written_over(store: Snapshots, key: str) -> None:
    file = store.folder / f"{key}.notes.json"
    file.unlink()
    file.mkdir()

    assert "cannot be opened (Is a directory)" in store.get(key).problem
    with pytest.raises(SnapshotError, match="cannot be opened"):
        store.rename(key, "new")


def test_the_place_that_is_wrong_is_one_short_line_whatever_it_is_called(store: Snapshots, key: str) -> None:
    file = store.folder / f"{key}.notes.json"
    told = json.loads(file.read_bytes())
    file.write_text(json.dumps({**told, "notes": {HOSTILE * 100: 3}}))
    problem = store.get(key).problem

    assert "does not hold what is expected at notes." in problem
    assert len(problem) < 400
    assert problem.isprintable()


def test_notes_that_were_moved_away_can_be_written_again(store: Snapshots, key: str) -> None:
    (store.folder / f"{key}.notes.json").write_bytes(b"{")
    (store.folder / f"{key}.notes.json").rename(store.folder / "mine")
    store.note(key, "a", Note("new"))

    assert store.get(key).notes == {"a": Note("new")}


def test_a_note_more_than_is_read_again_is_refused_and_the_others_stay(store: Snapshots, key: str) -> None:
    """Written, it would be the last one: a larger file is not read."""
    file = store.folder / f"{key}.notes.json"
    note, told = Note("x" * LONGEST_NOTE), json.loads(file.read_bytes())
    notes = {f"{number:04}": {"text": note.text} for number in range(LARGEST // (LONGEST_NOTE + 100))}
    file.write_text(json.dumps({**told, "notes": notes}))
    for number in range(100):
        try:
            store.note(key, f"more {number}", note)
        except SnapshotError as error:
            refused = str(error)
            break

    assert refused == (
        f"The notes of snapshot {key} would take more than the 16 MiB that are read; "
        "shorten this one, or take others away."
    )
    assert file.stat().st_size <= LARGEST
    assert len(store.get(key).notes) == len(notes) + number
    store.note(key, "0000", None)
    store.note(key, "in its place", note)


def test_a_bomb_is_not_unpacked_whole(store: Snapshots, key: str) -> None:
    """A file of half a megabyte that would be 512 MiB: reading ends at the limit."""
    (store.folder / "0123456789.json.gz").write_bytes(gzip.compress(bytes(2**29), 9))
    (store.folder / "0123456789.notes.json").write_bytes((store.folder / f"{key}.notes.json").read_bytes())

    with pytest.raises(SnapshotError):
        store.fleet("0123456789")


def test_a_snapshot_that_somebody_deleted_says_so_in_each_way(store: Snapshots, key: str) -> None:
    store.delete(key)

    assert store.all() == ()
    assert list(store.folder.iterdir()) == []
    for ask in (store.get, store.fleet, store.export, store.delete, lambda gone: store.rename(gone, "x")):
        with pytest.raises(SnapshotError, match=f"no snapshot “{key}”"):
            ask(key)


def test_a_name_may_be_anything_and_becomes_one_line(store: Snapshots, key: str) -> None:
    store.rename(key, HOSTILE * 20)
    name = store.get(key).beside.name

    assert len(name) == LONGEST_NAME
    assert name.isprintable()


def test_an_id_that_is_a_path_reaches_no_file(store: Snapshots, tmp_path: Path) -> None:
    (tmp_path / "secret.json.gz").write_bytes(b"{}")

    for name in ("../secret", "/etc/passwd", "a" * 10_000, "\0"):
        with pytest.raises(SnapshotError, match="There is no snapshot"):
            store.fleet(name)


def test_a_folder_that_is_a_file_is_said_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "taken"
    file.write_text("")
    store = Snapshots(file)

    with pytest.raises(SnapshotError, match="snapshots_folder"):
        store.freeze(a_fleet(), "x", NOW)
    with pytest.raises(SnapshotError, match="snapshots_folder"):
        store.all()


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """A disk on which a file can have so many bytes; only for as long as pytest itself writes nothing."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_neither_half_a_snapshot_nor_a_traceback(store: Snapshots) -> None:
    with full_disk(200), pytest.raises(SnapshotError, match=r"cannot be written in .*snapshots_folder"):
        store.freeze(a_fleet(), "x", NOW)

    assert list(store.folder.iterdir()) == []
    assert store.all() == ()


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


def test_notes_do_not_change_what_was_frozen(store: Snapshots, key: str) -> None:
    before = (store.folder / f"{key}.json.gz").read_bytes()
    store.note(key, "a", Note("one"))
    store.rename(key, "other")

    assert (store.folder / f"{key}.json.gz").read_bytes() == before


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


def test_freezing_in_many_threads_gives_one_snapshot(store: Snapshots) -> None:
    fleet, found = a_fleet(), []
    threads = [
        threading.Thread(target=lambda: found.append(store.freeze(fleet, "x", NOW).id), daemon=True) for _ in range(6)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert len(set(found)) == 1
    assert len(found) == 6
    assert sorted(each.suffixes[-2:] for each in store.folder.iterdir()) == [[".json", ".gz"], [".notes", ".json"]]


def test_counts_beside_a_snapshot_are_read_as_they_were_written(store: Snapshots, key: str) -> None:
    told = json.loads((store.folder / f"{key}.notes.json").read_bytes())

    assert (told["answered"], told["targets"]) == (1, 2)
    assert store.get(key).beside.rule_set == told["rule_set"]
