"""The fleet that a session shows: the newest, the one it was paused at, a snapshot or a past one; what pages cache."""

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar, cast

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.clusters import only_cluster
from dashboard.errors import DashboardError, HistoryError, SnapshotError
from dashboard.fleet.formatting import end_cut, one_line
from dashboard.fleet.times import parse_time
from dashboard.store.packing import StoredSnapshot
from dashboard.views import pages
from dashboard.web import links

# Keys of the session.
FLEET, WHOLE, LAST_LIVE = "shown_fleet", "whole_fleet", "last_live_fleet"
CLUSTER = "shown_cluster"
STORED = "shown_snapshot"
PAUSED = "paused"
PROBLEM = "fleet_problem"
LONGEST = 40  # characters of a time in the URL that a sentence quotes

F = TypeVar("F", bound="Callable[..., Any]")


def begin_run(page: str) -> Fleet:
    """Choose the fleet of this run once, so that the header and the page never show two different polls.

    A snapshot in the URL wins, then a past time; where it cannot be opened, `fleet_problem` has the reason. A page that
    is limited to a cluster gets that as its fleet.
    """
    st.session_state[PROBLEM] = None
    st.session_state[WHOLE] = _open_named() or _live()
    st.session_state[CLUSTER] = links.cluster() if page in pages.CLUSTERED else None
    st.session_state[FLEET] = in_scope(whole())
    st.session_state[links.SHOWN] = pages.choices_of(fleet())
    asked = {name: st.query_params[name] for name in pages.STILL if name in st.query_params}
    st.session_state[links.IGNORED] = dict(list(asked.items())[1:])
    st.session_state[STORED] = read_stored(fleet().snapshot)
    return fleet()


def fleet() -> Fleet:
    return cast("Fleet", st.session_state[FLEET])


def whole() -> Fleet:
    """Return the fleet with all its clusters."""
    return cast("Fleet", st.session_state[WHOLE])


def in_scope(fleet: Fleet) -> Fleet:
    """Return the cluster of a fleet that the page is limited to; without one all of it."""
    cluster = st.session_state.get(CLUSTER)
    return _only_cluster(fleet, cluster) if cluster and not fleet.cluster else fleet


def fleet_problem() -> str | None:
    """Return why the snapshot or the time of the URL cannot be shown."""
    return cast("str | None", st.session_state.get(PROBLEM))


def stored() -> StoredSnapshot | None:
    """Return name and notes of the snapshot that this run shows; None for another fleet."""
    return cast("StoredSnapshot | None", st.session_state.get(STORED))


def snapshot_name() -> str:
    """Return the name of the snapshot that this run shows; empty for another fleet."""
    known = stored()
    return known.metadata.name if known else ""


def read_stored(snapshot: str | None) -> StoredSnapshot | None:
    """Read name and notes of a snapshot now; None for another fleet, and for a snapshot that was deleted meanwhile."""
    try:
        return service.snapshots().get(snapshot) if snapshot else None
    except SnapshotError:
        return None


def latest_equal() -> Fleet:
    """Return the newest fleet with the content of the displayed one. Its data is as of a later poll."""
    newest = in_scope(service.current())
    return newest if not is_still() and newest.generation == fleet().generation else fleet()


def now() -> datetime:
    """Return the time from which ages count: that of the data where nothing moves."""
    as_of = fleet().polled_at
    return as_of if as_of is not None and (is_frozen() or is_screenshot()) else service.now()


def age_reference() -> datetime | None:
    """Return the time from which ages count; None where the page shows times instead of ages."""
    return None if is_frozen() or is_screenshot() else now()


def is_frozen() -> bool:
    return bool(pages.choices_of(fleet()))


def is_screenshot() -> bool:
    """Return whether the page looks the same at every time: the clock stops, and nothing moves."""
    return st.query_params.get(pages.SCREENSHOT) == "1"


def is_meeting() -> bool:
    """Return whether the page is in meeting mode: larger type, and nothing moves."""
    return st.query_params.get(pages.MEETING) == "1"


def is_paused() -> bool:
    return bool(st.session_state.get(PAUSED))


def is_still() -> bool:
    """Return whether the page ignores newer polls."""
    return fleet().polled_at is not None and _keeps_fleet()


def is_outdated(page: str) -> bool:
    """Return whether this page is due for a newer fleet. Nothing moves under an open dialog."""
    has_dialog = any(name in st.query_params for name in pages.DIALOGS.get(page, ()))
    return not is_still() and not has_dialog and service.current().generation != fleet().generation


def stamp(fleet: Fleet) -> tuple[Any, ...]:
    """Return what tells a fleet apart from others where its times are shown, too."""
    return fleet.generation, fleet.polled_at, fleet.past, fleet.cluster


def _stamp_of_content(fleet: Fleet) -> tuple[Any, ...]:
    return fleet.generation, fleet.since, fleet.cluster


def shared(max_entries: int, *, has_times: bool = False) -> Callable[[F], F]:
    """Share the results of a function of a fleet among sessions until there is a newer fleet.

    The fleet is its first argument. `has_times`: the results have times of the poll. Arguments that begin with an
    underscore are not part of the key. Snapshots and past times have a negative generation: their results are computed
    again after the next poll.
    """
    key = stamp if has_times else _stamp_of_content

    def decorate(function: F) -> F:
        cached = st.cache_resource(max_entries=max_entries, show_spinner=False, hash_funcs={Fleet: key})(function)
        newest = 0

        @wraps(function)
        def derive(fleet: Fleet, *args: Any, **kwargs: Any) -> Any:
            nonlocal newest
            if fleet.generation > newest:
                newest = fleet.generation
                cached.clear()
            return cached(fleet, *args, **kwargs)

        return cast("F", derive)

    return decorate


_only_cluster = shared(max_entries=16, has_times=True)(only_cluster)


def _open_named() -> Fleet | None:
    """Open the snapshot or the past time of the URL; None without one, and where it cannot be opened."""
    snapshot, at = (st.query_params.get(name) for name in pages.STILL)
    try:
        if snapshot is not None:
            return service.open_snapshot(snapshot)
        return open_past(at) if at is not None else None
    except DashboardError as error:
        st.session_state[PROBLEM] = str(error)
        return None


def open_past(at: str) -> Fleet:
    """Open the fleet of a written time; raise HistoryError with cause and action where there is none."""
    try:
        time = parse_time(at)
    except ValueError as error:
        raise HistoryError(f"“{end_cut(one_line(at), LONGEST)}” is {error}.") from None
    return service.past(time)


def _live() -> Fleet:
    """Return the newest fleet, or the one at which the session stopped."""
    last = cast("Fleet | None", st.session_state.get(LAST_LIVE))
    if last is None or last.polled_at is None or not _keeps_fleet():
        last = st.session_state[LAST_LIVE] = service.current()
    return last


def _keeps_fleet() -> bool:
    is_named = any(name in st.query_params for name in pages.STILL)
    return is_paused() or is_named or is_screenshot() or is_meeting()
