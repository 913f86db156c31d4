"""Pinned moments open as the snapshots that they were imported from, and nothing prunes them."""

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.errors import HistoryError
from dashboard.fleet import Note
from dashboard.store import Snapshots
from dashboard.store.history.pins import Pins
from dashboard.store.history.retention import KEPT, prune
from dashboard.store.notes_file import with_name
from dashboard.store.packing import content_of
from tests.builders import NOW
from tests.captured import AT
from tests.polled_fleets import at, built
from tests.saved_fleets import built_of_captures
from tests.store.folders import a_fleet
from tests.store.history.recorded import POLL, Recorded, later

LATER = AT + timedelta(days=40)


@pytest.fixture
def history(tmp_path: Path) -> Recorded:
    history = Recorded(tmp_path)
    history.record(built(at(1)))
    return history


@pytest.fixture
def pins(history: Recorded) -> Pins:
    return Pins(history.database)


@pytest.fixture
def store(tmp_path: Path, demo_fleet: Fleet) -> Snapshots:
    """Two snapshots, one of them with a note."""
    store = Snapshots(tmp_path / "kept")
    key = store.freeze(demo_fleet, "before the rollout", LATER).id
    store.note(key, "RT-01", Note("known", "ann"))
    store.freeze(built_of_captures(), "captures", LATER)
    return store


def files(store: Snapshots) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in store.folder.iterdir() if each.suffix in {".gz", ".json"}}


def test_imported_snapshots_open_with_their_ids_names_and_notes(store: Snapshots, pins: Pins) -> None:
    before = files(store)
    report = pins.import_files(store)

    assert sorted(report.keys) == sorted(each.id for each in store.all())
    assert report.problems == ()
    assert [(each.key, each.metadata) for each in pins.all()] == [(each.id, each.metadata) for each in store.all()]
    for key in report.keys:
        assert content_of(pins.fleet(key)) == content_of(store.fleet(key))
        assert pins.fleet(key).snapshot == key
        assert pins.fleet(key).generation == store.fleet(key).generation
    assert files(store) == before


def test_an_import_goes_on_where_it_ended_and_changes_nothing_twice(store: Snapshots, pins: Pins) -> None:
    first, second = (each.id for each in store.all())
    assert pins.keep(first, store.fleet(first), store.get(first).metadata)
    pins.change(first, lambda metadata: with_name(metadata, "renamed"))

    assert pins.import_files(store).keys == (second,)
    assert pins.import_files(store).keys == ()
    assert {each.metadata.name for each in pins.all()} >= {"renamed"}


def test_a_broken_file_is_reported_and_left(store: Snapshots, pins: Pins) -> None:
    broken, whole = (each.id for each in store.all())
    file = store.folder / f"{broken}.json.gz"
    file.write_bytes(damaged := file.read_bytes()[:-200])
    odd = store.freeze(a_fleet(), "odd notes", NOW).id
    (store.folder / f"{odd}.notes.json").write_text("{")

    report = pins.import_files(store)

    assert report.keys == (whole,)
    assert len(report.problems) == 2
    assert f"Snapshot {broken} is damaged." in " ".join(report.problems)
    assert file.read_bytes() == damaged


def test_what_is_pinned_is_never_pruned(store: Snapshots, history: Recorded, pins: Pins) -> None:
    keys = pins.import_files(store).keys
    history.record(later(built(at(2)), POLL))
    list(prune(history.database, LATER + timedelta(days=5000), KEPT))

    for key in keys:
        assert content_of(pins.fleet(key)) == content_of(store.fleet(key))


def test_a_deleted_pin_is_gone_and_pruning_frees_its_bodies(store: Snapshots, history: Recorded, pins: Pins) -> None:
    bodies = history.rows("body")
    for key in pins.import_files(store).keys:
        pins.delete(key)
        with pytest.raises(HistoryError, match=f"There is no snapshot {key} in the history"):
            pins.fleet(key)
    assert history.rows("body") > bodies
    list(prune(history.database, AT, KEPT))
    assert history.rows("body") == bodies
