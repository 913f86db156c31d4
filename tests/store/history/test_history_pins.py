"""Pinned moments open as snapshots in files do, with their raw answers, and nothing prunes them."""

import json
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dashboard.analysis.assembly import Fleet
from dashboard.errors import HistoryError, SnapshotError
from dashboard.store.history import database as opening
from dashboard.store.history import pins as pins_module
from dashboard.store.history.database import Database
from dashboard.store.history.retention import KEPT, prune
from dashboard.store.history.split import split_content
from dashboard.store.metadata import SnapshotList
from dashboard.store.packing import content_of, id_of, unpacked
from dashboard.store.snapshots import Snapshots
from dashboard.vllm.reading import SAVED_FLEET
from tests.builders import NOW
from tests.captured import AT
from tests.polled_fleets import at, built
from tests.saved_fleets import built_of_captures
from tests.store.folders import a_fleet, full_disk, history_of, in_history
from tests.store.history.pinned import LATER, assert_same, raw_of
from tests.store.history.recorded import POLL, Recorded, later
from tests.store.test_redacted_snapshots import SECRET


def with_raw(fleet: Fleet, raw: bytes) -> Fleet:
    """Return the fleet with another raw answer to every probe."""
    replicas = (replace(one, probes=tuple(replace(each, raw=raw) for each in one.probes)) for one in fleet.replicas)
    return replace(fleet, replicas=tuple(replicas))


def test_what_is_frozen_shows_the_same_as_a_file(tmp_path: Path, demo_fleet: Fleet) -> None:
    pins, files = in_history(tmp_path / "pins"), Snapshots(tmp_path / "files")
    for fleet in (demo_fleet, built_of_captures(), a_fleet()):
        assert pins.freeze(fleet, "a name", LATER) == files.freeze(fleet, "a name", LATER)
    for stored in files.all():
        assert_same(pins, files, stored.id)
        assert id_of(unpacked(pins.export(stored.id))) == stored.id
    assert list(pins.folder.glob("*.json*")) == []


def test_what_is_pinned_is_never_pruned(pins: Snapshots, files: Snapshots, history: Recorded) -> None:
    fleet = built(at(1), polled_at=NOW)
    key = pins.freeze(fleet, "with answers", LATER).id
    history.record(later(built(at(2), polled_at=AT), POLL))
    list(prune(history.database, LATER + timedelta(days=5000), KEPT))

    for stored in files.all():
        assert_same(pins, files, stored.id)
    assert pins.answers(key, 0) == raw_of(fleet, 0) != {}


def test_a_deleted_pin_is_gone_and_pruning_frees_its_bodies(tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    history.record(built(at(1), polled_at=AT))
    pins, bodies = Snapshots(tmp_path, history=lambda: history.database), history.rows("body")
    key = pins.freeze(built_of_captures(), "x", LATER).id
    assert history.rows("body") > bodies
    pins.delete(key)
    with pytest.raises(SnapshotError, match=f"There is no snapshot “{key}” here; it may have been deleted"):
        pins.fleet(key)
    list(prune(history.database, AT, KEPT))
    assert history.rows("body") == bodies


def test_a_pin_of_a_recorded_poll_shares_its_documents_and_replicas(tmp_path: Path) -> None:
    history, fleet = Recorded(tmp_path), built_of_captures()
    history.record(fleet)
    bodies = history.rows("body")
    Snapshots(tmp_path, history=lambda: history.database).freeze(with_raw(fleet, b""), "now", LATER)

    assert history.rows("body") == bodies + 1


def test_raw_answers_are_kept_with_what_was_frozen_here(tmp_path: Path) -> None:
    pins, fleet = in_history(tmp_path), built_of_captures()
    assert max(len(raw) for position in range(len(fleet.replicas)) for raw in raw_of(fleet, position).values()) > 20_000
    key = pins.freeze(fleet, "x", LATER).id

    for position in range(len(fleet.replicas)):
        assert pins.answers(key, position) == raw_of(fleet, position)
    assert pins.answers(key, len(fleet.replicas)) == {}

    other = in_history(tmp_path / "other")
    imported = other.keep(unpacked(pins.export(key)), pins.get(key).metadata).id
    assert other.answers(imported, 0) == {}
    files = Snapshots(tmp_path / "files")
    assert files.answers(files.freeze(fleet, "x", LATER).id, 0) == {}


def test_no_raw_answer_shows_a_secret_that_was_not_known_when_it_was_frozen(tmp_path: Path) -> None:
    pins = in_history(tmp_path)
    secret = f'{{"api_key":"{SECRET}"}}'.encode()
    key = pins.freeze(with_raw(built(at(1), polled_at=NOW), secret), "x", LATER).id

    assert SECRET.encode() not in b"".join(pins.answers(key, 0).values())


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
def test_where_the_history_cannot_be_opened_nothing_is_shown_or_changed_and_the_reason_is_a_sentence(
    pins: Snapshots, history: Recorded, breaks: Callable[[Path], None], why: str
) -> None:
    frozen = pins.all()[0].id
    history.writer.close()
    assert history.database.file is not None
    breaks(history.database.file)

    listed = pins.listed()
    assert listed.snapshots == ()
    (problem,) = listed.damaged
    assert problem.startswith("Snapshots in the history cannot be read. The history history.db ")
    assert why in problem
    calls: list[Callable[[], object]] = [
        lambda: pins.fleet(frozen),
        lambda: pins.answers(frozen, 0),
        lambda: pins.rename(frozen, "x"),
        lambda: pins.delete(frozen),
    ]
    for call in calls:
        with pytest.raises(SnapshotError) as refused:
            call()
        assert str(refused.value) == problem
    with pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. The history history\.db "):
        pins.freeze(a_fleet(), "x", NOW)


def test_before_the_first_poll_is_recorded_nothing_is_frozen(tmp_path: Path) -> None:
    pins = Snapshots(tmp_path, history=lambda: history_of(tmp_path))

    assert pins.listed() == SnapshotList((), ())
    with pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. There is no history history\.db: a dash"):
        pins.freeze(a_fleet(), "x", NOW)
    assert not (tmp_path / "history.db").exists()


def test_files_of_the_folder_are_not_read(tmp_path: Path) -> None:
    Snapshots(tmp_path).freeze(a_fleet(), "x", NOW)

    assert in_history(tmp_path).listed() == SnapshotList((), ())


def test_a_server_that_is_gone_is_asked_once_for_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def gone() -> Database:
        asked.append(1)
        raise HistoryError("timeout expired")

    monkeypatch.setattr(pins_module, "SLOW_SECONDS", -1.0)  # every error comes late
    pins = Snapshots(tmp_path, history=gone)
    assert (
        pins.listed()
        == pins.listed()
        == SnapshotList((), ("Snapshots in the history cannot be read. timeout expired",))
    )
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


def test_read_only_snapshots_are_shown_and_not_changed(history: Recorded, pins: Snapshots) -> None:
    reading = Snapshots(pins.folder, read_only=True, history=lambda: history.database)
    key = pins.all()[0].id
    changes: list[Callable[[], object]] = [
        lambda: reading.rename(key, "x"),
        lambda: reading.delete(key),
        lambda: reading.freeze(a_fleet(), "x", NOW),
    ]

    assert reading.listed() == pins.listed()
    for change in changes:
        with pytest.raises(SnapshotError, match="Snapshots are read-only here"):
            change()


def test_a_changed_or_cut_pin_does_not_open_and_the_others_do(
    pins: Snapshots, files: Snapshots, history: Recorded
) -> None:
    cut, whole = pins.freeze(a_fleet(), "x", NOW).id, files.all()[0].id
    _execute(history, "DELETE FROM pin_replica WHERE position = 0 AND pin = ?", cut)
    with pytest.raises(
        SnapshotError, match=f"^A snapshot cannot be read. Rows of snapshot {cut} were changed or deleted"
    ):
        pins.fleet(cut)
    _execute(
        history, "UPDATE body SET content = substr(content, 1, 30) WHERE id = (SELECT body FROM pin WHERE key = ?)", cut
    )
    with pytest.raises(
        SnapshotError, match=r"^A snapshot cannot be read. The history is damaged: body \d+ was changed"
    ):
        pins.fleet(cut)
    assert pins.get(cut).metadata.name == "x"
    assert_same(pins, files, whole)

    _execute(history, "UPDATE pin SET metadata = '{' WHERE key = ?", whole)
    sentence = f"The name and notes of snapshot {whole} in the history are damaged. They are never overwritten."
    assert pins.get(whole).problem == sentence
    assert sentence in pins.listed().damaged
    with pytest.raises(SnapshotError, match=sentence):
        pins.rename(whole, "y")


def _execute(history: Recorded, statement: str, key: str) -> None:
    with history.database.maintained() as connection, connection.begin():
        connection.exec_driver_sql(statement, (key,))


def test_a_full_disk_pins_nothing(tmp_path: Path) -> None:
    pins = in_history(tmp_path)
    with full_disk(100_000), pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. The history history"):
        pins.freeze(built_of_captures(), "x", LATER)

    assert pins.all() == ()
    assert pins.freeze(built_of_captures(), "x", LATER).metadata.name == "x"


def test_a_freeze_waits_for_a_poll_that_is_being_recorded_and_no_longer(
    pins: Snapshots, history: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = sqlite3.connect(str(history.database.file), isolation_level=None, check_same_thread=False)
    recording.execute("BEGIN IMMEDIATE")
    freezing = threading.Thread(target=pins.freeze, args=(a_fleet(), "x", NOW))
    freezing.start()
    freezing.join(0.5)
    assert freezing.is_alive()
    recording.execute("COMMIT")
    freezing.join(opening.MAINTENANCE_SECONDS)
    assert {each.metadata.name for each in pins.all()} >= {"x"}

    monkeypatch.setattr(opening, "MAINTENANCE_SECONDS", 0.0)
    recording.execute("BEGIN IMMEDIATE")
    with pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. The history history\.db .* is locked\.$"):
        pins.freeze(built(at(9), polled_at=NOW), "y", NOW)
    recording.close()


def test_polls_and_freezes_at_the_same_time_lose_none(history: Recorded, pins: Snapshots) -> None:
    failed: list[SnapshotError] = []

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
        history.record(later(built(at(number % 4), polled_at=AT), (number + 1) * POLL))
    for thread in freezing:
        thread.join()

    assert failed == []
    assert len(pins.all()) == 2 + 15
    assert history.rows("poll") == 21


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["replicas", "documents", "engines", "devices", "kv_cache_groups", "fleet"])


@given(st.binary(max_size=40) | st.dictionaries(names, values).map(lambda value: json.dumps(value).encode()))
@example(b"[" * (SAVED_FLEET.max_nodes + 1))
@example(b'{"replicas":[],"engines":[],"devices":[],"kv_cache_groups":[],"documents":{}}')
def test_any_content_is_joined_to_the_same_bytes(content: bytes) -> None:
    assert split_content(content).join() == content


def test_content_of_another_program_is_kept_whole(tmp_path: Path) -> None:
    pins, fleet = in_history(tmp_path), built_of_captures()
    spaced = json.dumps(json.loads(content_of(fleet)), indent=1).encode()
    assert split_content(spaced).is_whole
    assert not split_content(content_of(fleet)).is_whole

    key = pins.keep(spaced, pins.freeze(fleet, "x", LATER).metadata).id
    assert key == id_of(spaced)
    assert unpacked(pins.export(key)) == spaced
