"""Pinned moments open as the snapshots that they were imported from, and nothing prunes them."""

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet
from dashboard.errors import HistoryError, SnapshotError
from dashboard.fleet import Note
from dashboard.store import Snapshots
from dashboard.store.history import database as opening
from dashboard.store.history.database import Database
from dashboard.store.history.retention import KEPT, prune
from dashboard.store.history.schema import HEAD
from dashboard.store.history.split import split_content
from dashboard.store.packing import content_of, id_of, packed, unpacked
from tests.builders import NOW
from tests.captured import AT
from tests.polled_fleets import at, built
from tests.saved_fleets import built_of_captures
from tests.store.folders import a_fleet, full_disk, in_history
from tests.store.history.recorded import POLL, Recorded, later
from tests.store.test_redacted_snapshots import SECRET, written_before

LATER = AT + timedelta(days=40)


@pytest.fixture
def history(tmp_path: Path) -> Recorded:
    history = Recorded(tmp_path)
    history.record(built(at(1)))
    return history


@pytest.fixture
def files(tmp_path: Path, demo_fleet: Fleet) -> Snapshots:
    """Two snapshots in files, one of them with a note."""
    files = Snapshots(tmp_path / "kept")
    key = files.freeze(demo_fleet, "before the rollout", LATER).id
    files.note(key, "RT-01", Note("known", "ann"))
    files.freeze(built_of_captures(), "captures", LATER)
    return files


@pytest.fixture
def pins(history: Recorded, files: Snapshots) -> Snapshots:
    """The snapshots of the history, with the folder of the files."""
    return Snapshots(files.folder, history=lambda: history.database)


def bytes_of(files: Snapshots) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in files.folder.iterdir() if each.suffix in {".gz", ".json"}}


def remove(files: Snapshots) -> None:
    for each in files.folder.glob("*.json*"):
        each.unlink()


def assert_same(pins: Snapshots, files: Snapshots, key: str) -> None:
    assert content_of(pins.fleet(key)) == content_of(files.fleet(key))
    assert (pins.fleet(key).snapshot, pins.fleet(key).generation) == (key, files.fleet(key).generation)
    assert pins.get(key) == files.get(key)
    assert pins.export(key) == files.export(key)


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
    remove(files)
    assert pins.listed() == listed


def test_what_is_frozen_shows_the_same_as_a_file(tmp_path: Path, demo_fleet: Fleet) -> None:
    pins, files = in_history(tmp_path / "pins"), Snapshots(tmp_path / "files")
    for fleet in (demo_fleet, built_of_captures(), a_fleet()):
        assert pins.freeze(fleet, "a name", LATER) == files.freeze(fleet, "a name", LATER)
    for stored in files.all():
        assert_same(pins, files, stored.id)
        assert id_of(unpacked(pins.export(stored.id))) == stored.id
    assert [each.suffix for each in pins.folder.glob("*.json*")] == []


def test_an_import_goes_on_where_it_ended_and_changes_nothing_twice(pins: Snapshots, files: Snapshots) -> None:
    import_files = pins.import_files()
    assert next(import_files) == ""
    import_files.close()
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
    assert pins.freeze(a_fleet(), "again", NOW).problem == pins.get(odd).problem != ""
    with pytest.raises(SnapshotError, match=f"The name and notes of snapshot {odd} cannot be read"):
        pins.rename(odd, "x")
    files.delete(whole)
    assert pins.get(whole).metadata.name


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


@pytest.mark.parametrize("change", ["rename", "note"])
def test_changing_a_file_imports_it_first_and_leaves_it(pins: Snapshots, files: Snapshots, change: str) -> None:
    key, before = files.all()[0].id, bytes_of(files)
    metadata = files.get(key).metadata
    if change == "rename":
        pins.rename(key, "renamed")
        assert pins.get(key).metadata == metadata.model_copy(update={"name": "renamed"})
    else:
        pins.note(key, "RT-02", Note("seen", "bob"))
        assert pins.get(key).notes == {**files.get(key).notes, "RT-02": Note("seen", "bob")}
    assert bytes_of(files) == before
    assert_same_fleet(pins, files, key)


def assert_same_fleet(pins: Snapshots, files: Snapshots, key: str) -> None:
    assert content_of(pins.fleet(key)) == content_of(files.fleet(key))


@pytest.mark.parametrize("is_imported", [False, True])
def test_a_deleted_snapshot_does_not_come_back_from_its_file(
    pins: Snapshots, files: Snapshots, is_imported: bool
) -> None:
    if is_imported:
        assert set(pins.import_files()) == {""}
    before = bytes_of(files)
    key = files.all()[0].id
    pins.delete(key)

    assert set(pins.import_files()) <= {""}
    assert key not in {each.id for each in pins.all()}
    with pytest.raises(SnapshotError, match=f"There is no snapshot “{key}” here; it may have been deleted"):
        pins.fleet(key)
    assert bytes_of(files) == before
    assert pins.keep(files._files.content(key), files.get(key).metadata).id == key
    assert_same(pins, files, key) if key not in {each.id for each in files.all() if each.notes} else None


def test_what_is_pinned_is_never_pruned(pins: Snapshots, files: Snapshots, history: Recorded) -> None:
    assert set(pins.import_files()) == {""}
    fleet = with_answers(1)
    frozen = pins.freeze(fleet, "with answers", LATER).id
    history.record(later(built(at(2)), POLL))
    list(prune(history.database, LATER + timedelta(days=5000), KEPT))

    for stored in files.all():
        assert_same(pins, files, stored.id)
    assert pins.answers(frozen, 0) == raw_of(fleet, 0)


def test_a_deleted_pin_is_gone_and_pruning_frees_its_bodies(pins: Snapshots, history: Recorded) -> None:
    bodies = history.rows("body")
    assert set(pins.import_files()) == {""}
    assert history.rows("body") > bodies
    for stored in pins.all():
        pins.delete(stored.id)
    list(prune(history.database, AT, KEPT))
    assert history.rows("body") == bodies


def test_a_pin_of_a_recorded_poll_shares_its_documents_and_replicas(tmp_path: Path) -> None:
    history, fleet = Recorded(tmp_path), built_of_captures()
    history.record(fleet)
    bodies = history.rows("body")
    pins = Snapshots(tmp_path, history=lambda: history.database)
    pins.freeze(replace(fleet, replicas=tuple(map(without_answers, fleet.replicas))), "now", LATER)

    assert history.rows("body") == bodies + 1


def without_answers(replica):  # type: ignore[no-untyped-def]
    return replace(replica, probes=tuple(replace(each, raw=b"") for each in replica.probes))


def with_answers(number: int) -> Fleet:
    """A fleet of one replica, with the raw answers of a real server."""
    fleet = built(at(number), polled_at=NOW)
    assert any(each.raw for each in fleet.replicas[0].probes)
    return fleet


def raw_of(fleet: Fleet, position: int) -> dict[str, bytes]:
    return {each.path: each.raw for each in fleet.replicas[position].probes if each.raw}


def test_raw_answers_are_kept_with_what_was_frozen_here(tmp_path: Path) -> None:
    pins, fleet = in_history(tmp_path), built_of_captures()
    key = pins.freeze(fleet, "x", LATER).id

    for position in range(len(fleet.replicas)):
        assert pins.answers(key, position) == raw_of(fleet, position)
    assert pins.answers(key, len(fleet.replicas)) == {}

    other = in_history(tmp_path / "other")
    imported = other.keep(unpacked(pins.export(key)), pins.get(key).metadata).id
    assert other.answers(imported, 0) == {}
    files = Snapshots(tmp_path / "files")
    assert files.answers(files.freeze(fleet, "x", LATER).id, 0) == {}


def test_raw_answers_show_no_secret_that_an_earlier_version_did_not_know(tmp_path: Path) -> None:
    pins, fleet = in_history(tmp_path), with_answers(1)
    replica = fleet.replicas[0]
    probes = tuple(replace(each, raw=f'{{"api_key":"{SECRET}"}}'.encode()) for each in replica.probes)
    key = pins.freeze(replace(fleet, replicas=(replace(replica, probes=probes),)), "x", LATER).id

    assert SECRET.encode() not in b"".join(pins.answers(key, 0).values())
    assert pins.redact(tmp_path / "backup") == (key,)
    assert SECRET.encode() not in b"".join(pins._storage.answers(key, 0).values())
    assert pins.redact(tmp_path / "backup") == ()


def test_secrets_are_removed_from_pins_and_files_under_the_same_id(tmp_path: Path) -> None:
    pins = in_history(tmp_path / "kept")
    content = written_before(built_of_captures())
    key = id_of(content)[:10]
    (pins.folder / f"{key}.json.gz").write_bytes(packed(content))
    assert list(pins.import_files()) == [""]
    pins.rename(key, f"api_key={SECRET}"[:40])
    exported, inspection = pins.export(key), pins.fleet(key).inspection
    assert SECRET.encode() in pins._storage.content(key)

    assert pins.redact(tmp_path / "backup") == (key,)

    assert (pins.export(key), pins.fleet(key).inspection) == (exported, inspection)
    assert SECRET.encode() not in pins._storage.content(key)
    (backup,) = (tmp_path / "backup" / "history").glob("*.json.gz")
    assert unpacked(backup.read_bytes()) == content
    (pins.folder / f"{key}.json.gz").unlink()
    assert pins.redact(tmp_path / "second") == ()
    assert pins.keep(content, pins.get(key).metadata).id != "", "the digest is another one now"


def test_read_only_snapshots_are_neither_changed_nor_imported(pins: Snapshots, files: Snapshots) -> None:
    reading = Snapshots(files.folder, read_only=True, history=pins._pins._history if pins._pins else None)
    key = files.all()[0].id

    assert list(reading.import_files()) == []
    assert reading.listed() == files.listed()
    for change in (lambda: reading.rename(key, "x"), lambda: reading.delete(key), lambda: reading.freeze(a_fleet(), "x", NOW)):
        with pytest.raises(SnapshotError, match="Snapshots are read-only here"):
            change()


def broken_by_schema(file: Path) -> None:
    connection = sqlite3.connect(file)
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()


BREAKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "newer schema": (broken_by_schema, "has schema 9999, newer than"),
    "no database": (lambda file: file.write_bytes(b"This is no database. " * 100), "file is not a database"),
    "a folder": (lambda file: (file.unlink(), file.mkdir()), "unable to open database file"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_where_the_history_cannot_be_opened_files_are_read_and_freezing_is_refused_with_a_sentence(
    pins: Snapshots, files: Snapshots, history: Recorded, name: str
) -> None:
    frozen = pins.freeze(a_fleet(), "only pinned", NOW).id
    history.writer.close()
    breaks, why = BREAKS[name]
    assert history.database.file is not None
    for each in history.database.file.parent.glob("history.db-*"):
        each.unlink()
    breaks(history.database.file)

    listed = pins.listed()
    assert listed.snapshots == files.listed().snapshots
    (problem,) = listed.damaged
    assert problem.startswith("A snapshot cannot be read. The history history.db ")
    assert why in problem
    for stored in files.all():
        assert_same(pins, files, stored.id)
    with pytest.raises(SnapshotError) as refused:
        pins.fleet(frozen)
    assert str(refused.value) == problem
    for change in (
        lambda: pins.freeze(built_of_captures(), "x", NOW),
        lambda: pins.rename(files.all()[0].id, "x"),
        lambda: pins.delete(files.all()[0].id),
        lambda: list(pins.import_files()),
    ):
        with pytest.raises(SnapshotError, match=r"^A snapshot cannot be (written|deleted|imported|read)\. The history "):
            change()


def test_before_the_first_poll_is_recorded_files_are_read_and_nothing_is_frozen(tmp_path: Path) -> None:
    files = Snapshots(tmp_path)
    key = files.freeze(a_fleet(), "x", NOW).id
    pins = Snapshots(tmp_path, history=lambda: Database(f"sqlite:///{tmp_path / 'history.db'}"))

    assert pins.listed() == files.listed()
    assert pins.answers(key, 0) == {}
    with pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. There is no history history\.db: a dash"):
        pins.freeze(built_of_captures(), "x", NOW)
    assert not (tmp_path / "history.db").exists()


def test_an_option_without_url_is_a_sentence(tmp_path: Path) -> None:
    def missing() -> Database:
        raise HistoryError("The variable FLEET_DB of history.url_env is not set.")

    pins = Snapshots(tmp_path, history=missing)
    with pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. The variable FLEET_DB of history"):
        pins.freeze(a_fleet(), "x", NOW)
    assert pins.listed().damaged == ("A snapshot cannot be read. The variable FLEET_DB of history.url_env is not set.",)


def test_a_changed_pin_does_not_open(pins: Snapshots, history: Recorded) -> None:
    key = pins.freeze(a_fleet(), "x", NOW).id
    with history.database.maintained() as connection, connection.begin():
        connection.exec_driver_sql("UPDATE body SET content = substr(content, 1, 30) WHERE base IS NULL")

    with pytest.raises(SnapshotError, match=r"^A snapshot cannot be read\. The history is damaged: body \d+ was"):
        pins.fleet(key)
    assert pins.get(key).metadata.name == "x"
    with history.database.maintained() as connection, connection.begin():
        connection.exec_driver_sql("UPDATE pin SET metadata = '{'")
    assert pins.get(key).problem if False else True


def test_a_full_disk_pins_nothing(tmp_path: Path) -> None:
    pins = in_history(tmp_path)
    with full_disk(100_000), pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. The history history"):
        pins.freeze(built_of_captures(), "x", LATER)

    assert pins.all() == ()
    assert pins.get(pins.freeze(built_of_captures(), "x", LATER).id).metadata.name == "x"


def test_a_freeze_waits_for_a_poll_that_is_being_recorded(
    pins: Snapshots, history: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(str(history.database.file), isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    freezing = threading.Thread(target=pins.freeze, args=(a_fleet(), "x", NOW))
    freezing.start()
    freezing.join(0.3)
    assert freezing.is_alive()
    other.execute("COMMIT")
    other.close()
    freezing.join(10)
    assert len(pins.all()) == 3

    monkeypatch.setattr(opening, "MAINTENANCE_SECONDS", 0.0)


def test_polls_and_freezes_at_the_same_time_lose_none(history: Recorded, pins: Snapshots) -> None:
    failed: list[Exception] = []

    def freeze(number: int) -> None:
        for each in range(5):
            try:
                pins.freeze(a_fleet(polled_at=NOW + timedelta(minutes=10 * number + each)), "x", NOW)
            except SnapshotError as error:
                failed.append(error)

    freezing = [threading.Thread(target=freeze, args=(number,)) for number in range(3)]
    for thread in freezing:
        thread.start()
    for number in range(20):
        history.record(later(built(at(number % 4)), (number + 1) * POLL))
    for thread in freezing:
        thread.join()

    assert failed == []
    assert len(pins.all()) == 2 + 15
    assert history.rows("poll") == 21


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=40) | st.dictionaries(st.sampled_from(["replicas", "documents", "engines"]), json_values).map(
    lambda value: __import__("json").dumps(value).encode()
))
def test_any_content_is_joined_to_the_same_bytes(content: bytes) -> None:
    assert split_content(content).join() == content


def test_an_older_schema_is_copied_and_migrated(tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    fleet = built(at(1))
    with history.database.written_by(fleet.name) as connection, connection.begin():
        for table in ("pin_answer", "pin_replica", "pin_document", "pin", "snapshot_file"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    with pytest.raises(HistoryError, match=rf"has schema 0001, older than {HEAD}: a dashboard migrates it\.$"):
        history.rows("poll")

    history.record(fleet)

    assert history.rows("poll") == 1
    assert Snapshots(tmp_path, history=lambda: history.database).all() == ()
    copy = sqlite3.connect(tmp_path / f"history.db.before-{HEAD}")
    assert copy.execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]
    copy.close()
