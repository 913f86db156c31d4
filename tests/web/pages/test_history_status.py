"""Pages, probes and metrics with a history that cannot be written: polls go on, and the header says why."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from dashboard import service
from dashboard.config import Options
from dashboard.store.history.writer import HistoryWriter
from dashboard.web import server
from tests.page_runner import EVERY_PAGE, html, visit
from tests.serving import ask, wait_for
from tests.store.history.recorded import Recorded
from tests.store.history.test_history_recording import FLEET

NOT_A_FOLDER = "The history history.db cannot be used: File exists."


pytestmark = pytest.mark.usefixtures("service_folder")


def start(**options: Any) -> None:
    """Start a dashboard without targets, and wait until its first poll was recorded, or not."""
    service.start(Options.model_validate({"poll": {"interval_seconds": 3600}, **options}))
    wait_for(lambda: service.progress().polls == 1 and is_reported())


def is_reported() -> bool:
    status = service.history_status()
    return status is None or status.recorded_at is not None or status.failures > 0


def is_recorded() -> bool:
    status = service.history_status()
    return status is not None and status.problem is None


def poll_again(until: Callable[[], bool]) -> None:
    service.reload()
    wait_for(until)


def metrics() -> dict[str, float]:
    """Return the metrics of the history, by name."""
    answer = ask(Starlette(routes=server.routes()), "/metrics")
    lines = re.findall(r"^vllm_fleet_history_(\w+) (\S+)$", answer.text, re.MULTILINE)
    return {name: float(value) for name, value in lines}


def test_a_recorded_poll_is_on_status_and_in_the_metrics_and_no_header_has_a_warning() -> None:
    start()
    status = service.history_status()
    assert status is not None
    assert status.recorded_at == service.current().polled_at
    assert "History not recorded" not in html(visit())
    assert f"Last recorded poll: {status.recorded_at:%Y-%m-%dT%H:%M:%S}Z." in html(visit("status"))
    assert metrics().keys() == {"follower", "failures_total", "last_recorded_timestamp_seconds", "size_bytes"}
    assert metrics()["failures_total"] == 0


def test_every_page_says_why_the_history_is_not_recorded(service_folder: Path) -> None:
    (service_folder / "data").write_text("a file in place of the folder")
    start()
    warning = f"<b>History not recorded.</b> {NOT_A_FOLDER}"
    assert [page for page in EVERY_PAGE if warning not in html(visit(page))] == []


def test_polls_go_on_without_a_history_and_pages_show_when_it_is_back(service_folder: Path) -> None:
    (service_folder / "data").write_text("a file in place of the folder")
    start()
    assert metrics() == {"follower": 0, "failures_total": 1}
    assert f"Not recorded. {NOT_A_FOLDER}" in html(visit("status"))
    assert "none since the start. 1 poll not recorded since the start." in html(visit("status"))

    before = service.current().generation
    (service_folder / "data").unlink()
    poll_again(is_recorded)
    wait_for(lambda: service.current().generation > before)  # open pages look at it
    assert "History not recorded" not in html(visit())
    assert metrics()["failures_total"] == 1
    assert metrics()["last_recorded_timestamp_seconds"] > 0


def test_a_second_dashboard_on_one_file_shows_its_own_polls_and_says_so(service_folder: Path) -> None:
    first = Recorded(service_folder)
    first.record(FLEET)
    start(name=FLEET.name, history={"url": f"sqlite:///{service_folder / 'history.db'}"})
    sentence = "Another process records the history history.db; end it, or choose another history.url."
    assert sentence in html(visit())
    assert service.current().replicas == ()
    first.writer.close()


def test_the_file_of_another_fleet_is_left_alone(service_folder: Path) -> None:
    writer: HistoryWriter = (other := Recorded(service_folder)).writer
    other.record(FLEET)
    writer.close()
    start(name="test", history={"url": f"sqlite:///{service_folder / 'history.db'}"})
    assert "is that of the fleet “prod”, not of “test”" in html(visit())
    assert other.rows("poll") == 1


def test_read_only_writes_no_file_and_says_so_once(service_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    start(read_only=True)
    assert list(service_folder.iterdir()) == []
    assert "Off: read_only is set. To record polls, set history.url, url_env or url_file." in html(visit("status"))
    assert "History not recorded" not in html(visit())
    assert metrics() == {}
    assert [each.getMessage() for each in caplog.records if "history" in each.getMessage()] == [
        "no history is recorded: read_only is set; name a database in history.url, url_env or url_file to record one"
    ]


def test_read_only_writes_a_named_database(service_folder: Path) -> None:
    start(read_only=True, history={"url": f"sqlite:///{service_folder / 'kept.db'}"})
    assert (service_folder / "kept.db").exists()


def test_a_disabled_history_is_off_on_status() -> None:
    start(history={"enabled": False})
    assert "Off: history.enabled is false. To record polls, set history.enabled: true." in html(visit("status"))
