"""Which earlier snapshot is taken for the last review."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dashboard.models import Note
from dashboard.store import Snapshots
from dashboard.ui.review_before import APART, last_review
from tests import builders
from tests.builders import NOW

if TYPE_CHECKING:
    from pathlib import Path

    from dashboard.store import Stored

MINUTE, WEEK = timedelta(minutes=1), timedelta(days=7)


@pytest.fixture
def store(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path)


def frozen(store: Snapshots, ago: timedelta, note: str = "") -> str:
    key = store.freeze(builders.fleet([builders.replica()], polled_at=NOW - ago), "", NOW).id
    if note:
        store.note(key, "x", Note(note))
    return key


def last(store: Snapshots) -> Stored | None:
    return last_review(store.all(), builders.fleet(polled_at=NOW))


def test_it_is_the_newest_with_notes_for_that_one_was_reviewed(store: Snapshots) -> None:
    frozen(store, MINUTE)
    reviewed = frozen(store, WEEK, "Ana restarts it.")
    frozen(store, 2 * WEEK, "Older.")
    found = last(store)

    assert found is not None
    assert found.id == reviewed


def test_without_notes_what_was_frozen_just_before_is_none(store: Snapshots) -> None:
    """It was frozen for the same meeting."""
    frozen(store, MINUTE)
    before = frozen(store, APART)
    frozen(store, WEEK)
    found = last(store)

    assert found is not None
    assert found.id == before


def test_where_nothing_else_is_there_it_is_the_newest(store: Snapshots) -> None:
    newest = frozen(store, MINUTE)
    frozen(store, 2 * MINUTE)
    found = last(store)

    assert found is not None
    assert found.id == newest


def test_the_first_review_has_none_before_it(store: Snapshots) -> None:
    assert last(store) is None
