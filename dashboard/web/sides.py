"""The two fleets that Changes compares, as the URL names them, and what there is to choose from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple, cast

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes.events import range_between
from dashboard.errors import DashboardError, HistoryError, SnapshotError
from dashboard.fleet.formatting import one_line
from dashboard.fleet.times import EXAMPLE, is_time, write_time
from dashboard.store.packing import StoredSnapshot
from dashboard.views import pages
from dashboard.views.context import Context, context_of
from dashboard.views.snapshots import describe_snapshot
from dashboard.web import state

SIDES = {pages.FROM: "Before", pages.TO: "After"}
AGO = {
    "24 h ago": timedelta(hours=24),
    "1 h ago": timedelta(hours=1),
    "7 d ago": timedelta(days=7),
}  # past times to choose, the default first
FIRST_POLL = "first poll"  # in place of those before it

SETTLED = "compared_sides"  # in the session: both sides of this run; None on every other page


class ChangesSide(NamedTuple):
    """One side: its id, its past time or `live`; its fleet, the name of its snapshot, or why it cannot be opened."""

    id: str
    fleet: Fleet | None = None
    name: str = ""
    problem: str = ""

    @property
    def is_live(self) -> bool:
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
        return replace(context_of(after, name=self.after.name), before=context_of(before, name=self.before.name))

    def address(self, live: str = pages.LIVE) -> dict[str, str]:
        """Return the URL choices of this comparison; `live` replaces the id of the newest poll."""
        sides = zip(SIDES, (self.before, self.after), strict=True)
        return {name: live if side.is_live else side.id for name, side in sides}


def settle(page: str) -> Sides | None:
    """Open both sides once per run; None on every page but Changes."""
    st.session_state[SETTLED] = _settled() if page == pages.CHANGES else None
    return cast("Sides | None", st.session_state[SETTLED])


def settled() -> Sides:
    return cast("Sides", st.session_state[SETTLED])


def _settled() -> Sides:
    try:
        options = list_sides(service.snapshots().all())
    except SnapshotError:  # each side has its own problem
        options = list_sides(())
    before, after = (_opened(read_side(name, options)) for name in SIDES)
    return Sides(before, after, options)


def _opened(text: str) -> ChangesSide:
    if text == pages.LIVE:
        live = service.current() if state.is_frozen() else state.fleet()
        if live.polled_at is None or not live.replicas:
            return ChangesSide(text, problem="There is no live fleet to compare with.")
        return ChangesSide(text, state.in_scope(live))
    try:
        if is_time(text):
            past = state.open_past(text)
            return ChangesSide(pages.side_of(past), state.in_scope(past))
        key = service.snapshots().named(text)
        return ChangesSide(key, state.in_scope(service.open_snapshot(key)), service.snapshots().get(key).metadata.name)
    except DashboardError as error:
        return ChangesSide(text, problem=str(error))


def list_sides(known: Sequence[StoredSnapshot]) -> Mapping[str, str]:
    """Return what can be compared, by id: the newest poll, if any, then the snapshots, other fleets last.

    With a history past times follow.
    """
    live = service.current()
    newest = {pages.LIVE: f"{live.name} now"} if live.polled_at and live.replicas else {}
    first = live.name if newest or not known else known[0].metadata.fleet
    ordered = sorted(known, key=lambda each: each.metadata.fleet != first)
    past = {write_time(time): f"{label} ({write_time(time)})" for label, time in past_times().items()}
    return {**newest, **{each.id: describe_snapshot(each) for each in ordered}, **(past if newest else {})}


def past_times() -> dict[str, datetime]:
    """Return past times to choose by their labels, each with a poll; none without a history."""
    now = service.now().replace(second=0, microsecond=0)
    first = first_poll(service.current())
    if first is None:
        return {}
    first = first.replace(microsecond=0)
    times = [(label, now - ago) for label, ago in AGO.items()]
    return dict((label, time) if time >= first else (FIRST_POLL, first) for label, time in times)


@state.shared(max_entries=1)
def first_poll(fleet: Fleet) -> datetime | None:
    """Return the time of the first poll in the history; None without one, and where it cannot be read."""
    if fleet.polled_at is None:
        return None
    try:
        return reader.first_poll() if (reader := service.history()) else None
    except HistoryError:
        return None


def read_side(name: str, options: Mapping[str, str]) -> str:
    """Return a side of the URL; by default the newest is compared with the one before it."""
    newest = list(options)[: len(SIDES)] or [pages.LIVE]
    return st.query_params.get(name) or newest[-1 if name == pages.FROM else 0]


def draw_side(page: str, name: str, options: Mapping[str, str], selected: str | None) -> None:
    """Draw the selection of a side, which is written to the URL; `selected` is None for an unknown one.

    The session is set in every run: after a rename Streamlit takes the same option for a new one, and shows its first.
    """
    key = f"{page}_side_{name}"
    st.session_state[key] = selected
    takes_times = service.history() is not None
    st.selectbox(
        SIDES[name],
        [*options, *([selected] if selected and selected not in options else [])],
        accept_new_options=takes_times,
        index=None if selected is None else 0,  # the session has the value
        key=key,
        format_func=lambda each: one_line(options.get(each, each)),
        placeholder=f"select one, or type a time: {EXAMPLE}" if takes_times else "select a snapshot",
        on_change=_write_side,
        args=(name, key),
    )


def _write_side(name: str, key: str) -> None:
    if st.session_state[key] is None:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = st.session_state[key]
