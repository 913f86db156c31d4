"""The last review: which earlier snapshot it is, and the problem where it is unreadable."""

from datetime import timedelta

from dashboard.fleet import Note
from dashboard.store.reviews import APART, LastReview, NoLastReview, earlier, last_review, opened
from dashboard.store.snapshots import Snapshots
from tests import builders
from tests.builders import NOW
from tests.store.folders import damage

MINUTE, WEEK = timedelta(minutes=1), timedelta(days=7)
SHOWN = builders.fleet(polled_at=NOW)


def frozen(store: Snapshots, ago: timedelta, note: str = "", name: str = "", fleet: str = "prod-eu") -> str:
    key = store.save(builders.fleet([builders.replica()], polled_at=NOW - ago, name=fleet), name, NOW).id
    if note:
        store.note(key, "x", Note(note))
    return key


def last(store: Snapshots) -> LastReview:
    known = earlier(store, SHOWN)
    return opened(known, last_review(known, SHOWN), store.fleet)


def test_the_last_review_is_the_newest_snapshot_with_notes_and_has_them(store: Snapshots) -> None:
    frozen(store, MINUTE)
    reviewed = frozen(store, WEEK, "Ana restarts it.")
    frozen(store, 2 * WEEK, "Older.")
    found = last(store)

    assert (found.id, found.notes, found.problem) == (reviewed, {"x": Note("Ana restarts it.")}, "")
    assert found.fleet is not None
    assert found.fleet.polled_at == NOW - WEEK


def test_a_snapshot_that_is_named_a_review_is_one_unless_it_is_from_the_same_meeting(store: Snapshots) -> None:
    frozen(store, MINUTE, name="Review 2026-03-02")
    before = frozen(store, APART, name="Review 2026-03-01")
    frozen(store, WEEK, "Older.")

    assert last(store).id == before


def test_other_snapshots_are_no_reviews(store: Snapshots) -> None:
    assert last(store).missing is NoLastReview.FIRST

    for ago in (MINUTE, APART, WEEK):
        frozen(store, ago, name="before the upgrade")
    assert last(store) == LastReview(missing=NoLastReview.UNMARKED)


def test_a_recent_snapshot_that_is_named_a_review_is_the_reason_that_none_is_earlier(store: Snapshots) -> None:
    frozen(store, WEEK, name="before the upgrade")
    frozen(store, APART - MINUTE, name="Review 2026-03-02")

    assert last(store) == LastReview(missing=NoLastReview.RECENT)
    assert f"{APART // timedelta(hours=1)} hours" in NoLastReview.RECENT


def test_only_older_data_of_the_same_fleet_is_earlier(store: Snapshots) -> None:
    for ago in (timedelta(0), -MINUTE):
        frozen(store, ago)
    frozen(store, WEEK, fleet="another")
    older = [frozen(store, ago) for ago in (WEEK, 2 * WEEK)]

    assert [each.id for each in earlier(store, SHOWN).snapshots] == older


def test_a_damaged_last_review_is_a_problem(store: Snapshots) -> None:
    key = frozen(store, WEEK, "Noted.")
    damage(store, key, content=b"\x1f\x8b")
    found = last(store)

    assert (found.fleet, found.missing) == (None, NoLastReview.UNREAD)
    assert found.problem.startswith(f"Snapshot {key} is damaged: ")
