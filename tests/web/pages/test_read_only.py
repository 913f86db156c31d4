"""With `read_only: true` nobody changes a snapshot: the pages offer nothing, and the store refuses."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dashboard import service
from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.store import Snapshots
from dashboard.store.snapshots import READ_ONLY
from tests import builders
from tests.builders import NOW
from tests.page_runner import html
from tests.snapshot_pages import EVERY_PAGE, freeze, visit

CHANGES: dict[str, Callable[[Snapshots, str], object]] = {
    "freeze": lambda store, _: store.freeze(builders.story(), "x", NOW),
    "rename": lambda store, key: store.rename(key, "x"),
    "note": lambda store, key: store.note(key, "fine", Note("x")),
    "delete": lambda store, key: store.delete(key),
}


@pytest.fixture
def key(tmp_path: Path) -> str:
    """The id of a snapshot with a note, in a folder that may only be read from now on."""
    service.put(builders.story(), NOW, tmp_path)
    frozen = freeze(builders.story(), "Monday")
    service.snapshots().note(frozen, "fine", Note("agreed on it", "ann"))
    service.put(builders.story(), NOW, tmp_path, read_only=True)
    return frozen


@pytest.mark.parametrize("change", CHANGES)
def test_the_store_refuses(key: str, change: str) -> None:
    before = service.snapshots().get(key)
    with pytest.raises(SnapshotError) as refused:
        CHANGES[change](service.snapshots(), key)

    assert str(refused.value) == READ_ONLY
    assert service.snapshots().all() == (before,)


def test_the_option_reaches_the_store(tmp_path: Path) -> None:
    from dashboard.config import Options

    service.start(Options(read_only=True, snapshots_folder=tmp_path))
    try:
        assert service.snapshots().read_only
    finally:
        service.stop()


@pytest.mark.parametrize("page", EVERY_PAGE)
@pytest.mark.parametrize("is_frozen", [False, True])
def test_no_page_offers_a_change(page: str, key: str, *, is_frozen: bool) -> None:
    app = visit(page, manage=key, **({"snapshot": key} if is_frozen else {}))

    assert {"freeze", "freeze_review", "rename", "delete", "import"} & {each.key for each in app.button} == set()
    assert [each.key for each in app.button if "Freeze" in each.label] == []
    assert app.text_area.values == []
    assert len(app.file_uploader) == 0


def test_what_there_is_can_be_read_and_exported(key: str) -> None:
    dialog = visit("snapshots", manage=key)
    review = html(visit("review", snapshot=key))

    assert [each.key for each in dialog.get("download_button")] == ["download"]
    assert "agreed on it" in review
    assert "ann" in review
    assert READ_ONLY in review
