"""Snapshots in files are imported into the history; the files stay, and open before that, too."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dashboard.errors import HistoryError, SnapshotError
from dashboard.fleet import Note
from dashboard.store import Listed, Snapshots
from dashboard.store.history import file_import
from dashboard.store.history import pins as pins_module
from dashboard.store.history.database import Database
from dashboard.store.history.file_import import FileImport
from dashboard.store.packing import content_of
from tests.builders import NOW
from tests.saved_fleets import built_of_captures
from tests.serving import wait_for
from tests.store.folders import a_fleet
from tests.store.history.pinned import assert_same, assert_same_fleet
from tests.store.history.recorded import Recorded


def bytes_of(files: Snapshots) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in files.folder.glob("*.*") if each.suffix in {".gz", ".json"}}


def test_a_snapshot_shows_the_same_before_the_import_after_it_and_as_a_file(pins: Snapshots, files: Snapshots) -> None:
    before = bytes_of(files)
    for _ in range(2):
        assert pins.listed() == files.listed()
        for stored in files.all():
            assert_same(pins, files, stored.id)
            assert pins.named(stored.id[:6]) == stored.id
        assert set(pins.import_files()) <= {""}
    assert bytes_of(files) == before

    listed = files.listed()
    for each in files.folder.glob("*.json*"):
        each.unlink()
    assert pins.listed() == listed


def test_an_import_goes_on_where_it_ended_and_changes_nothing_twice(pins: Snapshots, files: Snapshots) -> None:
    import_files = pins.import_files()
    assert next(import_files) == ""
    import_files.close()  # type: ignore[attr-defined]
    first, second = sorted(each.id for each in files.all())
    pins.rename(first, "renamed")

    assert list(pins.import_files()) == [""]
    assert list(pins.import_files()) == []
    assert pins.get(first).metadata.name == "renamed"
    assert pins.get(second) == files.get(second)


def test_a_broken_file_is_reported_and_left(pins: Snapshots, files: Snapshots) -> None:
    broken, whole = (each.id for each in files.all())
    file = files.folder / f"{broken}.json.gz"
    file.write_bytes(damaged := file.read_bytes()[:-200])
    (files.folder / f"{broken}.notes.json").unlink()
    odd = files.freeze(a_fleet(), "odd notes", NOW).id
    (files.folder / f"{odd}.notes.json").write_text("{")

    problems = [each for each in pins.import_files() if each]

    assert sorted(problems) == sorted(pins.listed().damaged) == sorted(files.listed().damaged)
    assert f"Snapshot {broken} is damaged. " in " ".join(problems)
    assert f"The name and notes of snapshot {odd} cannot be read: " in " ".join(problems)
    assert file.read_bytes() == damaged
    assert pins.get(whole) == files.get(whole)

    assert pins.freeze(a_fleet(), "again", NOW).problem == files.get(odd).problem
    with pytest.raises(SnapshotError, match=f"The name and notes of snapshot {odd} cannot be read"):
        pins.rename(odd, "x")
    pins.delete(odd)
    assert odd not in {each.id for each in pins.all()}


def test_freezing_again_repairs_what_a_broken_file_had(pins: Snapshots, files: Snapshots) -> None:
    fleet = built_of_captures()
    key = files.freeze(fleet, "captures", NOW).id
    (files.folder / f"{key}.json.gz").write_bytes(b"damaged")

    stored = pins.freeze(fleet, "again", NOW)

    assert (stored.id, stored.metadata.name) == (key, "captures")
    assert content_of(pins.fleet(key)) == content_of(fleet)


def test_a_snapshot_without_notes_file_is_described_by_its_fleet(pins: Snapshots, files: Snapshots) -> None:
    for each in files.folder.glob("*.notes.json"):
        each.unlink()
    listed = files.listed()
    assert set(pins.import_files()) == {""}

    assert pins.listed() == listed
    key = listed.snapshots[0].id
    pins.note(key, "RT-01", Note("new"))
    assert pins.get(key).notes == {"RT-01": Note("new")}
    assert pins.get(key).metadata.targets == listed.snapshots[0].metadata.targets


def test_changing_a_file_imports_it_first_and_leaves_it(pins: Snapshots, files: Snapshots) -> None:
    renamed, noted = (each.id for each in files.all())
    before = bytes_of(files)
    pins.rename(renamed, "renamed")
    pins.note(noted, "RT-02", Note("seen", "bob"))

    metadata = files.get(renamed).metadata
    assert pins.get(renamed).metadata == metadata.model_copy(update={"name": "renamed"})
    assert pins.get(noted).notes == {**files.get(noted).notes, "RT-02": Note("seen", "bob")}
    assert bytes_of(files) == before
    for key in (renamed, noted):
        assert_same_fleet(pins, files, key)


@pytest.mark.parametrize("is_imported", [False, True])
def test_a_deleted_snapshot_does_not_come_back_from_its_file(
    pins: Snapshots,
    files: Snapshots,
    is_imported: bool,  # noqa: FBT001
) -> None:
    import_files = pins.import_files()
    assert next(import_files) == ""
    if is_imported:
        assert next(import_files) == ""
    before = bytes_of(files)
    key = sorted(each.id for each in files.all())[1]
    pins.delete(key)

    assert set(import_files) <= {""}
    assert set(pins.import_files()) == set()
    assert key not in {each.id for each in pins.all()}
    with pytest.raises(SnapshotError, match=f"There is no snapshot “{key}” here; it may have been deleted"):
        pins.fleet(key)
    assert bytes_of(files) == before

    again = pins.freeze(files.fleet(key), "frozen again", NOW)
    assert (again.id, again.metadata.name, again.notes) == (key, "frozen again", {})


def test_a_snapshot_with_a_short_id_keeps_it(pins: Snapshots, files: Snapshots) -> None:
    key = files.freeze(a_fleet(), "before", NOW).id
    for kind in (".json.gz", ".notes.json"):
        (files.folder / f"{key}{kind}").rename(files.folder / f"{key[:10]}{kind}")
    assert set(pins.import_files()) == {""}

    for each in files.folder.glob("*.json*"):
        each.unlink()
    assert pins.freeze(a_fleet(), "again", NOW).id == key[:10]
    assert pins.get(key[:10]).metadata.name == "before"


def test_read_only_snapshots_are_neither_changed_nor_imported(
    history: Recorded, pins: Snapshots, files: Snapshots
) -> None:
    reading = Snapshots(files.folder, read_only=True, history=lambda: history.database)
    key = files.all()[0].id
    changes: list[Callable[[], object]] = [
        lambda: reading.rename(key, "x"),
        lambda: reading.delete(key),
        lambda: reading.freeze(a_fleet(), "x", NOW),
    ]

    assert list(reading.import_files()) == []
    assert reading.listed() == files.listed()
    for change in changes:
        with pytest.raises(SnapshotError, match="Snapshots are read-only here"):
            change()
    assert set(pins.import_files()) == {""}
    assert reading.listed() == files.listed()


def test_before_the_first_poll_is_recorded_files_are_read_and_nothing_is_frozen(tmp_path: Path) -> None:
    files = Snapshots(tmp_path)
    key = files.freeze(a_fleet(), "x", NOW).id
    pins = Snapshots(tmp_path, history=lambda: Database(f"sqlite:///{tmp_path / 'history.db'}"))

    assert pins.listed() == files.listed()
    assert pins.answers(key, 0) == {}
    with pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. There is no history history\.db: a dash"):
        pins.freeze(built_of_captures(), "x", NOW)
    assert not (tmp_path / "history.db").exists()


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(file_import, name, 0.01)


@pytest.mark.usefixtures("fast")
def test_the_import_in_the_background_begins_when_there_is_a_history(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    files = Snapshots(tmp_path)
    keys = {files.freeze(a_fleet(), "x", NOW).id, files.freeze(built_of_captures(), "y", NOW).id}
    (files.folder / "0123456789.json.gz").write_bytes(b"damaged")
    history = Recorded(tmp_path)
    pins = Snapshots(tmp_path, history=lambda: history.database)
    importing = FileImport(pins.import_files)
    importing.start()
    wait_for(lambda: "There is no history history.db" in caplog.text)

    history.record(a_fleet())
    wait_for(lambda: "2 snapshots imported into the history" in caplog.text)
    importing.stop()

    assert history.rows("pin") == 2
    assert {each.id for each in pins.all()} == keys
    assert caplog.text.count("There is no history") == 1
    assert "its file stays as it is: The file of snapshot 0123456789 was changed after freezing" in caplog.text


@pytest.mark.usefixtures("fast")
def test_an_import_is_ended_between_two_snapshots_and_an_internal_error_ends_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[int] = []

    def endless() -> Iterator[str]:
        while True:
            asked.append(1)
            yield ""

    importing = FileImport(endless)
    importing.start()
    wait_for(lambda: bool(asked))
    importing.stop()
    number = len(asked)

    def broken() -> Iterator[str]:
        yield from ()
        raise ZeroDivisionError

    another = FileImport(broken)
    another.start()
    wait_for(lambda: "they open from their files" in caplog.text)
    another.stop()
    assert len(asked) == number


def test_a_server_that_is_gone_is_asked_once_for_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def gone() -> Database:
        asked.append(1)
        raise HistoryError("timeout expired")

    monkeypatch.setattr(pins_module, "SLOW_SECONDS", -1.0)  # every error comes late
    pins = Snapshots(tmp_path, history=gone)
    assert pins.listed() == pins.listed() == Listed((), ("Snapshots in the history cannot be read. timeout expired",))
    assert len(asked) == 1

    monkeypatch.setattr(pins_module, "GONE_SECONDS", 0.0)
    pins = Snapshots(tmp_path, history=gone)
    pins.listed()
    assert len(asked) > 2


def test_an_option_without_url_is_a_sentence(tmp_path: Path) -> None:
    def missing() -> Database:
        raise HistoryError("The variable FLEET_DB of history.url_env is not set.")

    pins = Snapshots(tmp_path, history=missing)
    with pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. The variable FLEET_DB of history"):
        pins.freeze(a_fleet(), "x", NOW)
    (problem,) = pins.listed().damaged
    assert problem == "Snapshots in the history cannot be read. The variable FLEET_DB of history.url_env is not set."
