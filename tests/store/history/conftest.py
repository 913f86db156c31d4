"""A history of one poll, and snapshots in files and in the history."""

from pathlib import Path

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Note
from dashboard.store.snapshots import Snapshots
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
    return with_two(Snapshots(tmp_path / "kept"), demo_fleet)


@pytest.fixture
def pins(history: Recorded, tmp_path: Path, demo_fleet: Fleet) -> Snapshots:
    """The same snapshots in the history."""
    return with_two(Snapshots(tmp_path / "pinned", history=lambda: history.database), demo_fleet)


def with_two(snapshots: Snapshots, fleet: Fleet) -> Snapshots:
    """Freeze two fleets."""
    key = snapshots.freeze(fleet, "before the rollout", LATER).id
    snapshots.note(key, "RT-01", Note("known", "ann"))
    snapshots.freeze(built_of_captures(), "captures", LATER)
    return snapshots
