"""A history is opened by one writer and many readers; whatever is wrong with it is one sentence."""

import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier

import pytest
from sqlalchemy import select

from dashboard.errors import HistoryError
from dashboard.store.history import database as opening
from dashboard.store.history.database import Database, file_database
from dashboard.store.history.schema import HEAD, meta
from tests.polled_fleets import at, built, unreachable
from tests.store.folders import full_disk
from tests.store.history.recorded import DUE, POLL, Recorded, later, shown

FLEET = built(at(1), at(2), unreachable(3))
NOBODY = 65_534
THREADS = 4


@pytest.fixture
def history(tmp_path: Path) -> Recorded:
    """One recorded poll."""
    history = Recorded(tmp_path)
    history.record(FLEET)
    return history


def refused(sentence: str) -> "pytest.RaisesExc[HistoryError]":
    return pytest.raises(HistoryError, match=f"^{re.escape(sentence)}$")


def file_of(history: Recorded) -> Path:
    assert history.database.file is not None
    return history.database.file


def test_a_new_file_is_private(history: Recorded) -> None:
    folder = file_of(history).parent
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}

    assert modes == dict.fromkeys(["history.db", "history.db-wal", "history.db-shm", "history.db.lock"], 0o600)


def test_those_who_make_a_database_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    together = Barrier(THREADS)

    def write(folder: Path, number: int) -> None:
        together.wait()
        with file_database(folder).maintained(creates=True) as connection, connection.begin():
            connection.execute(meta.insert().values(key=f"{number}", value="x"))

    with ThreadPoolExecutor(THREADS) as threads:
        for number in range(20):
            folder = tmp_path / f"{number}"
            list(threads.map(partial(write, folder), range(THREADS)))
            with file_database(folder).read() as connection, connection.begin():
                assert len(connection.execute(select(meta)).all()) == THREADS
            assert not list(folder.glob("history.db.*")), "what was made beside it is gone"


def test_a_second_writer_is_refused_until_the_first_ends(history: Recorded, tmp_path: Path) -> None:
    other = Recorded(tmp_path)
    with refused("Another process records the history history.db; end it, or choose another history.url."):
        other.record(later(FLEET, POLL))

    history.writer.close()
    other.record(later(FLEET, 2 * POLL))
    assert other.rows("poll") == 2


def test_reading_goes_on_next_to_the_writer_and_changes_nothing(history: Recorded) -> None:
    assert FLEET.polled_at is not None
    with (
        history.database.read() as connection,
        pytest.raises(HistoryError, match="readonly"),
        history.database.reported(),
    ):
        connection.exec_driver_sql("DELETE FROM poll")
    assert shown(history.reader.fleet_at(FLEET.polled_at)) == shown(FLEET)


def test_a_second_connection_of_the_process_leaves_the_locks_of_the_writer(history: Recorded) -> None:
    """Else another process that closes the file is the last one, and deletes the log that the writer goes on with."""
    assert history.database.file is not None
    log = history.database.file.with_name("history.db-wal")
    with history.database.maintained():
        pass
    before = log.stat().st_ino
    command = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT 1 FROM poll'); c.close()"
    subprocess.run([sys.executable, "-c", command, str(history.database.file)], check=True)

    assert log.stat().st_ino == before
    history.record(later(FLEET, POLL))
    assert history.rows("poll") == 2


def test_the_history_of_another_fleet_is_refused(history: Recorded) -> None:
    with refused(
        "The history history.db is that of the fleet “prod”, not of “test”; choose another history.url, or the former "
        "name."
    ):
        history.record(replace(FLEET, name="test"))


def test_a_newer_schema_is_refused_by_writers_and_readers(history: Recorded) -> None:
    history.writer.close()
    _execute(file_of(history), "UPDATE alembic_version SET version_num = '9999'")
    sentence = (
        f"The history history.db has schema 9999, newer than {HEAD} of this version; start the newer version, "
        "or choose another history.url."
    )

    with refused(sentence):
        history.record(later(FLEET, POLL))
    with refused(sentence):
        history.rows("poll")


def test_an_empty_file_of_an_interrupted_first_start_is_filled(tmp_path: Path) -> None:
    (tmp_path / "history.db").touch()
    history = Recorded(tmp_path)
    history.record(FLEET)
    assert history.rows("poll") == 1


def test_a_file_of_another_program_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    _execute(file, "CREATE TABLE foreign_table (id INTEGER)")
    with refused("history.db is the database of another program; choose another one in history.url."):
        Recorded(tmp_path).record(FLEET)

    file.write_bytes(text := b"This is no database. " * 100)
    with refused("The history history.db cannot be used: file is not a database."):
        Recorded(tmp_path).record(FLEET)
    assert file.read_bytes() == text


def test_a_missing_history_is_not_made_by_reading(tmp_path: Path) -> None:
    history = Recorded(tmp_path)
    with refused("There is no history history.db: a dashboard records it while it polls."):
        history.rows("poll")
    assert not file_of(history).exists()


@pytest.mark.parametrize("url", ["", "history.db", "sqlite://", "mysql://root:secret@db/history"])
def test_a_url_of_no_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(
        HistoryError, match=r"^The URL of the history is not that of .*; write sqlite:.* http:"
    ) as raised:
        Database(url)
    assert "secret" not in str(raised.value)


def test_a_folder_in_place_of_the_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "history.db").mkdir()
    with refused("The history history.db cannot be used: Is a directory."):
        Recorded(tmp_path).record(FLEET)


def test_a_locked_database_is_a_gap_and_recording_goes_on(history: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0.0)
    history.restart()
    other = sqlite3.connect(file_of(history), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(HistoryError, match="database is locked"):
        history.record(later(FLEET, POLL))
    other.close()

    assert FLEET.polled_at is not None
    after = later(FLEET, 10 * POLL)
    history.record(after)
    (gap,) = history.reader.gaps(FLEET.polled_at, FLEET.polled_at + 10 * POLL)
    assert (gap.since, gap.until) == (FLEET.polled_at, after.polled_at)
    assert history.reader.poll_at(FLEET.polled_at + 5 * POLL)[1] == gap


def test_a_full_disk_loses_one_poll_only(history: Recorded) -> None:
    grown = built(*[at(number) for number in range(60)], polled_at=FLEET.polled_at + POLL)  # type: ignore[operator]
    with (
        full_disk(100_000),
        pytest.raises(HistoryError, match=r"cannot be used: (disk I/O error|database or disk is full)"),
    ):
        history.record(grown)

    last = later(grown, POLL)
    assert last.polled_at is not None
    history.record(last)
    assert shown(history.reader.fleet_at(last.polled_at)) == shown(last)
    assert history.rows("poll") == 2


@pytest.fixture
def older(history: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The history, opened by a version of the program with one more migration."""
    history.writer.close()
    migrations = tmp_path / "migrations"
    shutil.copytree(opening.MIGRATIONS, migrations)
    (migrations / "versions" / "next_0002.py").write_text(
        'from alembic import op\n\nrevision, down_revision = "0002", "0001"\n\n\n'
        "def upgrade() -> None:\n    op.execute(\"INSERT INTO meta VALUES ('migrated', 'yes')\")\n"
    )
    monkeypatch.setattr(opening, "MIGRATIONS", migrations)
    monkeypatch.setattr(opening, "HEAD", "0002")
    return history


def test_an_older_schema_is_copied_and_migrated(older: Recorded) -> None:
    with refused("The history history.db has schema 0001, older than 0002: a dashboard migrates it."):
        older.rows("poll")

    older.record(later(FLEET, POLL))

    assert older.rows("poll") == 2
    file = file_of(older)
    meta = "SELECT key FROM meta WHERE key = 'migrated'"
    assert _rows(file, meta) == [("migrated",)]
    assert _rows(file.with_name("history.db.before-0002"), meta) == []


def test_a_migration_without_room_for_the_copy_changes_nothing(older: Recorded) -> None:
    room = file_of(older).stat().st_size - 1
    with full_disk(room), pytest.raises(HistoryError, match=r"^The history history\.db cannot be used: "):
        older.record(later(FLEET, POLL))

    with refused("The history history.db has schema 0001, older than 0002: a dashboard migrates it."):
        older.rows("poll")


def _rows(file: Path, query: str) -> list[tuple[str]]:
    connection = sqlite3.connect(file)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_a_clock_that_jumps_back_records_nothing_until_it_is_later_again(history: Recorded) -> None:
    with refused(
        "Not recorded: the last poll in the history is of 2026-03-02T11:42:05Z, later than this one. Correct the "
        "clock; if it was ahead then, delete those polls with history prune --after TIME."
    ):
        history.record(later(FLEET, -timedelta(days=1)))
    history.record(later(FLEET, POLL))
    assert history.rows("poll") == 2


def test_a_change_after_a_gap_is_between_the_polls_around_it(history: Recorded) -> None:
    changed = built(at(1), polled_at=FLEET.polled_at + 100 * POLL)  # type: ignore[operator]
    history.record(later(FLEET, POLL))
    history.record(changed)
    with history.database.read() as connection:
        found = connection.exec_driver_sql(
            "SELECT DISTINCT to_at - last_seen FROM replica_span WHERE to_at IS NOT NULL"
        ).scalars()
        assert list(found) == [99 * POLL // timedelta(microseconds=1)]
    assert DUE < 99 * POLL


def test_a_folder_that_cannot_be_made_is_a_sentence() -> None:
    with refused("The history history.db cannot be used: No such file or directory."):
        Recorded(Path("/proc/none")).record(FLEET)


def _execute(file: Path, statement: str) -> None:
    connection = sqlite3.connect(file)
    with connection:
        connection.execute(statement)
    connection.close()


@contextmanager
def as_another_user() -> Iterator[None]:
    """Run as a user who may write nowhere, where the tests run as root."""
    own = os.geteuid()
    os.seteuid(NOBODY if own == 0 else own)
    try:
        yield
    finally:
        os.seteuid(own)


@pytest.fixture
def unwritable() -> Iterator[Path]:
    """A folder that can only be read."""
    with TemporaryDirectory() as name:
        yield Path(name)
        Path(name).chmod(0o700)


def test_an_unwritable_folder_is_a_sentence_with_what_to_do(unwritable: Path) -> None:
    unwritable.chmod(0o555)
    with (
        as_another_user(),
        refused(
            "The history history.db cannot be used: Permission denied; make its folder writable, or set "
            "history.enabled: false."
        ),
    ):
        Recorded(unwritable).record(FLEET)


def test_a_history_that_cannot_be_written_is_read(unwritable: Path) -> None:
    history = Recorded(unwritable)
    history.record(FLEET)
    history.writer.close()
    file_of(history).chmod(0o444)
    unwritable.chmod(0o555)
    assert FLEET.polled_at is not None
    with as_another_user():
        assert shown(history.reader.fleet_at(FLEET.polled_at)) == shown(FLEET)
        with refused(
            "The history history.db cannot be used: Permission denied; make its folder writable, or set "
            "history.enabled: false."
        ):
            history.record(later(FLEET, POLL))


@pytest.mark.parametrize("lost", ["history.db*", "history.db.lock"])
def test_deleted_files_are_made_again_by_the_next_poll(history: Recorded, lost: str) -> None:
    for each in file_of(history).parent.glob(lost):
        each.unlink()
    history.record(later(FLEET, POLL))

    assert history.rows("poll") == (1 if lost == "history.db*" else 2)
    with refused("Another process records the history history.db; end it, or choose another history.url."):
        Recorded(file_of(history).parent).record(later(FLEET, 2 * POLL))
