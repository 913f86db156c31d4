"""A file is written whole or not at all."""

import os
from pathlib import Path

import pytest

from dashboard.store.writing import write_whole


def test_a_new_file_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    """Reports and snapshots name hosts, models and paths."""
    file = tmp_path / "a.json"
    before = os.umask(0)
    try:
        write_whole(file, b"x")
    finally:
        os.umask(before)

    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("mode", "after"), [(None, 0o640), (0o600, 0o600)])
def test_a_file_that_is_replaced_keeps_its_mode_unless_another_is_wanted(
    tmp_path: Path, mode: int | None, after: int
) -> None:
    """A report that somebody opened to a web server with chmod stays open to it."""
    file = tmp_path / "a.json"
    file.write_bytes(b"old")
    file.chmod(0o640)
    write_whole(file, b"new", mode)

    assert file.stat().st_mode & 0o777 == after


def test_the_disk_has_the_content_before_the_name_and_then_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power failure can leave an empty file under the name of a whole one."""
    synced: list[tuple[str, bool]] = []
    file, sync = tmp_path / "a.json", os.fsync

    def recording(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().suffix, file.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    write_whole(file, b"x")

    assert synced == [(".part", False), (tmp_path.suffix, True)]


def test_what_is_no_plain_file_stays_what_it_is(tmp_path: Path) -> None:
    """Else a device or a pipe would be replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, b"x")
        assert os.read(reader, 9) == b"x"
    finally:
        os.close(reader)
    assert list(tmp_path.iterdir()) == [pipe]
    assert pipe.is_fifo()


def test_where_it_cannot_be_written_nothing_is_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / "a.json"
    (folder / "b").mkdir(parents=True)

    with pytest.raises(OSError, match=r"a\.json"):
        write_whole(folder, b"x")
    assert list(tmp_path.iterdir()) == [folder]
