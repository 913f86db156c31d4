"""Which fleet this session shows: the newest one, the one that it was paused at, or a frozen snapshot."""

from datetime import datetime
from typing import cast

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.errors import SnapshotError
from dashboard.views import pages
from dashboard.web import links

FLEET = "shown_fleet"
LAST = "last_live_fleet"
PAUSED = "paused"
PROBLEM = "snapshot_problem"


def settle() -> Fleet:
    """Choose the fleet of this run, so that the header and the page never speak of two different polls.

    The address decides: where it names a snapshot, that is shown, and `problem` says why it cannot be.
    """
    st.session_state[PROBLEM] = None
    st.session_state[FLEET] = _frozen() or _live()
    st.session_state[links.OPENED] = fleet().snapshot
    return fleet()


def fleet() -> Fleet:
    """Return the fleet that this run shows."""
    return cast("Fleet", st.session_state[FLEET])


def problem() -> str | None:
    """Say why the snapshot that the address names cannot be shown."""
    return cast("str | None", st.session_state.get(PROBLEM))


def confirmed() -> Fleet:
    """Return the newest fleet that says the same as the shown one: its data is as of a later poll."""
    newest = service.current()
    return newest if not still() and newest.generation == fleet().generation else fleet()


def now() -> datetime:
    """Return the time against which ages are told: that of the data where nothing moves."""
    as_of = fleet().polled_at
    return as_of if as_of is not None and (is_frozen() or screenshot()) else service.now()


def ages_from() -> datetime | None:
    """Return the time against which ages are told; None where the clock stands: a time is told there, never an age."""
    return None if is_frozen() or screenshot() else now()


def is_frozen() -> bool:
    """Say whether a snapshot is shown."""
    return fleet().snapshot is not None


def screenshot() -> bool:
    """Say whether the page is to look the same at every time: its clock stands, and nothing moves."""
    return st.query_params.get(pages.SCREENSHOT) == "1"


def meeting() -> bool:
    """Say whether the page is shown to a meeting: in larger type, and nothing moves."""
    return st.query_params.get(pages.MEETING) == "1"


def still() -> bool:
    """Say whether newer polls do not matter to this page."""
    return fleet().polled_at is not None and _stands()


def paused() -> bool:
    """Say whether the reader stopped the page."""
    return bool(st.session_state.get(PAUSED))


def reading() -> bool:
    """Say whether a dialog is open: nothing under it may move."""
    return any(name in st.query_params for name in (pages.PATH, pages.COHORT, pages.MANAGE))


def outdated() -> bool:
    """Say whether the page should be drawn again, with a newer fleet."""
    return not still() and not reading() and service.current().generation != fleet().generation


def _frozen() -> Fleet | None:
    asked = links.snapshot()
    if asked is None:
        return None
    try:
        return service.frozen(service.snapshots().named(asked))
    except SnapshotError as error:
        st.session_state[PROBLEM] = str(error)
        return None


def _live() -> Fleet:
    """Return the newest fleet, or the one at which the session stopped."""
    last = cast("Fleet | None", st.session_state.get(LAST))
    if last is None or last.polled_at is None or not _stands():
        last = st.session_state[LAST] = service.current()
    return last


def _stands() -> bool:
    return paused() or links.snapshot() is not None or screenshot() or meeting()
