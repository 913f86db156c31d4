"""Several dashboards share one history in PostgreSQL: one records, and another one goes on when it ends."""

import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from dashboard.access import sessions
from dashboard.access.visitor import Means
from dashboard.analysis.timeline import Period
from dashboard.config import HistoryOptions
from dashboard.config.access import SessionOptions
from dashboard.errors import HistoryError, SnapshotError
from dashboard.fleet import Note
from dashboard.store.audit import AuditEntry
from dashboard.store.history.audit import AuditTable
from dashboard.store.history.database import Database
from dashboard.store.history.reader import HistoryReader
from dashboard.store.history.retention import AUDIT_TIME, history_bytes, prune, stats_of
from dashboard.store.history.schema import METADATA
from dashboard.store.history.sign_ins import DatabaseSignIns
from dashboard.store.history.traffic import HOUR, KEPT_TICKS, TICK
from dashboard.store.history.writer import HistoryWriter
from dashboard.store.packing import content_of
from dashboard.store.snapshots import Snapshots
from tests import builders
from tests.builders import NOW
from tests.e2e.frozen_fleets import STORY, frozen
from tests.notify.machine import DIES_AFTER, DIES_BEFORE, Process
from tests.notify.polls import FLEET, poll, problem
from tests.saved_fleets import built_of_captures
from tests.store.folders import raw_of
from tests.store.history.recorded import DUE, POLL, Recorded, later
from tests.store.history.test_history_traffic import BEGIN, ONE, counting
from tests.store.history.test_history_traffic import FLEET as THREE
from tests.store.history.week import MOST_SEQUENCES, record_week

PROGRAMS = Path("/usr/lib/postgresql")  # Debian's


class Server:
    """PostgreSQL on a socket in a folder. It refuses to run as root, and runs as nobody then."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if os.geteuid() == 0:
            subprocess.run(["chown", "nobody", folder], check=True)
        self._call("initdb", "--auth=trust", "--username=fleet", "--no-sync")
        self.start()

    def url(self) -> str:
        return f"postgresql://fleet@/postgres?host={self._folder}"

    def start(self) -> None:
        options = f"-k {self._folder} -c listen_addresses= -c fsync=off"
        self._call("pg_ctl", "-w", "-o", options, "-l", str(self._folder / "log"), "start")

    def stop(self) -> None:
        self._call("pg_ctl", "-w", "-m", "immediate", "stop")

    def clear(self) -> None:
        with psycopg.connect(self.url()) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")

    def _call(self, name: str, *arguments: str) -> None:
        (program, *_) = sorted(PROGRAMS.glob(f"*/bin/{name}"), reverse=True)
        user = {"user": "nobody"} if os.geteuid() == 0 else {}
        command = [program, "-D", self._folder / "data", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **user)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with TemporaryDirectory(prefix="pg", dir="/tmp") as folder:  # a short path: of a socket it has 107 letters at most
        server = Server(Path(folder))
        yield server
        server.stop()


def test_two_dashboards_share_a_history_and_survive_the_end_of_the_server(server: Server) -> None:
    fleet = built_of_captures()
    assert fleet.polled_at is not None
    database = Database(server.url())
    first, second = HistoryWriter(database), HistoryWriter(database)
    reader = HistoryReader(database)
    recorded = replace(fleet, sightings=first.record(fleet, fleet.polled_at + DUE))
    with pytest.raises(HistoryError, match=r"^Another process records the history postgres at localhost; end it"):
        second.record(fleet, fleet.polled_at + DUE)
    assert content_of(reader.fleet_at(fleet.polled_at)) == content_of(recorded)

    first.close()
    second.record(later(fleet, POLL), fleet.polled_at + POLL + DUE)
    server.stop()
    with pytest.raises(HistoryError, match=r"^The history postgres at localhost cannot be used: "):
        second.record(later(fleet, 2 * POLL), fleet.polled_at + 2 * POLL + DUE)
    server.start()
    second.record(later(fleet, 9 * POLL), fleet.polled_at + 9 * POLL + DUE)
    second.close()

    assert stats_of(database).rows["poll"] == 3
    (gap,) = reader.gaps(fleet.polled_at, fleet.polled_at + 9 * POLL)
    assert (gap.since, gap.until) == (fleet.polled_at + POLL, fleet.polled_at + 9 * POLL)
    assert sum(prune(database, fleet.polled_at + timedelta(days=40), HistoryOptions())) == 3
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_texts_that_postgresql_does_not_store_are_replaced_in_columns_only(server: Server) -> None:
    server.clear()
    own = builders.document()
    fleet = builders.fleet([builders.replica("a\0b", pool="c\0d", document=own)], [own], name="odd")
    history = Recorded(Path("/"))
    history.writer.database = history.database = Database(server.url())
    history.record(fleet)
    history.writer.close()

    assert fleet.polled_at is not None
    found = HistoryReader(history.database).fleet_at(fleet.polled_at)
    (read,) = found.replicas
    assert found.sightings.replicas[read.id].since == fleet.polled_at
    assert (read.name, read.pool) == ("a\0b", "c\0d")


def test_notifications_wait_in_postgresql_and_repeat_only_after_a_death(server: Server) -> None:
    with Database(server.url()).maintained() as connection, connection.begin():
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    process = Process(Database(server.url()), FLEET, NOW)
    process.poll(poll(0, problem(), problem("embed-01")))
    process.send(DIES_BEFORE)
    process.poll(poll(0))
    process.send(DIES_AFTER)
    process.drain()

    sent = [(each.pool, [str(alert.event) for alert in each.alerts]) for each in process.arrived]
    assert sent == [("chat", ["new"]), ("chat", ["new"]), ("embed", ["resolved"]), ("chat", ["resolved"])]
    assert process.arrived[0].message == process.arrived[1].message
    assert process.outbox.pending() == {}


@pytest.mark.long
def test_a_timeline_is_the_same_as_in_sqlite(server: Server, tmp_path: Path) -> None:
    server.clear()
    fleet = frozen(STORY)
    assert fleet.polled_at is not None
    here, there = Recorded(tmp_path), Recorded(tmp_path)
    there.writer.database = there.database = Database(server.url())
    for history in (here, there):
        record_week(history, fleet)
        history.writer.close()
    period = Period(fleet.polled_at - timedelta(days=7), fleet.polled_at)
    reader, one = HistoryReader(there.database), fleet.replicas[0].id

    assert reader.timeline(period) == here.reader.timeline(period)
    assert reader.timeline(period).marks
    assert reader.replica_timeline(period, one) == here.reader.replica_timeline(period, one)
    assert reader.setting_timeline(period, MOST_SEQUENCES) == here.reader.setting_timeline(period, MOST_SEQUENCES)


@pytest.mark.long
def test_traffic_is_the_same_as_in_sqlite(server: Server, tmp_path: Path) -> None:
    server.clear()
    here, there = Recorded(tmp_path), Recorded(tmp_path)
    there.writer.database = there.database = Database(server.url())
    there.reader = HistoryReader(there.database)
    last = BEGIN + 40 * TICK
    for history in (here, there):
        for number in range(41):
            history.record(counting(THREE, BEGIN + number * TICK, ONE, None, ONE))
        history.writer.close()

    def read(history: Recorded) -> tuple[object, ...]:
        reader = history.reader
        sums = reader.traffic(BEGIN, last), reader.traffic(BEGIN, last, THREE.pools[0].name, HOUR)
        return *sums, reader.usual_traffic(last), reader.fleet_at(last).recorded_traffic

    before = read(there)
    assert before == read(here)
    for history in (here, there):
        list(prune(history.database, last + KEPT_TICKS, HistoryOptions()))
    assert read(there) == read(here) != before
    with there.database.read() as connection:
        assert history_bytes(connection) > 5_000


@pytest.mark.long
def test_every_instance_freezes_and_deletes_while_one_records(server: Server, tmp_path: Path) -> None:
    """The first one makes the tables; names of foreign texts have zero bytes."""
    server.clear()
    database, fleet = Database(server.url()), built_of_captures()
    assert fleet.polled_at is not None
    here, store = Snapshots(tmp_path), Snapshots(tmp_path, database=lambda: database)
    assert store.all() == ()
    own = builders.document()
    odd = builders.fleet([builders.replica("a\0b", pool="c\0d", document=own)], [own], name="odd")
    key = here.save(odd, "odd", NOW).id

    writer = HistoryWriter(database)
    freezing = [
        threading.Thread(target=store.save, args=(later(fleet, number * POLL), f"{number}", NOW)) for number in range(3)
    ]
    writer.record(fleet, fleet.polled_at + DUE)
    for each in freezing:
        each.start()
    for number in range(1, 4):
        writer.record(later(fleet, number * POLL), fleet.polled_at + number * POLL + DUE)
    assert store.save(odd, "odd", NOW).id == key
    for each in freezing:
        each.join()
    writer.close()

    assert stats_of(database).rows["poll"] == 4
    with database.read() as connection:
        assert history_bytes(connection) > 5_000
    assert {each.metadata.name for each in store.all()} == {"0", "1", "2", "odd"}
    assert (store.get(key), store.export(key)) == (here.get(key), here.export(key))
    assert store.fleet(key) == here.fleet(key)
    store.note(key, "x", Note("a\0b"))
    assert store.get(key).metadata.notes == {"x": Note("a\0b")}
    key = next(each.id for each in store.all() if each.metadata.name == "0")
    assert store.answers(key, 0) == raw_of(fleet, 0)
    for stored in store.all():
        store.delete(stored.id)
    assert store.all() == ()


def test_every_instance_adds_to_one_audit_log_while_one_records(server: Server) -> None:
    """The first one makes the tables; the retention is that of the instance that records."""
    server.clear()
    fleet, tables = built_of_captures(), [AuditTable(Database(server.url())) for _ in range(3)]
    assert fleet.polled_at is not None
    at, always = fleet.polled_at, Period(fleet.polled_at - AUDIT_TIME * 2, fleet.polled_at)
    old = AuditEntry(at - AUDIT_TIME - DUE, "save", "done", "", "a\0b", "admin", "proxy", "::1", {"name": "c\0d"})
    assert list(tables[0].entries(always, most=9)) == []
    tables[0].add(old)
    writer = HistoryWriter(Database(server.url()))
    writer.record(fleet, at + DUE)
    adding = [threading.Thread(target=each.add, args=(old._replace(at=at),)) for each in tables for _ in range(3)]
    for each in adding:
        each.start()
    writer.record(later(fleet, POLL), at + POLL + DUE)
    for each in adding:
        each.join()
    writer.close()

    found = tables[1].entries(always, {"save"}, {"done"}, most=20)
    assert [each.at for each in found] == [*[at] * 9, old.at]
    assert (found[0].visitor, found[0].details) == ("a\ufffdb", {"name": "c\ufffdd"})
    assert sum(prune(Database(server.url()), at, HistoryOptions())) == 1
    assert len(tables[2].entries(always, most=20)) == 9


def test_dashboards_share_sign_ins_and_go_on_with_known_ones_while_the_server_is_gone(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "CACHE_SECONDS", 0.0)
    rows = DatabaseSignIns(lambda: Database(server.url()))
    one, other = (sessions.SessionStore(rows, SessionOptions) for _ in range(2))
    begun, ended = one.begin("ann", Means.OIDC, frozenset({"sre"}), sealed=b"\x00\xff"), one.begin("bo", Means.OIDC)
    assert other.find(begun.id) == begun
    assert other.find(ended.id) == ended

    assert one.claim(begun), "one of them refreshes the groups"
    assert not other.claim(begun)
    begun = replace(begun, refreshed_at=one.refresh(begun, begun.groups, begun.sealed).refreshed_at)
    assert other.find(begun.id) == begun

    one.end(ended.id)
    assert other.find(ended.id) is None

    server.stop()
    try:
        assert other.find(begun.id) == begun
        with pytest.raises(HistoryError):
            other.find("unknown")
    finally:
        server.start()


def test_where_the_server_is_gone_freezing_is_refused(server: Server, tmp_path: Path) -> None:
    store = Snapshots(tmp_path, database=lambda: Database(server.url()))
    server.stop()
    try:
        with pytest.raises(SnapshotError, match=r"^A snapshot cannot be written\. The history postgres at localhost "):
            store.save(built_of_captures(), "x", NOW)
        assert store.all() == ()
    finally:
        server.start()
