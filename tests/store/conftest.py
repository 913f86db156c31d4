"""Snapshots in files, and in a history; the id of the first one in them."""

from pathlib import Path

import pytest

from dashboard.store.snapshots import Snapshots
from tests.builders import NOW
from tests.store.folders import MakeStore, a_fleet


@pytest.fixture
def any_store(make_store: MakeStore, tmp_path: Path) -> Snapshots:
    return make_store(tmp_path / "kept")


@pytest.fixture
def any_key(any_store: Snapshots) -> str:
    return any_store.freeze(a_fleet(), "the first", NOW).id


@pytest.fixture
def store(tmp_path: Path) -> Snapshots:
    """Snapshots in files."""
    return Snapshots(tmp_path / "kept")


@pytest.fixture
def key(store: Snapshots) -> str:
    return store.freeze(a_fleet(), "the first", NOW).id
