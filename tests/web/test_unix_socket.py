"""The unix socket of `serve --socket`: which paths can be bound, and who may connect."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dashboard.web import launch


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def test_its_owner_and_group_may_connect_and_it_is_deleted_afterwards(tmp_path: Path) -> None:
    place, mask = tmp_path / "fleet.sock", os.umask(0)
    os.umask(mask)
    listen(place).close()  # left by a server that was killed
    assert launch.socket_mistake(place) == ""
    with launch._listening(place) as sockets:
        assert sockets is not None
        assert stat.S_IMODE(place.stat().st_mode) == 0o660
        assert os.umask(mask) == mask
        sockets[0].close()

    assert not place.exists()


def in_use(path: Path) -> socket.socket:
    return listen(path)


def is_file(path: Path) -> None:
    path.write_text("mine")


@pytest.mark.parametrize(
    ("name", "make", "sentence"),
    [
        ("fleet.sock", in_use, "is in use; choose another path."),
        ("fleet.sock", is_file, "exists and is no socket; choose another path."),
        ("fleet.sock", Path.mkdir, "exists and is no socket; choose another path."),
        ("missing/fleet.sock", lambda path: path, "no folder"),
        ("s" * 108, lambda path: path, "AF_UNIX path too long."),
    ],
)
def test_a_path_that_cannot_be_bound_is_refused_and_stays(
    tmp_path: Path, name: str, make: Callable[[Path], object], sentence: str
) -> None:
    place = tmp_path / name
    made = make(place)
    mistake = launch.socket_mistake(place)

    assert mistake.startswith(str(place))
    assert sentence in mistake
    assert place.exists() == (make in {in_use, is_file, Path.mkdir})
    if isinstance(made, socket.socket):
        made.close()
