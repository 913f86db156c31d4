"""The last review of a fleet: which of its frozen snapshots that was, and what was written then."""

from collections.abc import Callable
from datetime import timedelta
from itertools import chain
from typing import NamedTuple

from dashboard.analysis.assembly import Fleet
from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.fleet.pools import Notes
from dashboard.store.snapshots import Snapshots, Stored
from dashboard.views.review_new import Alone

APART = timedelta(hours=4)  # what is frozen to prepare a meeting, and in it, is of one half of a day


class Earlier(NamedTuple):
    """The earlier snapshots of a fleet, the newest first. `problem` says why the folder cannot be read."""

    snapshots: tuple[Stored, ...] = ()
    problem: str = ""


class Last(NamedTuple):
    """The review that another one is held against; `alone` says why where `fleet` is None.

    `problem` says why it, or what was written then, cannot be read.
    """

    id: str | None = None
    fleet: Fleet | None = None
    noted: tuple[tuple[str, Note], ...] = ()
    problem: str = ""
    alone: Alone = Alone.FIRST

    @property
    def notes(self) -> Notes:
        """Return what was written then, by what it speaks of."""
        return dict(self.noted)


def earlier(store: Snapshots, fleet: Fleet) -> Earlier:
    """Return the snapshots of this fleet whose data is older than its own."""
    as_of = fleet.polled_at
    if as_of is None:
        return Earlier()
    try:
        known = store.all()
    except SnapshotError as error:
        return Earlier(problem=str(error))
    return Earlier(
        tuple(each for each in known if each.metadata.fleet == fleet.name and each.metadata.data_as_of < as_of)
    )


def last_review(known: Earlier, fleet: Fleet) -> Stored | None:
    """Return which of the earlier snapshots was most likely the last review; None where there is none.

    The newest with notes, for somebody reviewed it; else the newest that was not frozen just before; else the newest.
    """
    noted = (each for each in known.snapshots if each.notes)
    apart = (
        each for each in known.snapshots if fleet.polled_at and fleet.polled_at - each.metadata.data_as_of >= APART
    )
    return next(chain(noted, apart, known.snapshots), None)


def opened(known: Earlier, stored: Stored | None, fleet_of: Callable[[str], Fleet]) -> Last:
    """Open one of the earlier snapshots with its notes, or say why it cannot be; `fleet_of` opens one by its id."""
    if stored is None:
        return _unread(known.problem) if known.problem else Last()
    try:
        return Last(stored.id, fleet_of(stored.id), tuple(sorted(stored.notes.items())), stored.problem)
    except SnapshotError as error:
        return _unread(str(error))


def _unread(problem: str) -> Last:
    return Last(problem=problem, alone=Alone.UNREAD)
