"""Committed screenshots are compared, updated and reported; each belongs to a state."""

import io
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from tests.e2e import album
from tests.e2e.pictures import packed
from tests.e2e.states import STATES

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
    assert album.orphans([name for state in STATES for name in state.pictures]) == []


def test_no_two_states_have_one_picture() -> None:
    names = [name for state in STATES for name in state.pictures]
    assert sorted(set(names)) == sorted(names)


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


def test_an_update_is_compared_with_the_last_commit(tmp_path: Path) -> None:
    """A second update reports the same changes. Without git, the former files are compared."""
    (tmp_path / "page.webp").write_bytes(webp("white"))
    assert album.committed(tmp_path) == {"page": webp("white")}
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    for arguments in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "--message=pictures"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    (tmp_path / "page.webp").write_bytes(webp("black"))
    (tmp_path / "other.webp").write_bytes(webp("red"))

    assert album.committed(tmp_path) == {"page": webp("white")}


def test_files_that_are_the_picture_of_no_state_are_orphans(tmp_path: Path) -> None:
    for name in ("overview-light.webp", "gone-light.webp", "notes.txt"):
        (tmp_path / name).touch()

    assert [file.name for file in album.orphans(["overview-light"], tmp_path)] == ["gone-light.webp", "notes.txt"]


def test_the_report_shows_what_changed_and_counts_it(tmp_path: Path) -> None:
    """Its pictures are files next to it, and the last report is removed."""
    album.write_report([album.Change("stale", "old", None, png("red"))], tmp_path)
    changes = [
        album.Change("page", "2 < 3 pixels changed", png("white"), png("black")),
        album.Change("other", album.GONE, png("white"), None),
    ]
    report = album.write_report(changes, tmp_path)

    text = report.read_text()
    assert "1 changed, 0 new, 1 removed" in text
    assert "2 &lt; 3 pixels" in text
    assert [file.name for file in sorted((tmp_path / album.PICTURES).iterdir())] == ["other.png", "page.png"]
    assert all(f'src="screenshots/{change.name}.png"' in text for change in changes)


def test_a_report_without_changes_says_so(tmp_path: Path) -> None:
    assert "No picture changed." in album.write_report([], tmp_path).read_text()
