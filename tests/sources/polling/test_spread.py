"""When the requests of a poll begin, and which polls ask for everything."""

import asyncio
import time
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from dashboard.config import PollOptions
from dashboard.sources.polling.poller import Poller
from dashboard.sources.polling.spread import MAX_SPREAD_SECONDS, STEP_SECONDS, delays_of, phase_of
from tests.sources.polling.hostile import HostileServer

AT = datetime(2026, 3, 2, 11, 42, tzinfo=UTC)
NAMES = [f"http://10.0.{number // 250}.{number % 250}:8000" for number in range(1_000)]
names = st.lists(st.text(max_size=20), unique=True, max_size=30)
limits = st.builds(
    PollOptions,
    interval_seconds=st.floats(1, 86_400),
    poll_timeout_seconds=st.floats(0.1, 3_600),
    replica_timeout_seconds=st.just(0.1),
    probe_timeout_seconds=st.just(0.1),
)


@given(names, limits)
def test_replicas_that_were_never_asked_begin_at_once(names: list[str], limits: PollOptions) -> None:
    assert delays_of(names, (), limits) == [0.0] * len(names)


@given(names, limits)
def test_delays_are_stable_begin_with_none_and_leave_time(names: list[str], limits: PollOptions) -> None:
    delays = delays_of(names, names, limits)

    assert delays == delays_of(names, names, limits)
    assert min(delays, default=0.0) == 0.0
    assert max(delays, default=0.0) <= min(
        limits.interval_seconds / 4, limits.poll_timeout_seconds / 4, MAX_SPREAD_SECONDS
    )


def test_replicas_are_spread_evenly_over_a_quarter_of_the_interval() -> None:
    delays = delays_of(NAMES, NAMES, PollOptions(interval_seconds=16))

    groups = [delays.count(delay) for delay in sorted(set(delays))]
    assert len(groups) == 4 / STEP_SECONDS
    assert max(groups) < 60, "25 on average"


def test_a_new_replica_does_not_wait_for_the_others() -> None:
    delays = delays_of(NAMES, NAMES[1:], PollOptions())

    assert delays[0] == 0.0
    assert max(delays) > 3


def test_a_later_poll_keeps_the_delays(server: HostileServer) -> None:
    targets = [server.replica(f"r{number}") for number in range(5)]
    options = PollOptions(interval_seconds=2)
    names = [each.id for each in targets]
    delays = dict(zip(names, delays_of(names, names, options), strict=True))

    async def run() -> float:
        poller = Poller(options)
        await poller.poll(targets, lambda: AT)
        server.asked.clear()
        began = time.monotonic()
        await poller.poll(targets, lambda: AT)
        return time.monotonic() - began

    assert asyncio.run(run()) >= max(delays.values())
    waits = [delays[server.address + each.path.removesuffix("/metrics")] for each in server.asked]
    assert len(waits) == 5
    assert waits == sorted(waits)


def test_replicas_are_asked_for_everything_at_different_polls(server: HostileServer) -> None:
    targets = sorted((server.replica(f"r{number}") for number in range(8)), key=lambda each: phase_of(each.id))
    options, seconds = PollOptions(interval_seconds=1, full_poll_interval_seconds=1_000), [0.0]
    asked: list[set[str]] = []

    async def run() -> None:
        poller = Poller(options, lambda: seconds[0])
        for seconds[0] in (0.0, 400.0, 1_000 - 500 * phase_of(targets[3].id) + 1e-6, 1_001.0, 1_002.0):
            server.asked.clear()
            await poller.poll(targets, lambda: AT)
            asked.append({each.path.partition("/version")[0] for each in server.asked if "/version" in each.path})

    asyncio.run(run())
    paths = [target.id.removeprefix(server.address) for target in targets]
    assert asked == [set(paths), set(), set(paths[3:]), set(paths[:3]), set()]
