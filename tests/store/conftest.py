"""Snapshots in a folder, and the id of the first one in them."""

from pathlib import Path

import pytest

from dashboard.store.snapshots import Snapshots
from tests.builders import NOW
from tests.store.folders import a_fleet


@pytest.fixture
def store(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path / "kept")


@pytest.fixture
def key(store: Snapshots) -> str:
    return store.save(a_fleet(), "the first", NOW).id
