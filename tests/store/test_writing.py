"""A file is written whole or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dashboard.store.writing import write_whole

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_written_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_whole(file, b"old")
    write_whole(file, b"new")

    assert file.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [file]


def test_others_may_read_it_as_far_as_the_umask_says(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    before = os.umask(0o022)
    try:
        write_whole(file, b"x")
    finally:
        os.umask(before)

    assert file.stat().st_mode & 0o777 == 0o644


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


def test_a_link_stays_and_leads_to_what_was_written(tmp_path: Path) -> None:
    file, link = tmp_path / "a.json", tmp_path / "latest"
    file.write_bytes(b"old")
    link.symlink_to(file)
    write_whole(link, b"new")

    assert link.is_symlink()
    assert file.read_bytes() == b"new"


def test_where_it_cannot_be_written_nothing_is_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / "a.json"
    (folder / "b").mkdir(parents=True)

    with pytest.raises(OSError, match=r"a\.json"):
        write_whole(folder, b"x")
    assert list(tmp_path.iterdir()) == [folder]
