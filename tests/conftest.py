"""What all tests share: how hard Hypothesis tries, the simulated fleet as it stood at one moment, the README."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from streamlit.components.v2 import manifest_scanner

from dashboard.analysis.assembly import Fleet
from tests.frozen import frozen_fleet
from tests.serving import ROOT

# Few examples, no deadline on a loaded machine. They are the same in every run of the same tests by one process:
# Hypothesis also tries the constants of those modules of ours that are imported by then.
settings.register_profile(
    "fleet", max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fleet")

TESTS = Path(__file__).parent
# What has to be covered whole: tests of the same names do that.
CORE = {
    name.removeprefix("dashboard.")
    for name in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]["run"]["source"]
}


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by the mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Measure the coverage of the core by its own examples alone: tracing doubles the time of a test.

    `make test` runs the others by themselves. Tests that go through hundreds of values are marked where they stand.
    """
    for item in items:
        subject = re.split("[_.]", item.path.relative_to(TESTS).parts[0].removeprefix("test_"))[0]
        if subject not in CORE or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("no_cover")


@pytest.fixture(scope="session", autouse=True)
def _components_are_looked_for_once() -> Iterator[None]:
    """Let Streamlit scan what is installed once: it does so at every run of a page, for two thirds of its time."""
    with pytest.MonkeyPatch.context() as patch:
        scan = cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", scan)
        yield


@pytest.fixture(scope="session")
def demo_fleet() -> Fleet:
    """The simulated fleet, polled once by a clock that stands still."""
    return frozen_fleet(port=0)


@pytest.fixture(scope="session")
def readme() -> str:
    """The README as it is committed."""
    return (ROOT / "README.md").read_text()
