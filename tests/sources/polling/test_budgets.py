"""A hostile replica does not affect others. Real servers on loopback."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from dashboard.config import PollOptions
from dashboard.errors import UnreadableError
from dashboard.fleet import FailureKind, ReplicaState, Snapshot, Target
from dashboard.sources.http.client import Client
from dashboard.sources.polling.poller import Poller
from dashboard.sources.source import Deadline
from tests.polled_fleets import build_fleet
from tests.sources.polling.hostile import (
    CAPTURE,
    STOCK,
    Exchange,
    HostileServer,
    answers,
    everywhere,
    tiny_objects,
    trickles,
)

AT = datetime(2026, 3, 2, 11, 42, tzinfo=UTC)
GOOD = 40
LATENCY_SECONDS = 0.6
LIMITS = PollOptions()


def late(body: bytes) -> Callable[[Exchange], Awaitable[None]]:
    async def behave(exchange: Exchange) -> None:
        await asyncio.sleep(LATENCY_SECONDS)
        await exchange.reply(body)

    return behave


def poll(targets: Sequence[Target], limits: PollOptions = LIMITS) -> list[Snapshot]:
    return list(asyncio.run(Poller(limits).poll(targets, lambda: AT)))


def test_forty_slow_replicas_are_up_with_a_hostile_one(server: HostileServer) -> None:
    targets = [Target(f"{server.address}/good-{number}") for number in range(GOOD)]
    for number in range(GOOD):
        for path, file in STOCK.items():
            server.routes[f"/good-{number}{path}"] = late((CAPTURE / file).read_bytes())
    hostile = everywhere(server, "hostile", answers(tiny_objects()))
    server.routes["/hostile/metrics"] = answers((CAPTURE / "metrics.txt").read_bytes())
    server.routes["/hostile/v1/config"] = trickles

    fleet = build_fleet("x", poll([hostile, *targets]), polled_at=AT, interval=timedelta(seconds=15))

    states = {each.id: each.state for each in fleet.replicas}
    assert states.pop(hostile.id) is ReplicaState.PARTIAL
    assert list(states.values()) == [ReplicaState.UP] * GOOD


def test_the_size_of_a_configuration_is_limited(server: HostileServer) -> None:
    target = server.replica("a")
    server.routes["/a/v1/config"] = answers(tiny_objects())
    (snapshot,) = poll([target])
    failure = snapshot.probes["/v1/config"].failure
    assert failure is not None
    assert failure.kind is FailureKind.TOO_LARGE
    assert failure.detail.endswith("/v1/config with more than 1 MiB; the rest was not read.")


def test_the_processor_time_of_a_replica_is_limited(server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.sources.polling.poller.READ_SECONDS", 0.0)
    target = server.replica("a")
    (snapshot,) = poll([target])
    assert server.paths("a") == ["/metrics"]
    failures = {path: result.failure for path, result in snapshot.probes.items()}
    assert failures.pop("/metrics") is None
    assert {each.kind for each in failures.values() if each} == {FailureKind.TOO_LARGE}
    assert "took more than 0 s to parse" in str(failures["/version"])


def test_a_timeout_pauses_while_this_process_is_busy(server: HostileServer) -> None:
    async def ask() -> FailureKind | None:
        async with Client(connections=1, max_answer_bytes=2**20, max_headers=100) as client:
            asyncio.get_running_loop().call_later(0.1, time.sleep, 1.2)
            answer = await client.get(Target(f"{server.address}/a"), "/version", seconds=1.0)
            return answer.failure.kind if answer.failure else None

    server.routes["/a/version"] = late(b"{}")
    assert asyncio.run(ask()) is None


def test_the_deadline_of_a_source_counts_the_time_in_which_this_process_is_busy() -> None:
    async def read() -> None:
        deadline, loop = Deadline(0.05), asyncio.get_running_loop()
        assert 0 < deadline.left() <= 0.05
        ends_at = loop.time() + 0.06
        while loop.time() < ends_at:  # as a large answer is read: no timer of the event loop runs
            pass
        with pytest.raises(UnreadableError, match=r"takes longer than 0\.05 s to read"):
            deadline.left()

    asyncio.run(read())


def test_the_end_of_the_poll_is_named_as_the_cause(server: HostileServer) -> None:
    (snapshot,) = poll([server.replica("a")], LIMITS.model_copy(update={"poll_timeout_seconds": 0.0}))
    failure = snapshot.probes["/metrics"].failure
    assert failure is not None
    assert failure.detail.startswith("The poll ended before ")
    assert "poll.poll_timeout_seconds" in failure.detail


def test_full_polls_do_not_depend_on_the_wall_clock(server: HostileServer) -> None:
    seconds, now = [0.0], [AT]
    poller = Poller(LIMITS, lambda: seconds[0])
    target = server.replica("a")

    def asked() -> int:
        server.asked.clear()
        asyncio.run(poller.poll([target], lambda: now[0]))
        return len(server.asked)

    first = asked()
    now[0] -= timedelta(days=1)
    assert asked() == 1
    seconds[0] += LIMITS.full_poll_interval_seconds
    assert asked() == first
