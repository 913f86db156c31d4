"""The default fleet: served once for all tests that do not change it, and the answers of one replica without HTTP."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dashboard.demo import DemoServer, default_fleet, in_thread
from dashboard.demo.answers import DemoAnswer, DemoProcess
from dashboard.demo.describe import Behaviour, DemoReplica, Speaks
from dashboard.demo.pages import render

NOW = 1_795_000_000.0
FLEET = {replica.name: replica for replica in default_fleet()}


@pytest.fixture(scope="session")
def served() -> Iterator[DemoServer]:
    """The default fleet, with the clock stopped."""
    with in_thread(default_fleet(), clock=lambda: NOW) as server:
        yield server


def process_of(replica: DemoReplica, speaks: frozenset[Speaks] | None = None) -> DemoProcess:
    """Return the running process of a replica that is neither slow nor down, with other endpoints where given."""
    replica = replace(replica, behaviour=Behaviour.NORMAL)
    rendered = render(replica.configuration, replica.speaks if speaks is None else speaks)
    return DemoProcess.start(replica, rendered, NOW - replica.uptime_seconds)


def answer_of(process: DemoProcess, path: str, query: str = "") -> DemoAnswer:
    """Return the answer to a GET, whose status must be 200."""
    answer = process.answer("GET", path, None, NOW, query)
    assert answer.status == 200
    return answer
