"""Shared by all tests: the Hypothesis profile, the simulated fleet, both kinds of snapshots."""

import os
import re
import sqlite3
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import Connection
from streamlit.components.v2 import manifest_scanner

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.store.history.database import Database
from tests.frozen import frozen_fleet
from tests.serving import ROOT
from tests.sources.polling.hostile import HostileServer

# jsonschema compiles the grammar of IRIs when it is imported, for seconds: no schema here has one.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# No deadline, because machines are loaded. Derandomized: every run has the same examples. `make test-long` has more.
for _name, _examples in (("fleet", 25), ("long", 100)):
    settings.register_profile(
        _name, max_examples=_examples, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("fleet")

TESTS = Path(__file__).parent
# The packages whose coverage is measured, by tests of the same names.
CORE = {
    name.removeprefix("dashboard.").removeprefix("vllm_fleet_")
    for name in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]["run"]["source"]
}


def _is_core(path: Path) -> bool:
    return re.split("[_.]", path.relative_to(TESTS).parts[0].removeprefix("test_"))[0] in CORE


@cache
def _has_uncovered(path: Path) -> bool:
    """Return whether tests of a file run without coverage."""
    return not _is_core(path) or bool(re.search("hypothesis|no_cover", path.read_text()))


# Minutes each, some with one test only: begun late, one of them would run alone in the end.
LONGEST = {
    TESTS / name
    for name in (
        "e2e/test_screenshots.py",
        "e2e/test_every_page.py",
        "golden/test_golden_outputs.py",
        "notify/test_at_least_once.py",
        "store/history/test_damaged_rows.py",
        "store/history/test_history_instances.py",
        "store/history/test_history_kills.py",
        "store/history/test_history_law.py",
        "store/history/test_history_postgres.py",
    )
}


@cache
def _takes_long(path: Path) -> bool:
    """Return whether tests of a file start programs or have many examples."""
    return bool(
        re.search(r"mark\.browser|tests\.serving|subprocess|tests\.access\.openid|hypothesis", path.read_text())
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of the other run of `make test`: each of its processes imports all files."""
    selected: str = config.option.markexpr
    if "no_cover" not in selected or not collection_path.name.startswith("test_"):
        return None
    is_here = _is_core(collection_path) if "not no_cover" in selected else _has_uncovered(collection_path)
    return None if is_here else True


def _keep_few(items: list[pytest.Item]) -> None:
    """Mark cases of a test `long` but for as many as its mark `few` has: these are evenly spaced."""
    cases: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("few"):
            cases[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (_, most), own in cases.items():
        kept = {number * len(own) // most for number in range(most)}
        for number, item in enumerate(own):
            if number not in kept:
                item.add_marker("long")


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests outside of the core and Hypothesis tests `no_cover`: tracing doubles the time of a test.

    `make test` runs those separately. The longest files come first, then those that take long, then those with the most
    tests: their order is that in which processes get them, and few tests in a browser take longer than hundreds.
    """
    _keep_few(items)
    tests_of = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in LONGEST, not _takes_long(item.path), -tests_of[item.path]))
    for item in items:
        if not _is_core(item.path) or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("no_cover")
            assert _has_uncovered(item.path), f"{item.path} has to import hypothesis itself"


@pytest.fixture(scope="session", autouse=True)
def _component_scan_is_cached() -> Iterator[None]:
    """Scan for installed components once: Streamlit does so at every page run, for two thirds of its time."""
    with pytest.MonkeyPatch.context() as patch:
        scan = cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", scan)
        yield


@pytest.fixture(scope="session", autouse=True)
def _schema_is_made_once() -> Iterator[None]:
    """Copy the schema into each new SQLite file: Alembic takes longer to make it than most tests."""
    migrate, template = Database._migrate, sqlite3.connect(":memory:", check_same_thread=False)
    copying, is_made = Lock(), False

    def copied(self: Database, connection: Connection) -> None:
        nonlocal is_made
        file: Any = connection.connection.driver_connection
        with copying:  # else one copies over the rows that another has written since
            if self.file is None or self._version(connection) is not None:
                migrate(self, connection)
            elif is_made:
                template.backup(file)
            else:
                migrate(self, connection)
                file.backup(template)
                is_made = True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "_migrate", copied)
        yield
    template.close()


@pytest.fixture(scope="session", autouse=True)
def _no_history_is_left_in_the_checkout() -> Iterator[None]:
    """A started dashboard records: its test has a folder of its own."""
    own = (ROOT / "data").exists()
    yield
    assert own or not (ROOT / "data").exists(), "a test started a dashboard in the checkout; use working_folder"


@pytest.fixture(scope="session")
def demo_fleet() -> Fleet:
    """The simulated fleet, polled once with a stopped clock."""
    return frozen_fleet(port=0)


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run a test in an empty folder, without our environment variables."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.upper().startswith("FLEET_") or name == "COLUMNS"]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def service_folder(working_folder: Path) -> Iterator[Path]:
    """An empty folder for the service of this process, with its history; the service stops in the end."""
    yield working_folder
    service.stop()


@pytest.fixture(scope="module")
def module_server() -> Iterator[HostileServer]:
    with HostileServer() as server:
        yield server


@pytest.fixture
def server(module_server: HostileServer) -> HostileServer:
    """Return the server of the module, without routes and requests of other tests."""
    module_server.routes.clear()
    module_server.asked.clear()
    module_server.connections = 0
    return module_server
