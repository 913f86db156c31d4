"""The folder of snapshots: listed, changed, damaged."""

import gzip
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.errors import SnapshotError
from dashboard.store.metadata import LONGEST_NAME
from dashboard.store.snapshots import Snapshots
from dashboard.store.writing import LOCK
from tests.builders import HOSTILE, NOW
from tests.store.folders import a_fleet, full_disk


def test_the_newest_data_is_listed_first(any_store: Snapshots) -> None:
    for days in (2, 0, 1):
        any_store.freeze(a_fleet(polled_at=NOW - timedelta(days=days)), f"{days} days ago", NOW)

    assert [each.metadata.name for each in any_store.all()] == ["0 days ago", "1 days ago", "2 days ago"]


@pytest.mark.parametrize("typed", ["{}", " {} ", "{:.4}", "{:.9}", "{:.10}", "{:.31}"])
def test_a_typed_id_is_found(any_store: Snapshots, any_key: str, typed: str) -> None:
    assert any_store.beginning(typed.format(any_key)) == (any_key,)
    assert any_store.beginning(typed.format(any_key).upper()) == (any_key,)
    assert any_store.beginning("-".join((any_key[:5], any_key[5:]))) == (any_key,)
    assert any_store.beginning(" ".join(any_key)) == (any_key,)


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b"\x1f\x8bnonsense", b"{}", b"[" * 100_000, b"\xff\xfe"])
def test_a_damaged_file_is_listed_and_hides_no_other(store: Snapshots, key: str, content: bytes) -> None:
    (store.folder / "0123456789abcdef0123456789abcdef.json.gz").write_bytes(content)

    listed = store.listed()

    assert [each.id for each in listed.snapshots] == [key]
    assert len(listed.damaged) == 1
    assert "0123456789abcdef0123456789abcdef" in listed.damaged[0]


def test_a_changed_file_does_not_open(store: Snapshots, key: str) -> None:
    file = store.folder / f"{key}.json.gz"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()).replace(b'"block_size":16', b'"block_size":32')))

    with pytest.raises(SnapshotError, match="was changed after freezing"):
        store.fleet(key)
    with pytest.raises(SnapshotError, match="was changed after freezing"):
        store.export(key)


def test_freezing_again_repairs_a_cut_file(store: Snapshots, key: str) -> None:
    file = store.folder / f"{key}.json.gz"
    file.write_bytes(file.read_bytes()[:-20])

    with pytest.raises(SnapshotError, match="is cut off"):
        store.fleet(key)
    store.freeze(store_fleet := a_fleet(), "again", NOW)
    assert store.fleet(key).inspection == store_fleet.inspection


def test_a_bomb_is_not_unpacked(store: Snapshots, key: str) -> None:
    (store.folder / "0123456789abcdef0123456789abcdef.json.gz").write_bytes(gzip.compress(bytes(2**29), 9))
    (store.folder / "0123456789abcdef0123456789abcdef.notes.json").write_bytes(
        (store.folder / f"{key}.notes.json").read_bytes()
    )

    with pytest.raises(SnapshotError):
        store.fleet("0123456789abcdef0123456789abcdef")


def test_a_deleted_snapshot_is_missing_for_every_call(store: Snapshots, key: str) -> None:
    store.delete(key)

    assert store.all() == ()
    assert [each.name for each in store.folder.iterdir()] == [LOCK]
    for ask in (store.get, store.fleet, store.export, store.delete, lambda gone: store.rename(gone, "x")):
        with pytest.raises(SnapshotError, match=f"no snapshot “{key}”"):
            ask(key)


def test_any_name_becomes_one_line(any_store: Snapshots, any_key: str) -> None:
    any_store.rename(any_key, HOSTILE * 20)
    name = any_store.get(any_key).metadata.name

    assert len(name) == LONGEST_NAME
    assert name.isprintable()


def test_a_path_in_place_of_an_id_opens_no_file(any_store: Snapshots, tmp_path: Path) -> None:
    (tmp_path / "secret.json.gz").write_bytes(b"{}")

    for name in ("../secret", "/etc/passwd", "a" * 10_000, "\0"):
        with pytest.raises(SnapshotError, match="There is no snapshot"):
            any_store.fleet(name)


def test_a_full_disk_leaves_no_partial_snapshot(store: Snapshots) -> None:
    with full_disk(200), pytest.raises(SnapshotError, match=r"cannot be written in .*data_folder"):
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
