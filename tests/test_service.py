"""The collector polls a real server; the generation changes only with the pages."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboard import service
from dashboard.config import Options, load_options
from dashboard.demo.describe import DemoReplica, targets
from dashboard.demo.server import DemoServer, in_thread
from dashboard.demo.story import HOUR, default_fleet
from dashboard.sources.discovery import Discovery, discover_once
from dashboard.store.opening import HistoryStatus
from tests.serving import wait_for
from tests.sources.polling.hostile import HostileServer, answers

pytestmark = pytest.mark.usefixtures("service_folder")


@pytest.fixture
def demo() -> Iterator[DemoServer]:
    with in_thread(default_fleet(3)) as server:
        yield server


def options_for(server: DemoServer, **more: Any) -> Options:
    addresses = [f"{entry['targets'][0]}" for entry in targets(server.fleet, server.port)]
    return Options.model_validate({"name": "test", "targets": addresses, "poll": {"interval_seconds": 1}, **more})


def test_a_started_collector_has_the_fleet(demo: DemoServer) -> None:
    service.start(options_for(demo))
    wait_for(lambda: service.progress().polls >= 1)

    assert service.current().polled_at is not None
    assert [replica.state for replica in service.current().replicas] == ["up", "up", "up"]
    assert service.interval_seconds() == 1


def test_polls_without_changes_keep_the_generation(demo: DemoServer) -> None:
    service.start(options_for(demo))
    wait_for(lambda: service.progress().polls >= 1)
    first = service.current()
    wait_for(lambda: service.progress().polls >= 2)

    later = service.current()
    assert later.generation == first.generation
    assert first.polled_at is not None
    assert later.polled_at is not None
    assert later.polled_at > first.polled_at
    assert later.since == first.since == first.polled_at


def test_a_restart_with_another_block_size_is_a_new_generation(demo: DemoServer) -> None:
    service.start(options_for(demo))
    wait_for(lambda: service.progress().polls >= 1)
    before = service.current().generation

    demo.restart(demo.fleet[0].address, ["--block-size", "64"])

    wait_for(lambda: service.current().generation > before)
    assert service.current().since == service.current().polled_at
    assert any(
        difference.path == "cache_config.block_size"
        for pool in service.current().pools
        for difference in pool.differences
    )


def test_an_immediate_stop_ends_the_thread() -> None:
    for _ in range(5):
        service.start(Options())
        service.stop()

    assert "collector" not in {thread.name for thread in threading.enumerate()}


def test_poll_once_reports_its_progress(demo: DemoServer) -> None:
    options = options_for(demo)
    reported: list[tuple[int, int]] = []

    fleet = service.poll_once(options, discover_once(options), "", lambda done, total: reported.append((done, total)))

    assert reported[-1] == (3, 3)
    assert len(fleet.replicas) == 3


def test_an_internal_error_is_counted_and_polling_continues(
    demo: DemoServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = Discovery.discover
    calls = []

    def broken_once(discovery: Discovery, at: datetime, wait_seconds: float) -> object:
        calls.append(discovery)
        if len(calls) == 1:
            raise RuntimeError("planted")
        return real(discovery, at, wait_seconds)

    monkeypatch.setattr(Discovery, "discover", broken_once)
    service.start(options_for(demo))
    wait_for(lambda: service.progress().polls >= 1)

    assert service.progress().failures == 1
    assert "a poll failed" in caplog.text


class Clock:
    """A manual clock."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at


@contextmanager
def collecting(options: Options, clock: Clock) -> Iterator[service.Collector]:
    """Yield a collector after two polls."""
    collector = service.Collector(options, clock)
    collector.start()
    try:
        wait_for(lambda: collector.progress.polls >= 2)
        yield collector
    finally:
        collector.stop()


A_MOMENT = timedelta(seconds=2)  # too short for stale data
SUPPRESSED = {"rule": "RT-01", "owner": "kv-team", "reason": "known", "until": "2026-12-31"}


def test_an_expired_suppression_is_a_new_generation(demo: DemoServer) -> None:
    demo.restart(demo.fleet[0].address, ["--block-size", "64"])
    clock = Clock(datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC))

    with collecting(options_for(demo, suppress=[SUPPRESSED]), clock) as collector:
        before = collector.fleet
        clock.at += A_MOMENT
        wait_for(lambda: collector.fleet.generation > before.generation)

    assert "RT-01" not in {finding.rule for finding in before.inspection.findings}
    assert [finding.rule for finding in before.inspection.suppressed] == ["RT-01"]
    (finding,) = (finding for finding in collector.fleet.inspection.findings if finding.rule == "RT-01")
    assert finding.expired is not None
    assert finding.expired.owner == "kv-team"
    assert collector.fleet.inspection.suppressed == ()


def test_the_end_of_a_rollout_is_a_new_generation() -> None:
    with in_thread(upgrading()) as server:
        clock = Clock(datetime.now(UTC))
        with collecting(options_for(server), clock) as collector:
            before = collector.fleet
            clock.at += timedelta(hours=7)
            wait_for(lambda: collector.fleet.generation > before.generation)

    assert set(before.inspection.rollouts) == {"qwen3-8b"}
    assert collector.fleet.inspection.rollouts == {}


def upgrading() -> list[DemoReplica]:
    """Two replicas on a new version, started just now, and two that run the old one."""
    pool = [each for each in default_fleet() if each.configuration.served_name == "qwen3-8b"]
    new, old = ([each for each in pool if (each.uptime_seconds < HOUR) is young] for young in (True, False))
    return [*new[:2], *old[:2]]


def test_time_alone_is_no_new_generation(demo: DemoServer) -> None:
    demo.restart(demo.fleet[0].address, ["--block-size", "64"])
    clock = Clock(datetime(2026, 12, 30, 23, 59, 59, tzinfo=UTC))

    with collecting(options_for(demo, suppress=[SUPPRESSED]), clock) as collector:
        before = collector.fleet
        clock.at += A_MOMENT
        wait_for(lambda: collector.fleet.polled_at == clock.at)

    assert collector.fleet.generation == before.generation


def write_options(file: Path, server: DemoServer, **more: Any) -> Path:
    """Write a fleet.yaml for these simulated replicas."""
    addresses = [f"{entry['targets'][0]}" for entry in targets(server.fleet, server.port)]
    file.write_text(yaml.safe_dump({"targets": addresses, "poll": {"interval_seconds": 3600}, **more}))
    return file


def test_a_changed_file_is_used_by_the_next_poll_at_once(demo: DemoServer, tmp_path: Path) -> None:
    file = write_options(tmp_path / "fleet.yaml", demo, name="before")
    service.start(load_options(file))
    wait_for(lambda: service.progress().polls >= 1)

    write_options(file, demo, name="after", ignore=["cache_config.*"], redact={"names": ["cookie jar"]})
    wait_for(lambda: service.current().name == "after")
    assert service.current().ignored == ("cache_config.*",)
    assert [each.state for each in service.current().replicas] == ["up", "up", "up"]


def test_a_wrong_file_keeps_fleet_and_options_and_is_a_new_generation(demo: DemoServer, tmp_path: Path) -> None:
    file = write_options(tmp_path / "fleet.yaml", demo, name="before")
    service.start(load_options(file))
    wait_for(lambda: service.progress().polls >= 1)
    before = service.current()

    file.write_text("nmae: after\n")
    service.reload()
    wait_for(lambda: service.current().generation > before.generation)
    assert (status := service.reload_status()) is not None
    assert status.mistakes == ("fleet.yaml:1: nmae: unknown key; did you mean name?",)
    assert (service.current().name, len(service.current().replicas)) == ("before", 3)


def test_targets_of_a_broken_list_survive_a_reload(demo: DemoServer, tmp_path: Path) -> None:
    listed = tmp_path / "targets.json"
    listed.write_text(json.dumps(targets(demo.fleet, demo.port)))
    file = tmp_path / "fleet.yaml"
    file.write_text("file_sd: [{files: [targets.json]}]\npoll: {interval_seconds: 3600}\n")
    service.start(load_options(file))
    wait_for(lambda: service.progress().polls >= 1)

    listed.write_text("[{")
    file.write_text("name: after\nfile_sd: [{files: [targets.json]}]\npoll: {interval_seconds: 3600}\n")
    service.reload()
    wait_for(lambda: service.current().name == "after")
    assert [each.target_stale for each in service.current().replicas] == [True] * 3


def test_the_log_says_once_that_a_source_cannot_be_read_and_that_it_can_again(
    demo: DemoServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listed = tmp_path / "targets.json"
    listed.write_text("[{")
    options = {"file_sd": [{"files": [str(listed)]}], "poll": {"interval_seconds": 1}}
    service.start(Options.model_validate(options))
    wait_for(lambda: service.progress().polls >= 2)
    listed.write_text(json.dumps(targets(demo.fleet, demo.port)))
    wait_for(lambda: len(service.current().replicas) > 0)

    said = [each for each in caplog.messages if each.startswith("a source of targets")]
    assert [each.partition(": ")[0] for each in said] == [
        "a source of targets cannot be read",
        "a source of targets can be read again",
    ]
    assert all("targets.json" in each for each in said)


def alerted(receiver: HostileServer) -> set[str]:
    """The rules of which an Alertmanager has alerts."""
    sent = [json.loads(each.body) for each in receiver.asked if each.path == "/api/v2/alerts"]
    return {alert["labels"]["rule"] for alerts in sent for alert in alerts}


def test_the_collector_notifies_receivers_after_each_poll_also_those_of_a_reload(
    demo: DemoServer, working_folder: Path
) -> None:
    with HostileServer() as receiver:
        receiver.routes["/api/v2/alerts"] = receiver.routes["/hook"] = answers(b"")
        file = working_folder / "fleet.yaml"
        given = json.loads(options_for(demo).model_dump_json(include={"targets", "poll"}))
        file.write_text(yaml.safe_dump(given))
        service.start(load_options(file))
        wait_for(lambda: service.progress().polls >= 1)
        assert service.receivers() == ()

        hook = {"url": f"{receiver.address}/hook", "min_severity": "info"}
        notify = {"alertmanagers": [{"url": receiver.address}], "webhooks": [hook]}
        file.write_text(yaml.safe_dump({**given, "notify": notify}))
        service.reload()
        wait_for(lambda: [each.kind for each in service.receivers()] == ["alertmanager", "webhook"])
        demo.restart(demo.fleet[0].address, ["--block-size", "64"])
        wait_for(lambda: "RT-01" in alerted(receiver))
        wait_for(lambda: service.notification_outcomes()["alertmanager", "ok"] >= 1)  # its answer comes after it


def test_a_webhook_without_its_url_is_logged_at_the_start_and_shown_before_anything_is_sent(
    demo: DemoServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("SLACK_URL", raising=False)
    service.start(options_for(demo, notify={"webhooks": [{"url_env": "SLACK_URL", "format": "slack"}]}))
    unset = "the variable SLACK_URL is empty or not set"
    assert f"slack SLACK_URL gets no notifications: {unset}" in caplog.text
    wait_for(lambda: service.receivers() != ())

    (status,) = service.receivers()
    assert (status.kind, status.name, status.host, status.error) == ("slack", "SLACK_URL", "", unset)
    assert service.progress().failures == 0


def test_snapshots_are_pinned_while_polls_are_recorded(demo: DemoServer, working_folder: Path) -> None:
    service.start(options_for(demo, data_folder=working_folder / "data", history={"enabled": True}))
    wait_for(lambda: service.progress().polls > 0)

    frozen = service.snapshots().save(service.current(), "now", service.now()).id
    polls = service.progress().polls
    wait_for(lambda: service.progress().polls > polls)
    status = service.history_status()
    assert status is not None
    assert status == HistoryStatus(recorded_at=service.current().polled_at, size_bytes=status.size_bytes)
    assert status.size_bytes
    assert {each.id for each in service.snapshots().all()} == {frozen}
    assert service.open_snapshot(frozen).replicas
    assert service.snapshots().answers(frozen, 0)
