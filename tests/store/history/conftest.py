"""A history of one poll, and snapshots in files, from which those in the history are imported."""

from pathlib import Path

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Note
from dashboard.store import Snapshots
from tests.captured import AT
from tests.polled_fleets import at, built
from tests.saved_fleets import built_of_captures
from tests.store.history.pinned import LATER
from tests.store.history.recorded import Recorded


@pytest.fixture
def history(tmp_path: Path) -> Recorded:
    history = Recorded(tmp_path)
    history.record(built(at(1), polled_at=AT))
    return history


@pytest.fixture
def files(tmp_path: Path, demo_fleet: Fleet) -> Snapshots:
    """Two snapshots in files, one of them with a note."""
    files = Snapshots(tmp_path / "kept")
    key = files.freeze(demo_fleet, "before the rollout", LATER).id
    files.note(key, "RT-01", Note("known", "ann"))
    files.freeze(built_of_captures(), "captures", LATER)
    return files


@pytest.fixture
def pins(history: Recorded, files: Snapshots) -> Snapshots:
    """The snapshots of the history, with the folder of the files."""
    return Snapshots(files.folder, history=lambda: history.database)
