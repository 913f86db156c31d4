"""The two fleets that Changes compares, as the URL names them; the header and the footer of the page need them too."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, cast

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.events import range_between
from dashboard.errors import DashboardError, SnapshotError
from dashboard.fleet.times import is_time
from dashboard.views import pages
from dashboard.views.context import Context, compared, context_of
from dashboard.web import snapshots, state

SETTLED = "compared_sides"  # in the session: both sides of this run; None on every other page


class ChangesSide(NamedTuple):
    """One side: its id, its past time or `live`; its fleet, the name of its snapshot, or why it cannot be opened."""

    id: str
    fleet: Fleet | None = None
    name: str = ""
    problem: str = ""

    @property
    def is_live(self) -> bool:
        """Whether it is the newest poll."""
        return self.id == pages.LIVE


class Sides(NamedTuple):
    """Both sides, and the labels of all options."""

    before: ChangesSide
    after: ChangesSide
    options: Mapping[str, str]

    @property
    def both(self) -> tuple[Fleet, Fleet] | None:
        """Return the two fleets; None where one cannot be opened or both are the same."""
        before, after = self.before.fleet, self.after.fleet
        return None if before is None or after is None or self.before.id == self.after.id else (before, after)

    @property
    def is_live(self) -> bool:
        """Whether a side is the newest poll: only then the page changes by itself."""
        return self.before.is_live or self.after.is_live

    @property
    def live(self) -> Fleet | None:
        """Return the fleet of the live side, if one is compared."""
        return next((each.fleet for each in (self.before, self.after) if each.is_live), None) if self.both else None

    @property
    def range(self) -> tuple[datetime, datetime] | None:
        """Return the times of both sides, the earlier first; None where nothing is compared, and for another fleet."""
        is_ours = self.both is not None and self.both[0].name == service.current().name
        return range_between(*self.both) if self.both and is_ours else None

    @property
    def context(self) -> Context | None:
        """Return the context of both sides; None where nothing is compared."""
        if self.both is None:
            return None
        before, after = self.both
        return compared(context_of(before, name=self.before.name), context_of(after, name=self.after.name))

    def address(self, live: str = pages.LIVE) -> dict[str, str]:
        """Return the URL choices of this comparison; `live` replaces the id of the newest poll."""
        sides = zip(snapshots.SIDES, (self.before, self.after), strict=True)
        return {name: live if side.is_live else side.id for name, side in sides}


def settle(page: str) -> Sides | None:
    """Open both sides once per run; None on every page but Changes."""
    st.session_state[SETTLED] = _settled() if page == pages.CHANGES else None
    return cast("Sides | None", st.session_state[SETTLED])


def settled() -> Sides:
    """Return the two sides of this run, on the page Changes."""
    return cast("Sides", st.session_state[SETTLED])


def _settled() -> Sides:
    try:
        options = snapshots.list_sides(service.snapshots().all())
    except SnapshotError:  # each side has its own problem
        options = snapshots.list_sides(())
    before, after = (_opened(snapshots.read_side(name, options)) for name in snapshots.SIDES)
    return Sides(before, after, options)


def _opened(text: str) -> ChangesSide:
    if text == pages.LIVE:
        live = service.current() if state.is_frozen() else state.fleet()
        if live.polled_at is None or not live.replicas:
            return ChangesSide(text, problem="There is no live fleet to compare with.")
        return ChangesSide(text, live)
    try:
        if is_time(text):
            past = state.open_past(text)
            return ChangesSide(pages.side_of(past), past)
        key = service.snapshots().named(text)
        return ChangesSide(key, service.frozen(key), service.snapshots().get(key).metadata.name)
    except DashboardError as error:
        return ChangesSide(text, problem=str(error))
