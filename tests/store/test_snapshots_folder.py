"""A folder of snapshots is found, changed and damaged by people and programs: nothing of that is a traceback."""

import gzip
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.errors import SnapshotError
from dashboard.store import Snapshots
from dashboard.store.notes_file import LONGEST_NAME
from dashboard.store.writing import LOCK
from tests.builders import HOSTILE, NOW
from tests.store.folders import a_fleet, full_disk


def test_the_newest_data_is_listed_first(store: Snapshots) -> None:
    for days in (2, 0, 1):
        store.freeze(a_fleet(polled_at=NOW - timedelta(days=days)), f"{days} days ago", NOW)

    assert [each.metadata.name for each in store.all()] == ["0 days ago", "1 days ago", "2 days ago"]


@pytest.mark.parametrize("spoken", ["{}", " {} ", "{:.4}", "{:.9}", "{:.10}", "{:.31}"])
def test_an_id_is_found_as_people_type_it(store: Snapshots, key: str, spoken: str) -> None:
    assert store.beginning(spoken.format(key)) == (key,)
    assert store.beginning(spoken.format(key).upper()) == (key,)
    assert store.beginning("-".join((key[:5], key[5:]))) == (key,)
    assert store.beginning(" ".join(key)) == (key,)


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

    with pytest.raises(SnapshotError, match="was changed after freezing"):
        store.fleet(key)
    with pytest.raises(SnapshotError, match="was changed after freezing"):
        store.export(key)


def test_a_file_cut_short_says_so_and_freezing_again_mends_it(store: Snapshots, key: str) -> None:
    file = store.folder / f"{key}.json.gz"
    file.write_bytes(file.read_bytes()[:-20])

    with pytest.raises(SnapshotError, match="is cut off"):
        store.fleet(key)
    store.freeze(store_fleet := a_fleet(), "again", NOW)
    assert store.fleet(key).inspection == store_fleet.inspection


def test_a_bomb_is_not_unpacked_whole(store: Snapshots, key: str) -> None:
    """A file of half a megabyte that would be 512 MiB: reading ends at the limit."""
    (store.folder / "0123456789.json.gz").write_bytes(gzip.compress(bytes(2**29), 9))
    (store.folder / "0123456789.notes.json").write_bytes((store.folder / f"{key}.notes.json").read_bytes())

    with pytest.raises(SnapshotError):
        store.fleet("0123456789")


def test_a_snapshot_that_somebody_deleted_says_so_in_each_way(store: Snapshots, key: str) -> None:
    store.delete(key)

    assert store.all() == ()
    assert [each.name for each in store.folder.iterdir()] == [LOCK]
    for ask in (store.get, store.fleet, store.export, store.delete, lambda gone: store.rename(gone, "x")):
        with pytest.raises(SnapshotError, match=f"no snapshot “{key}”"):
            ask(key)


def test_a_name_may_be_anything_and_becomes_one_line(store: Snapshots, key: str) -> None:
    store.rename(key, HOSTILE * 20)
    name = store.get(key).metadata.name

    assert len(name) == LONGEST_NAME
    assert name.isprintable()


def test_an_id_that_is_a_path_reaches_no_file(store: Snapshots, tmp_path: Path) -> None:
    (tmp_path / "secret.json.gz").write_bytes(b"{}")

    for name in ("../secret", "/etc/passwd", "a" * 10_000, "\0"):
        with pytest.raises(SnapshotError, match="There is no snapshot"):
            store.fleet(name)


def test_a_full_disk_leaves_neither_half_a_snapshot_nor_a_traceback(store: Snapshots) -> None:
    with full_disk(200), pytest.raises(SnapshotError, match=r"cannot be written in .*snapshots_folder"):
        store.freeze(a_fleet(), "x", NOW)

    assert [each.name for each in store.folder.iterdir()] == [LOCK]
    assert store.all() == ()


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
    files = sorted(each.name for each in store.folder.iterdir())
    assert [file.partition(".")[2] for file in files] == ["lock", "json.gz", "notes.json"]
