"""The default fleet, served once for all tests that do not change it."""

from collections.abc import Iterator

import pytest

from dashboard.demo import DemoServer, default_fleet, in_thread
from dashboard.demo.describe import DemoReplica

NOW = 1_795_000_000.0


@pytest.fixture(scope="session")
def served() -> Iterator[DemoServer]:
    """The default fleet, with the clock stopped."""
    with in_thread(default_fleet(), clock=lambda: NOW) as server:
        yield server


@pytest.fixture(scope="session")
def by_name(served: DemoServer) -> dict[str, DemoReplica]:
    """The replicas of the default fleet by their name."""
    return {replica.name: replica for replica in served.fleet}
