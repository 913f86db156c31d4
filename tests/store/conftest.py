"""A folder of snapshots, and the id of the first one in it."""

from pathlib import Path

import pytest

from dashboard.store import Snapshots
from tests.builders import NOW
from tests.store.folders import a_fleet


@pytest.fixture
def store(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path / "kept")


@pytest.fixture
def key(store: Snapshots) -> str:
    return store.freeze(a_fleet(), "the first", NOW).id
