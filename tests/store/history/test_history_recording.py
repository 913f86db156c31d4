"""The collector records each poll; whatever is wrong with the history, polling goes on and the log says why."""

import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from dashboard import service
from dashboard.config import Options, load_options
from dashboard.demo.describe import targets
from dashboard.demo.server import in_thread
from dashboard.demo.story import default_fleet
from dashboard.errors import HistoryError, OptionsError
from dashboard.store.history.reader import HistoryReader
from dashboard.store.history.recording import Recorder, configured_database
from dashboard.store.history.retention import stats_of
from dashboard.store.history.schema import fleet_span
from dashboard.store.history.traffic import HOUR
from tests.polled_fleets import at, built
from tests.serving import wait_for
from tests.store.history.recorded import DUE, POLL, Recorded, later
from tests.used import traffic

FLEET = built(at(1))


def options(**history: Any) -> Options:
    return Options.model_validate({"history": history})


def record(recorder: Recorder, number: int = 0) -> None:
    fleet = later(FLEET, number * POLL)
    assert fleet.polled_at is not None
    recorder.record(fleet, fleet.polled_at + DUE)


@pytest.mark.usefixtures("working_folder")
def test_a_started_dashboard_records_its_polls_in_the_folder_of_snapshots() -> None:
    with in_thread(default_fleet(3)) as server:
        addresses = [entry["targets"][0] for entry in targets(server.fleet, server.port)]
        used = Options.model_validate(
            {
                "targets": addresses,
                "poll": {"interval_seconds": 1},
                "traffic": {"interval_seconds": 1},
                "history": {"enabled": True},
            }
        )
        service.start(used)
        try:
            wait_for(lambda: service.progress().polls >= 3 and bool(service.current().traffic))
            last = service.current()
        finally:
            service.stop()

    database = configured_database(used)
    assert database.file == Path("data/history.db").resolve()
    assert stats_of(database).rows["poll"] >= 2
    assert stats_of(database).rows["watch"] >= 1, "more where the machine was busy for a second"
    assert last.polled_at is not None
    read = HistoryReader(database).fleet_at(last.polled_at)
    assert [each.document for each in read.replicas] == [each.document for each in last.replicas]
    assert HistoryReader(database).traffic(last.polled_at - HOUR, last.polled_at), "the last minutes, at the end"


def test_a_started_dashboard_knows_the_traffic_of_the_last_day(working_folder: Path) -> None:
    history, before = Recorded(working_folder / "data"), datetime.now(UTC) - HOUR
    counted = {each.id: traffic(0.7, requests=100) for each in FLEET.replicas}
    history.record(replace(FLEET, polled_at=before, counted=counted))
    history.writer.close()
    service.start(Options.model_validate({"name": FLEET.name, "poll": {"interval_seconds": 1}}))
    try:
        wait_for(lambda: service.progress().polls >= 1)
        usual = service.current().usual
    finally:
        service.stop()

    assert [each.traffic.hit_rate for each in usual.values()] == [0.7]


@pytest.mark.usefixtures("working_folder")
def test_a_disabled_history_is_not_made() -> None:
    service.start(Options.model_validate({"history": {"enabled": False}, "poll": {"interval_seconds": 1}}))
    try:
        wait_for(lambda: service.progress().polls >= 1)
        assert service.history_status() is None
    finally:
        service.stop()
    assert not Path("data").exists()


def test_a_problem_is_logged_once_and_its_end_too(working_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dashboard.store.history")
    (working_folder / "data").write_text("a file in place of the folder")
    recorder = Recorder(options())
    record(recorder)
    record(recorder, 1)
    assert recorder.status.problem == "The history history.db cannot be used: File exists."

    (working_folder / "data").unlink()
    record(recorder, 2)
    assert recorder.status.problem is None
    recorder.close()
    assert [each.getMessage() for each in caplog.records if each.name.endswith("recording")] == [
        "not recorded in the history: The history history.db cannot be used: File exists.",
        "the history is recorded again",
    ]


@pytest.mark.usefixtures("working_folder")
def test_an_internal_error_is_logged_with_its_place_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(options())
    broken = replace(FLEET, documents={"x": None})  # type: ignore[dict-item]
    assert broken.polled_at is not None
    recorder.record(broken, broken.polled_at + DUE)

    assert recorder.status.problem == "The poll was not recorded in the history: internal error AttributeError."
    assert caplog.records[-1].exc_info
    record(recorder, 1)
    assert recorder.status.problem is None
    recorder.close()


def test_the_url_is_that_of_a_variable_or_a_file(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HISTORY_URL", "postgresql://ann:secret@db.example.com/fleet")
    (working_folder / "url").write_text("sqlite:////var/lib/fleet/h.db\n")

    assert configured_database(options(url_env="HISTORY_URL")).place == "fleet at db.example.com"
    assert configured_database(options(url_file="url")).place == "h.db"
    with pytest.raises(HistoryError, match=r"^none of history.url_file: No such file or directory\.$"):
        configured_database(options(url_file="none"))


def test_a_relative_file_is_in_the_folder_of_the_options(working_folder: Path) -> None:
    (working_folder / "in").mkdir()
    file = working_folder / "in" / "fleet.yaml"
    file.write_text("history: {url: 'sqlite:///kept/h.db', keep_spans_days: 7}")
    loaded = load_options(file)

    assert configured_database(loaded).file == working_folder / "in" / "kept" / "h.db"


@pytest.mark.parametrize(
    ("history", "sentence"),
    [
        ("{url: 'mysql://db/fleet'}", "not the URL of a SQLite file or PostgreSQL"),
        ("{url: 'postgresql://ann:SESAME7QX@db/fleet'}", "contains a password"),
        ("{url: 'sqlite:///h.db', url_env: X}", "url, url_env and url_file are alternatives; keep one"),
        ("{keep_polls_days: 0}", "keep_polls_days"),
    ],
)
def test_wrong_options_are_refused_without_secrets(working_folder: Path, history: str, sentence: str) -> None:
    file = working_folder / "fleet.yaml"
    file.write_text(f"history: {history}")
    with pytest.raises(OptionsError, match=sentence) as raised:
        load_options(file)
    assert "SESAME7QX" not in str(raised.value)


@pytest.mark.usefixtures("working_folder")
def test_a_dashboard_that_is_started_again_goes_on_watching() -> None:
    with in_thread(default_fleet(3)) as server:
        addresses = [entry["targets"][0] for entry in targets(server.fleet, server.port)]
        used = Options.model_validate({"targets": addresses, "poll": {"interval_seconds": 1}, "history": {}})
        watched = []
        for _ in range(2):
            service.start(used)
            try:
                wait_for(lambda: service.progress().polls >= 2)
                watched.append(service.current().recent.since)
            finally:
                service.stop()

    assert watched[0] is not None
    assert watched[1] == watched[0]


@pytest.mark.usefixtures("working_folder")
@pytest.mark.parametrize("history", [{}, {"enabled": False}])
def test_a_letter_stays_with_its_settings_while_replicas_restart_and_with_a_history_also_the_dashboard(
    history: dict[str, Any],
) -> None:
    with in_thread(default_fleet(3)) as server:
        addresses = [entry["targets"][0] for entry in targets(server.fleet, server.port)]
        listed = [{"url": each, "labels": {"pool": "p"}} for each in addresses]
        used = Options.model_validate({"targets": listed, "poll": {"interval_seconds": 1}, "history": history})

        def sizes() -> list[tuple[str, int]]:
            return [(each.letter, len(each.replicas)) for pool in service.current().pools for each in pool.cohorts]

        service.start(used)
        try:
            wait_for(lambda: sizes() == [("A", 3)])
            server.restart(server.fleet[0].address, ["--block-size", "64"])
            wait_for(lambda: sizes() == [("A", 2), ("B", 1)])
            server.restart(server.fleet[1].address, ["--block-size", "64"])
            wait_for(lambda: sizes() == [("B", 2), ("A", 1)])
            service.stop()
            service.start(used)
            is_kept = "enabled" not in history
            wait_for(lambda: sizes() == ([("B", 2), ("A", 1)] if is_kept else [("A", 2), ("B", 1)]))
        finally:
            service.stop()


@pytest.mark.usefixtures("working_folder")
def test_a_damaged_last_poll_is_logged_once_and_costs_no_poll(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(options())
    record(recorder)
    recorder.close()
    with configured_database(options()).maintained() as connection, connection.begin():
        connection.execute(delete(fleet_span))

    service.start(Options.model_validate({"name": FLEET.name, "history": {}, "poll": {"interval_seconds": 1}}))
    try:
        wait_for(lambda: service.progress().polls >= 2)
        assert service.progress().failures == 0
    finally:
        service.stop()
    assert caplog.text.count("the last recorded poll was not read") == 1


@pytest.mark.usefixtures("working_folder")
def test_an_empty_history_and_that_of_another_fleet_have_no_last_poll() -> None:
    assert FLEET.polled_at is not None
    recorder = Recorder(options())
    assert recorder.last_poll(FLEET.polled_at) == (None, {})
    record(recorder)
    recorder.close()

    named = Options.model_validate({"name": FLEET.name, "history": {}})
    assert Recorder(named).last_poll(FLEET.polled_at)[0] is not None
    assert Recorder(options()).last_poll(FLEET.polled_at) == (None, {})
