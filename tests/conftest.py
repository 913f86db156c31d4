"""What all tests share: how hard Hypothesis tries, the simulated fleet as it stood at one moment, the README."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.frozen import frozen_fleet
from tests.serving import ROOT

if TYPE_CHECKING:
    from dashboard.fleet import Fleet

# Few examples, the same in every run, no deadline on a loaded machine.
settings.register_profile(
    "fleet", max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fleet")


@pytest.fixture(scope="session")
def demo_fleet() -> Fleet:
    """The simulated fleet, polled once by a clock that stands still."""
    return frozen_fleet(port=0)


@pytest.fixture(scope="session")
def readme() -> str:
    """The README as it is committed."""
    return (ROOT / "README.md").read_text()
