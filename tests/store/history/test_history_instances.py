"""Several dashboards on one PostgreSQL: the one with the lock polls and records, the others show its polls."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import pytest
import yaml
from sqlalchemy import func, select
from starlette.applications import Starlette

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.config import Options
from dashboard.demo.describe import targets
from dashboard.demo.server import in_thread
from dashboard.demo.story import default_fleet
from dashboard.store.history import database as opening
from dashboard.store.history.database import Database
from dashboard.store.history.reader import HistoryReader
from dashboard.store.history.recording import Recorder
from dashboard.store.history.schema import poll
from dashboard.store.history.writer import HistoryWriter
from dashboard.web import launch
from dashboard.web import server as web
from tests.captured import AT
from tests.page_runner import html, visit
from tests.polled_fleets import at, built
from tests.serving import ask, free_port, started, wait_for, wait_until_healthy
from tests.store.history.recorded import DUE, POLL, later, shown
from tests.store.history.test_history_postgres import Server
from tests.used import traffic

INTERVAL_SECONDS = 5
FLEET = built(at(1), at(2))
TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with TemporaryDirectory(prefix="pg", dir="/tmp") as folder:
        server = Server(Path(folder))
        yield server
        server.stop()


@pytest.fixture
def database(server: Server) -> Database:
    """An empty database."""
    execute(server, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return Database(server.url())


def execute(server: Server, statement: str) -> None:
    with Database(server.url())._connected(lambda: None) as connection, connection.begin():  # type: ignore[arg-type,return-value]
        connection.exec_driver_sql(statement)


@contextmanager
def instances(server: Server, number: int = 2) -> Iterator[list[Recorder]]:
    options = Options.model_validate({"name": FLEET.name, "history": {"url": server.url()}})
    recorders = [Recorder(options) for _ in range(number)]
    try:
        yield recorders
    finally:
        for each in recorders:
            each.close()


def turn(recorder: Recorder, fleet: Fleet) -> Fleet | None:
    """Let an instance poll this fleet, or follow another instance; return the followed fleet."""
    assert fleet.polled_at is not None
    if (followed := recorder.follow(fleet.name, fleet.polled_at)) is None:
        recorder.record(fleet, fleet.polled_at + DUE)
    return followed


def polls(database: Database) -> int:
    with database.read() as connection:
        number: int = connection.exec_driver_sql("SELECT count(*) FROM poll").scalar_one()
    return number


def test_one_instance_records_and_the_other_shows_it(server: Server, database: Database) -> None:
    with instances(server) as (first, second):
        assert turn(first, FLEET) is None
        followed = turn(second, FLEET)

        assert followed is not None
        assert shown(followed) == shown(FLEET)
        assert (second.status.follows, second.status.problem, second.status.recorded_at) == (True, None, AT)
        assert (first.status.follows, first.status.problem, first.status.recorded_at) == (False, None, AT)
    assert polls(database) == 1


@pytest.mark.usefixtures("database")
def test_an_instance_that_follows_shows_the_traffic_of_replicas_or_that_of_cohorts_while_there_is_none(
    server: Server,
) -> None:
    own = traffic(0.7, requests=100)
    engines = {FLEET.replicas[0].id: {0: own, 1: own._replace(waiting=None, refused=("a\0b",))}}
    polled = replace(FLEET, traffic=engines, counted={each.id: own for each in FLEET.replicas})
    ids = [each.id for each in FLEET.replicas]
    with instances(server) as (first, second):
        turn(first, polled)
        followed = turn(second, polled)
        assert followed is not None
        assert (followed.traffic, followed.recorded_traffic) == (engines, None)

        turn(first, later(replace(polled, traffic={}), 10 * POLL))
        followed = turn(second, later(polled, 10 * POLL))
        assert followed is not None
        assert followed.traffic == {}
        assert followed.traffic_of(ids).hit_rate == 0.7


def test_an_instance_that_loses_its_connection_records_nothing_until_it_has_the_lock_again(
    server: Server, database: Database
) -> None:
    with instances(server) as (first, second):
        turn(first, FLEET)
        execute(server, TERMINATE)
        assert turn(second, later(FLEET, POLL)) is None

        first.record(later(FLEET, 2 * POLL), AT + 2 * POLL + DUE)
        assert (first.status.problem or "").startswith("The history postgres at localhost cannot be used: ")
        assert polls(database) == 2

        followed = turn(first, later(FLEET, 2 * POLL))
        assert followed is not None
        assert followed.polled_at == later(FLEET, POLL).polled_at
        assert (first.status.problem, first.status.follows, first.status.failures) == (None, True, 1)


def test_an_instance_polls_by_itself_while_the_one_that_records_does_not(server: Server, database: Database) -> None:
    with instances(server) as (first, second):
        turn(first, FLEET)
        for _ in range(2):
            assert turn(second, later(FLEET, 10 * POLL)) is None
            assert second.status.problem == (
                "The instance that records the history has recorded no poll since 2026-03-02T11:42:05Z; restart it."
            )
        assert (second.status.follows, second.status.failures) == (False, 2)
        assert polls(database) == 1

        turn(first, later(FLEET, 10 * POLL))
        assert turn(second, later(FLEET, 10 * POLL)) is not None
        assert second.status.problem is None


@pytest.mark.usefixtures("database")
def test_an_instance_polls_by_itself_before_the_first_recorded_poll(server: Server) -> None:
    with instances(server) as (first, second):
        assert first.follow(FLEET.name, AT) is None
        assert turn(second, FLEET) is None
        assert second.status.problem is not None
        assert second.status.problem.endswith("none was recorded yet.")


@pytest.mark.usefixtures("database")
def test_another_fleet_is_not_shown(server: Server) -> None:
    with instances(server) as (first, second):
        turn(first, FLEET)
        assert turn(second, replace(FLEET, name="test")) is None
        assert second.status.problem == (
            "The history postgres at localhost is that of the fleet “prod”, not of “test”; choose another history.url, "
            "or the former name."
        )


def test_an_instance_of_another_version_polls_by_itself(server: Server, database: Database) -> None:
    with instances(server) as (first, second):
        turn(first, FLEET)
        with database.maintained() as connection, connection.begin():
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        assert turn(second, later(FLEET, POLL)) is None
        assert second.status.problem is not None
        assert "has schema 9999, newer than" in second.status.problem


def test_polls_go_on_while_postgresql_is_gone_and_the_gap_is_one(server: Server, database: Database) -> None:
    with instances(server) as (first, second):
        turn(first, FLEET)
        turn(second, FLEET)
        server.stop()
        for each in (first, second, first, second):
            assert turn(each, later(FLEET, POLL)) is None
            assert each.status.problem is not None
        server.start()

        back = later(FLEET, 10 * POLL)
        assert turn(first, back) is None
        assert turn(second, back) is not None
        assert (first.status.problem, second.status.problem, first.status.failures) == (None, None, 2)
    (gap,) = HistoryReader(database).gaps(AT, AT + 10 * POLL)
    assert (gap.since, gap.until) == (AT, AT + 10 * POLL)


def test_a_table_that_is_locked_by_somebody_is_a_problem_and_recording_goes_on(
    server: Server, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "STATEMENT_MILLISECONDS", 200)
    with instances(server, 1) as (first,):
        turn(first, FLEET)
        with database.maintained() as other, other.begin():
            other.exec_driver_sql("LOCK TABLE poll")
            turn(first, later(FLEET, POLL))
            assert first.status.problem is not None
            assert "canceling statement due to statement timeout" in first.status.problem
        turn(first, later(FLEET, 2 * POLL))
        assert first.status.problem is None
    assert polls(database) == 2


def metric(url: str, name: str) -> float | None:
    """Return a metric of a dashboard; None without it."""
    lines = httpx2.get(f"{url}/metrics", timeout=10, trust_env=False).text.splitlines()
    return next((float(each.split()[1]) for each in lines if each.startswith(f"vllm_fleet_{name} ")), None)


@pytest.mark.long
def test_a_killed_instance_is_replaced_within_two_intervals(server: Server, database: Database, tmp_path: Path) -> None:
    with in_thread(default_fleet(3)) as demo:
        config = tmp_path / "fleet.yaml"
        listed = [each["targets"][0] for each in targets(demo.fleet, demo.port)]
        every = {"interval_seconds": INTERVAL_SECONDS}
        config.write_text(yaml.safe_dump({"targets": listed, "poll": every, "history": {"url": server.url()}}))

        @contextmanager
        def dashboard() -> Iterator[tuple[str, int]]:
            port = free_port()
            with started(launch.server_command("127.0.0.1", port), environment=launch.environment(config)) as process:
                wait_until_healthy(f"http://127.0.0.1:{port}")
                yield f"http://127.0.0.1:{port}", process.pid

        with dashboard() as (first, killed), dashboard() as (second, _):
            assert (metric(first, "history_follower"), metric(second, "history_follower")) == (0, 1)
            assert metric(second, "polls_total") == 0
            assert metric(second, 'replicas{state="up"}') == 3
            assert metric(second, "history_failures_total") == 0

            killed_at = service.utc_now()
            os.kill(killed, signal.SIGKILL)
            wait_for(lambda: bool(metric(second, "polls_total")))
            assert metric(second, "history_follower") == 0
            assert not (tmp_path / "data").exists()
            with dashboard() as (third, _):
                assert metric(third, "history_follower") == 1
    with database.read() as connection:
        after = connection.scalar(select(func.min(poll.c.at)).where(poll.c.at > killed_at))
        assert connection.exec_driver_sql("SELECT count(*) FROM watch").scalar_one() == 1
    assert after is not None
    assert after - killed_at < timedelta(seconds=2 * INTERVAL_SECONDS)


@pytest.mark.usefixtures("working_folder")
def test_pages_and_probes_of_a_follower_show_the_recorded_fleet(server: Server, database: Database) -> None:
    fleet = built(at(1), at(2), polled_at=service.utc_now())
    writer = HistoryWriter(database)
    assert fleet.polled_at is not None
    writer.record(fleet, fleet.polled_at + timedelta(hours=1))
    options = {"name": fleet.name, "history": {"url": server.url()}, "poll": {"interval_seconds": 3600}}
    try:
        service.start(Options.model_validate(options))
        wait_for(lambda: service.current().polled_at is not None)
        assert "Shows the polls of another instance." in html(visit())
        assert "Another instance polls and records. This one shows its polls." in html(visit("status"))
        assert [status_of(path) for path in ("/healthz", "/readyz", "/api/v1/fleet")] == [200, 200, 200]
        assert service.progress().polls == 0

        writer.close()
        service.reload()
        wait_for(lambda: service.progress().polls == 1)
        assert "another instance" not in html(visit()).lower()
        assert service.current().generation > 1
    finally:
        service.stop()
        writer.close()


def status_of(path: str) -> int:
    return ask(Starlette(routes=web.routes()), path).status_code
