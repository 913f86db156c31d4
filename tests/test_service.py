"""The collector polls a real server, keeps what it knows, and changes the generation only when something changed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard import service
from dashboard.config import Options
from dashboard.demo.describe import DemoReplica, targets
from dashboard.demo.server import DemoServer, in_thread
from dashboard.demo.story import HOUR, default_fleet
from dashboard.sources.discovery import Discovery

PATIENCE_SECONDS = 30.0


@pytest.fixture
def demo() -> Iterator[DemoServer]:
    with in_thread(default_fleet(3)) as server:
        yield server


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    yield
    service.stop()


def options_for(server: DemoServer, **more: Any) -> Options:
    addresses = [f"{entry['targets'][0]}" for entry in targets(server.fleet, server.port)]
    return Options.model_validate({"name": "test", "targets": addresses, "poll": {"interval_seconds": 1}, **more})


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until the collector's thread has got there."""
    ticks = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.02)):
        if condition():
            return
        ticks.wait(0.02)
    pytest.fail("the collector did not get there")


def test_a_started_collector_brings_the_fleet(demo: DemoServer) -> None:
    service.start(options_for(demo))
    wait_for(lambda: service.progress().polls >= 1)  # counted when the fleet is there

    assert service.current().polled_at is not None
    assert [replica.state for replica in service.current().replicas] == ["up", "up", "up"]
    assert service.interval_seconds() == 1


def test_polls_that_find_nothing_new_keep_the_generation_and_move_the_time(demo: DemoServer) -> None:
    service.start(options_for(demo))
    wait_for(lambda: service.progress().polls >= 1)
    first = service.current()
    wait_for(lambda: service.progress().polls >= 2)

    later = service.current()
    assert later.generation == first.generation
    assert first.polled_at is not None
    assert later.polled_at is not None
    assert later.polled_at > first.polled_at
    assert later.since == first.since == first.polled_at  # what pages without times are remembered by


def test_a_restart_with_another_block_size_is_a_new_generation(demo: DemoServer) -> None:
    service.start(options_for(demo))
    wait_for(lambda: service.progress().polls >= 1)
    before = service.current().generation

    demo.restart(demo.fleet[0].address, block_size=64)

    wait_for(lambda: service.current().generation > before)
    assert service.current().since == service.current().polled_at
    assert any(
        difference.path == "cache_config.block_size"
        for pool in service.current().pools
        for difference in pool.differences
    )


def test_a_stop_that_follows_at_once_ends_the_thread_too() -> None:
    for _ in range(5):
        service.start(Options())
        service.stop()

    assert "collector" not in {thread.name for thread in threading.enumerate()}


def test_one_poll_from_the_command_line_hears_how_far_it_is(demo: DemoServer) -> None:
    options = options_for(demo)
    heard: list[tuple[int, int]] = []

    fleet = service.poll_once(options, Discovery(options).discover(), lambda done, total: heard.append((done, total)))

    assert heard[-1] == (3, 3)
    assert len(fleet.replicas) == 3


def test_a_mistake_of_ours_is_counted_and_polling_goes_on(
    demo: DemoServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = Discovery.discover
    calls = []

    def broken_once(discovery: Discovery) -> object:
        calls.append(discovery)
        if len(calls) == 1:
            raise RuntimeError("planted")
        return real(discovery)

    monkeypatch.setattr(Discovery, "discover", broken_once)
    service.start(options_for(demo))
    wait_for(lambda: service.progress().polls >= 1)

    assert service.progress().failures == 1
    assert "a poll failed" in caplog.text


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at


@contextmanager
def collecting(options: Options, clock: Clock) -> Iterator[service.Collector]:
    """A collector that has polled at least twice, so that what follows is no news of the first polls."""
    collector = service.Collector(options, clock)
    collector.start()
    try:
        wait_for(lambda: collector.progress.polls >= 2)
        yield collector
    finally:
        collector.stop()


A_MOMENT = timedelta(seconds=2)  # too short for what was read before it to grow old
SUPPRESSED = {"rule": "RT-01", "owner": "kv-team", "reason": "known", "until": "2026-12-31"}


def test_a_suppression_that_ends_at_midnight_changes_what_pages_show(demo: DemoServer) -> None:
    demo.restart(demo.fleet[0].address, block_size=64)
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


def test_a_rollout_that_no_longer_goes_on_changes_what_pages_show() -> None:
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


def test_time_that_passes_without_such_an_end_is_no_new_generation(demo: DemoServer) -> None:
    demo.restart(demo.fleet[0].address, block_size=64)
    clock = Clock(datetime(2026, 12, 30, 23, 59, 59, tzinfo=UTC))

    with collecting(options_for(demo, suppress=[SUPPRESSED]), clock) as collector:
        before = collector.fleet
        clock.at += A_MOMENT
        wait_for(lambda: collector.fleet.polled_at == clock.at)

    assert collector.fleet.generation == before.generation
