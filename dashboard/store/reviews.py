"""The last review of a fleet: its snapshot and its notes."""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.fleet.pools import Notes
from dashboard.store.packing import SnapshotList, StoredSnapshot

if TYPE_CHECKING:  # it imports SQLAlchemy, 0.2 s that few commands need
    from dashboard.store.snapshots import Snapshots

REVIEW = "Review"  # begins the name of a snapshot that is saved on the page Review
APART = timedelta(hours=4)  # snapshots of one meeting and its preparation are closer together


class NoLastReview(StrEnum):
    """Why a review is compared with no other, as a sentence."""

    FIRST = "First review of this fleet: nothing to compare with."
    UNMARKED = "No earlier snapshot is a review: none has notes or is named “Review”."
    RECENT = "No earlier review: a snapshot named “Review” is less than 4 hours older and has no notes."
    UNREAD = "The last review cannot be opened, so what is new since then is unknown."
    CHOSEN = "This review is not compared with an earlier one."


class LastReview(NamedTuple):
    """The last review: its snapshot, fleet and notes. Where `fleet` is None, `missing` is the reason.

    `problem` is why it or its notes cannot be read.
    """

    id: str | None = None
    fleet: Fleet | None = None
    noted: tuple[tuple[str, Note], ...] = ()
    problem: str = ""
    missing: NoLastReview = NoLastReview.FIRST

    @property
    def notes(self) -> Notes:
        """Return its notes by subject."""
        return dict(self.noted)


def earlier(store: "Snapshots", fleet: Fleet) -> SnapshotList:
    """Return the snapshots of this fleet whose data is older than its own, newest first; else why none can be read."""
    as_of = fleet.polled_at
    if as_of is None:
        return SnapshotList()
    known = store.all()
    problem = "" if known else store.problem()
    return SnapshotList(
        tuple(each for each in known if each.metadata.fleet == fleet.name and each.metadata.data_as_of < as_of),
        damaged=(problem,) if problem else (),
    )


def last_review(known: SnapshotList, fleet: Fleet) -> StoredSnapshot | None:
    """Return the newest earlier snapshot that is a review; None without one.

    A review has notes, or it is named so and not from the same meeting. Other snapshots are saved for other reasons.
    """
    as_of = fleet.polled_at
    for stored in known.snapshots:
        if (
            stored.metadata.notes or stored.problem or _is_named_review(stored, as_of)
        ):  # a problem: its notes cannot be read
            return stored
    return None


def _is_named_review(stored: StoredSnapshot, as_of: datetime | None = None) -> bool:
    """Return whether a snapshot is named a review; with `as_of`, also whether its data is APART older."""
    return stored.metadata.name.startswith(REVIEW) and (as_of is None or as_of - stored.metadata.data_as_of >= APART)


def opened(known: SnapshotList, stored: StoredSnapshot | None, fleet_of: Callable[[str], Fleet]) -> LastReview:
    """Open an earlier snapshot with its notes; `fleet_of` opens a snapshot by id and may raise SnapshotError."""
    if stored is None:
        if known.damaged:
            return _unread(known.damaged[0])
        if any(_is_named_review(each) for each in known.snapshots):
            return LastReview(missing=NoLastReview.RECENT)
        return LastReview(missing=NoLastReview.UNMARKED if known.snapshots else NoLastReview.FIRST)
    try:
        return LastReview(stored.id, fleet_of(stored.id), tuple(sorted(stored.metadata.notes.items())), stored.problem)
    except SnapshotError as error:
        return _unread(str(error))


def _unread(problem: str) -> LastReview:
    return LastReview(problem=problem, missing=NoLastReview.UNREAD)
