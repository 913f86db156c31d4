"""The collector polls a real server, keeps what it knows, and changes the generation only when something changed."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from dashboard import service
from dashboard.demo.describe import targets
from dashboard.demo.server import DemoServer, in_thread
from dashboard.demo.story import default_fleet
from dashboard.discovery import Discovery
from dashboard.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dashboard.fleet import Fleet

PATIENCE_SECONDS = 30.0


@pytest.fixture
def demo() -> Iterator[DemoServer]:
    with in_thread(default_fleet(3)) as server:
        yield server


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    yield
    service.stop()


def options_for(server: DemoServer) -> Options:
    addresses = [f"{entry['targets'][0]}" for entry in targets(server.fleet, server.port)]
    return Options.model_validate({"name": "test", "targets": addresses, "poll": {"interval_seconds": 1}})


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until the collector's thread has got there."""
    ticks = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.02)):
        if condition():
            return
        ticks.wait(0.02)
    pytest.fail("the collector did not get there")


def test_before_the_first_poll_the_fleet_is_empty_and_says_so() -> None:
    service.stop()

    assert service.current().polled_at is None


def test_a_started_collector_brings_the_fleet(demo: DemoServer) -> None:
    service.start(options_for(demo))
    wait_for(lambda: service.current().polled_at is not None)

    assert [replica.state for replica in service.current().replicas] == ["up", "up", "up"]
    assert service.progress().polls >= 1
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


def test_a_restart_with_another_block_size_is_a_new_generation(demo: DemoServer) -> None:
    service.start(options_for(demo))
    wait_for(lambda: service.progress().polls >= 1)
    before = service.current().generation

    demo.restart(demo.fleet[0].address, block_size=64)

    wait_for(lambda: service.current().generation > before)
    assert any(
        difference.path == "cache_config.block_size"
        for pool in service.current().pools
        for difference in pool.differences
    )


def test_stopping_ends_the_thread(demo: DemoServer) -> None:
    service.start(options_for(demo))
    wait_for(lambda: service.progress().polls >= 1)

    service.stop()

    assert "collector" not in {thread.name for thread in threading.enumerate()}


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


def test_a_fleet_that_is_put_stands_with_its_clock(demo_fleet: Fleet) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)

    service.put(demo_fleet, at)

    assert service.current() is demo_fleet
    assert service.now() == at
    service.put(demo_fleet)
    assert abs(service.now() - datetime.now(UTC)) < timedelta(minutes=1)


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
