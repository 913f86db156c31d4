"""A file is written whole or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.store import writing
from dashboard.store.writing import LOCK, locked, write_whole


def test_a_new_file_is_private_for_every_umask(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    before = os.umask(0)
    try:
        write_whole(file, b"x")
    finally:
        os.umask(before)

    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("mode", "after"), [(None, 0o640), (0o600, 0o600)])
def test_a_replaced_file_keeps_its_mode_unless_given(tmp_path: Path, mode: int | None, after: int) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"old")
    file.chmod(0o640)
    write_whole(file, b"new", mode)

    assert file.stat().st_mode & 0o777 == after


def test_content_is_synced_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power failure can leave an empty file."""
    synced: list[tuple[str, bool]] = []
    file, sync = tmp_path / "a.json", os.fsync

    def recording(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().suffix, file.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    write_whole(file, b"x")

    assert synced == [(".part", False), (tmp_path.suffix, True)]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
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


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "a.json"
    (folder / "b").mkdir(parents=True)

    with pytest.raises(OSError, match=r"a\.json"):
        write_whole(folder, b"x")
    assert list(tmp_path.iterdir()) == [folder]


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    holding = f"import fcntl, os; fd = os.open({str(tmp_path / LOCK)!r}, os.O_RDWR | os.O_CREAT); "
    holding += "fcntl.flock(fd, fcntl.LOCK_EX); print('held', flush=True); os.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-c", holding], check=False, capture_output=True, text=True)

    assert killed.stdout == "held\n"
    with locked(tmp_path):
        pass


def test_a_lock_that_is_never_released_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "LOCK_SECONDS", 0.0)
    with locked(tmp_path), pytest.raises(OSError, match="another process has locked it for more than 0 s"):  # noqa: SIM117
        with locked(tmp_path):
            pass
