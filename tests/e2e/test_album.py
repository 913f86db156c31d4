"""Committed screenshots are compared, updated and reported; each belongs to a state."""

import io
from pathlib import Path

import pytest
from PIL import Image

from tests.e2e import album
from tests.e2e.pictures import packed
from tests.e2e.states import PICTURES, STATES

SIZE = (64, 48)


def png(colour: str) -> bytes:
    """A picture in one colour."""
    data = io.BytesIO()
    Image.new("RGB", SIZE, colour).save(data, "PNG")
    return data.getvalue()


def webp(colour: str) -> bytes:
    """The same picture as it is committed."""
    return packed(png(colour))


@pytest.fixture(autouse=True)
def _no_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(album.UPDATE, raising=False)


def test_every_committed_picture_is_that_of_a_state() -> None:
    """`make screenshots` removes the others."""
    assert album.orphans([*PICTURES]) == []


def test_no_two_states_have_one_picture() -> None:
    assert len(PICTURES) == sum(len(state.looks) for state in STATES)


def test_a_changed_picture_and_a_new_one_are_reported(tmp_path: Path) -> None:
    (tmp_path / "page.webp").write_bytes(webp("white"))

    assert album.compare("page", png("white"), tmp_path) is None
    assert album.compare("page", png("#fdfdfd"), tmp_path) is None
    changed, new = album.compare("page", png("black"), tmp_path), album.compare("other", png("black"), tmp_path)
    assert changed is not None
    assert new is not None
    assert (changed.kind, new.kind) == ("changed", "new")
    assert (tmp_path / "page.webp").read_bytes() == webp("white")


def test_an_update_writes_what_is_seen_to_differ_and_leaves_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invisible change of shade is no change."""
    monkeypatch.setenv(album.UPDATE, "1")
    (tmp_path / "same.webp").write_bytes(webp("white"))
    (tmp_path / "page.webp").write_bytes(webp("white"))

    taken = {"same": png("#fdfdfd"), "page": png("black"), "other": png("red")}
    assert [album.compare(name, data, tmp_path) for name, data in taken.items()] == [None] * 3
    assert album.held(tmp_path) == {"same": webp("white"), "page": webp("black"), "other": webp("red")}
