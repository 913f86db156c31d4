"""What a snapshot shows, wherever it is kept."""

from datetime import timedelta

from dashboard.analysis.assembly import Fleet
from dashboard.store.packing import content_of
from dashboard.store.snapshots import Snapshots
from tests.captured import AT

LATER = AT + timedelta(days=40)


def assert_same(pins: Snapshots, files: Snapshots, key: str) -> None:
    """Compare everything that pages, exports and commands read of a snapshot."""
    assert_same_fleet(pins, files, key)
    assert pins.get(key) == files.get(key)
    assert pins.export(key) == files.export(key)


def assert_same_fleet(pins: Snapshots, files: Snapshots, key: str) -> None:
    """Compare the fleet of a snapshot."""
    one, other = pins.fleet(key), files.fleet(key)
    assert one == other
    assert content_of(one) == content_of(other)
    assert (one.snapshot, one.generation) == (key, other.generation)


def raw_of(fleet: Fleet, position: int) -> dict[str, bytes]:
    """Return the raw answers of a replica."""
    return {each.path: each.raw for each in fleet.replicas[position].probes if each.raw}
