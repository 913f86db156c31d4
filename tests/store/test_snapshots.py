"""Snapshots in the database: listed, changed, damaged, next to a recorder and other writers."""

import gzip
import hashlib
import lzma
import sqlite3
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.config import HistoryOptions, Options
from dashboard.errors import HistoryError, SnapshotError
from dashboard.store import packing
from dashboard.store import snapshots as storing
from dashboard.store.history import database as opening
from dashboard.store.history.database import Database
from dashboard.store.history.retention import prune
from dashboard.store.opening import configured_snapshots
from dashboard.store.packing import LONGEST_NAME, SnapshotList, packed
from dashboard.store.snapshots import Snapshots
from tests.builders import HOSTILE, NOW
from tests.captured import AT
from tests.polled_fleets import at, built
from tests.saved_fleets import built_of_captures
from tests.store.folders import a_fleet, column, damage, execute, full_disk, raw_of
from tests.store.history.recorded import POLL, Recorded, later
from tests.store.test_redacted_snapshots import SECRET

OTHER = "0123456789abcdef0123456789abcdef"
CHANGED = "is damaged: its content was changed after saving. Delete it, or restore a copy."


@pytest.fixture
def history(store: Snapshots) -> Recorded:
    """One poll, recorded in the same database."""
    history = Recorded(store.folder)
    history.record(built(at(1), polled_at=AT))
    return history


def test_the_newest_data_is_listed_first(store: Snapshots) -> None:
    for days in (2, 0, 1):
        store.save(a_fleet(polled_at=NOW - timedelta(days=days)), f"{days} days ago", NOW)

    assert [each.metadata.name for each in store.all()] == ["0 days ago", "1 days ago", "2 days ago"]


@pytest.mark.parametrize("typed", ["{}", " {} ", "{:.4}", "{:.9}", "{:.10}", "{:.31}"])
def test_a_typed_id_is_found(store: Snapshots, key: str, typed: str) -> None:
    assert store.beginning(typed.format(key)) == (key,)
    assert store.beginning(typed.format(key).upper()) == (key,)
    assert store.beginning("-".join((key[:5], key[5:]))) == (key,)
    assert store.beginning(" ".join(key)) == (key,)


def test_any_name_becomes_one_line(store: Snapshots, key: str) -> None:
    store.rename(key, HOSTILE * 20)
    name = store.get(key).metadata.name

    assert len(name) == LONGEST_NAME
    assert name.isprintable()


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a" * 10_000, "\0", "%%%%", "____"])
def test_a_text_in_place_of_an_id_finds_nothing(store: Snapshots, name: str) -> None:
    with pytest.raises(SnapshotError, match="There is no snapshot"):
        store.fleet(name)
    assert store.beginning(name) == ()


def test_a_deleted_snapshot_is_missing_for_every_call(store: Snapshots, key: str) -> None:
    store.delete(key)

    assert store.all() == ()
    for ask in (store.get, store.fleet, store.export, store.delete, lambda gone: store.rename(gone, "x")):
        with pytest.raises(SnapshotError, match=f"no snapshot “{key}” here; it may have been deleted"):
            ask(key)


def test_before_the_first_snapshot_nothing_is_made(tmp_path: Path) -> None:
    store = Snapshots(tmp_path / "none")

    assert store.listed() == SnapshotList((), ())
    changes: list[Callable[[], object]] = [
        lambda: store.rename(OTHER, "a"),
        lambda: store.note(OTHER, "a", None),
        lambda: store.delete(OTHER),
    ]
    for change in changes:
        with pytest.raises(SnapshotError, match="There is no snapshot"):
            change()
    assert not store.folder.exists()


# Functions, because every process of a run of tests imports this file.
BLOBS: Mapping[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "nonsense": lambda: b"\x1f\x8bnonsense",
    "other JSON": lambda: packed(b"{}"),
    "too deep": lambda: packed(b"[" * 100_000),
    "a bomb": lambda: gzip.compress(bytes(2**28), 1),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("has_hash", [False, True])
@pytest.mark.parametrize("name", BLOBS)
def test_damaged_content_does_not_open_and_hides_no_other(
    store: Snapshots, key: str, name: str, *, has_hash: bool
) -> None:
    """Also where somebody wrote the matching hash; then it is unpacked, up to a limit."""
    blob = BLOBS[name]()
    cut = store.save(built_of_captures(), "x", NOW).id
    damage(store, cut, content=blob, **({"sha": hashlib.sha256(blob).digest()} if has_hash else {}))

    for ask in (store.fleet, store.export):
        with pytest.raises(SnapshotError) as refused:
            ask(cut)
        assert has_hash or str(refused.value) == f"Snapshot {cut} {CHANGED}"
    assert {each.id for each in store.all()} == {key, cut}
    assert store.fleet(key).name == "prod"


def test_freezing_again_repairs_damaged_content_and_keeps_notes(store: Snapshots, key: str) -> None:
    damage(store, key, content=b"\x1f\x8b", size_bytes="x")
    assert store.get(key).size_bytes == 0

    store.save(a_fleet(), "again", NOW)
    assert store.fleet(key).name == "prod"
    assert store.get(key).metadata.name == "the first"
    assert store.get(key).size_bytes == len(column(store, key, "content"))


def test_a_snapshot_that_is_damaged_as_a_whole_is_listed_as_such(store: Snapshots, key: str) -> None:
    damage(store, key, content=b"", metadata="\N{SNOWMAN}")

    assert store.listed() == SnapshotList((), (f"Snapshot {key} {CHANGED}",))


def test_a_large_fleet_is_neither_frozen_nor_opened(
    store: Snapshots, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MOST_BYTES", 1_000)
    for call in (lambda: store.fleet(key), lambda: store.save(built_of_captures(), "x", NOW)):
        with pytest.raises(SnapshotError, match="MiB of JSON, the most that is saved and opened; save one pool at"):
            call()


def test_raw_answers_are_kept_with_what_was_frozen_here(
    store: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "ANSWERS_BYTES", 50_000)
    fleet = built_of_captures()
    key = store.save(fleet, "x", NOW).id

    assert Recorded(store.folder).rows("snapshot_answers") > 2
    for position in range(len(fleet.replicas)):
        assert store.answers(key, position) == raw_of(fleet, position)
    assert store.answers(key, len(fleet.replicas)) == {}

    other = Snapshots(tmp_path / "other")
    imported = other.keep(packing.unpacked(store.export(key)), store.get(key).metadata).id
    assert other.answers(imported, 0) == {}


def test_raw_answers_show_no_secret_and_too_large_ones_are_not_kept(
    store: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = f'{{"api_key":"{SECRET}"}}\xff'.encode("latin-1")
    key = store.save(with_raw(built(at(1), polled_at=NOW), secret), "x", NOW).id
    assert SECRET.encode() not in b"".join(store.answers(key, 0).values()) != b""

    monkeypatch.setattr(storing, "MOST_ANSWERS_BYTES", 10)
    key = store.save(with_raw(built(at(2), polled_at=NOW), secret), "x", NOW).id
    assert store.answers(key, 0) == {}


def with_raw(fleet: Fleet, raw: bytes) -> Fleet:
    """Return the fleet with another raw answer to every probe."""
    replicas = (replace(one, probes=tuple(replace(each, raw=raw) for each in one.probes)) for one in fleet.replicas)
    return replace(fleet, replicas=tuple(replicas))


RAW_ANSWERS: Mapping[str, Callable[[], bytes | str]] = {
    "nothing": lambda: b"",
    "text": lambda: "text",
    "nonsense": lambda: b"nonsense",
    "a list": lambda: lzma.compress(b"[]"),
    "a number": lambda: lzma.compress(b'{"/version":{"0":3}}'),
    "a bomb": lambda: lzma.compress(bytes(2**27), preset=0),
    "cut off": lambda: lzma.compress(b"{}" * 5_000)[:-30],
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", RAW_ANSWERS)
def test_damaged_raw_answers_are_a_sentence(store: Snapshots, name: str) -> None:
    key = store.save(built_of_captures(), "x", NOW).id
    execute(store.folder, "UPDATE snapshot_answers SET content = ?", (RAW_ANSWERS[name](),))

    with pytest.raises(SnapshotError, match=f"The raw answers of snapshot {key} are damaged; restore a copy of it"):
        store.answers(key, 0)


def newer_schema(file: Path) -> None:
    connection = sqlite3.connect(file)
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()


def other_file(file: Path) -> None:
    file.write_bytes(b"This is no database. " * 100)


@pytest.mark.parametrize(
    ("breaks", "why"), [(newer_schema, "has schema 9999, newer than"), (other_file, "file is not a database")]
)
def test_where_the_database_cannot_be_opened_the_reason_is_a_sentence(
    store: Snapshots, key: str, breaks: Callable[[Path], None], why: str
) -> None:
    breaks(store.folder / "history.db")

    listed = store.listed()
    assert listed.snapshots == ()
    (problem,) = listed.damaged
    assert problem.startswith("Snapshots cannot be read. The history history.db ")
    assert why in problem
    calls: list[Callable[[], object]] = [
        lambda: store.fleet(key),
        lambda: store.answers(key, 0),
        lambda: store.rename(key, "x"),
        lambda: store.delete(key),
    ]
    for call in calls:
        with pytest.raises(SnapshotError) as refused:
            call()
        assert str(refused.value) == problem
    with pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. The history history\.db "):
        store.save(built_of_captures(), "x", NOW)


def test_a_server_that_is_gone_is_asked_once_for_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def gone() -> Database:
        asked.append(1)
        raise HistoryError("timeout expired")

    monkeypatch.setattr(storing, "SLOW_SECONDS", -1.0)  # every error comes late
    store = Snapshots(tmp_path, database=gone)
    assert store.listed() == store.listed() == SnapshotList((), ("Snapshots cannot be read. timeout expired",))
    assert len(asked) == 1
    with pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. timeout expired"):
        store.save(a_fleet(), "x", NOW)

    monkeypatch.setattr(storing, "GONE_SECONDS", 0.0)
    store = Snapshots(tmp_path, database=gone)
    store.listed()
    store.listed()
    assert len(asked) > 3


def test_read_only_snapshots_are_shown_and_not_changed(store: Snapshots, key: str) -> None:
    reading = Snapshots(store.folder, read_only=True)
    changes: list[Callable[[], object]] = [
        lambda: reading.rename(key, "x"),
        lambda: reading.delete(key),
        lambda: reading.save(a_fleet(), "x", NOW),
    ]

    assert reading.listed() == store.listed()
    for change in changes:
        with pytest.raises(SnapshotError, match="Snapshots are read-only here"):
            change()


def test_a_full_disk_leaves_no_partial_snapshot(store: Snapshots, key: str) -> None:
    with full_disk(200_000), pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. The history history"):
        store.save(built_of_captures(), "x", NOW)

    assert [each.id for each in store.all()] == [key]
    assert store.save(built_of_captures(), "x", NOW).metadata.name == "x"


def test_a_freeze_waits_for_a_poll_that_is_being_recorded_and_no_longer(
    store: Snapshots, history: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = sqlite3.connect(str(history.database.file), isolation_level=None, check_same_thread=False)
    recording.execute("BEGIN IMMEDIATE")
    freezing = threading.Thread(target=store.save, args=(a_fleet(), "x", NOW))
    freezing.start()
    freezing.join(0.5)
    assert freezing.is_alive()
    recording.execute("COMMIT")
    freezing.join(opening.MAINTENANCE_SECONDS)
    assert {each.metadata.name for each in store.all()} == {"x"}

    monkeypatch.setattr(opening, "MAINTENANCE_SECONDS", 0.0)
    recording.execute("BEGIN IMMEDIATE")
    with pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. The history history\.db .* is locked\.$"):
        store.save(built(at(9), polled_at=NOW), "y", NOW)
    recording.close()


def test_polls_and_freezes_at_the_same_time_lose_none_and_pruning_keeps_snapshots(store: Snapshots) -> None:
    """The database is made by whoever comes first."""

    def freeze(number: int) -> None:
        for each in range(5):
            store.save(a_fleet(polled_at=NOW + timedelta(minutes=10 * number + each)), "x", NOW)

    history = Recorded(store.folder)
    with ThreadPoolExecutor(3) as threads:
        freezing = threads.map(freeze, range(3))
        for number in range(20):
            history.record(later(built(at(number % 4), polled_at=AT), (number + 1) * POLL))

    assert list(freezing) == [None] * 3, "no error"
    assert history.rows("poll") == 20
    list(prune(history.database, NOW + timedelta(days=5000), HistoryOptions()))
    assert len(store.all()) == 15


def test_freezing_in_many_threads_gives_one_snapshot(store: Snapshots) -> None:
    fleet = a_fleet()
    with ThreadPoolExecutor(6) as threads:
        found = [*threads.map(lambda _: store.save(fleet, "x", NOW).id, range(6))]

    assert [each.id for each in store.all()] == [*set(found)]


def test_without_a_history_snapshots_are_in_the_database_that_it_would_have(tmp_path: Path) -> None:
    options = Options.model_validate({"data_folder": tmp_path / "data", "history": {"enabled": False}})
    store = configured_snapshots(options)
    key = store.save(a_fleet(), "x", NOW).id

    history = Recorded(tmp_path / "data")
    with pytest.raises(HistoryError, match="none was recorded yet"):
        history.reader.fleet_at(NOW)
    history.record(built(at(1), polled_at=AT))
    assert history.reader.fleet_at(AT).name == "prod"
    assert [each.id for each in store.all()] == [key]
