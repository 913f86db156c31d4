"""Which two fleets are compared: two snapshots, or one and the newest poll."""

from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard import service
from dashboard.fleet.formatting import one_line
from dashboard.store import Stored
from dashboard.views import pages
from dashboard.web.snapshots_list import words

SIDES = {pages.FROM: "Before", pages.TO: "After"}


def sides(known: Sequence[Stored]) -> Mapping[str, str]:
    """Return what can be compared, with its words: the newest poll, if there was one, then the snapshots.

    Those of the fleet that comes first stand before those of other fleets: to compare with these is seldom meant.
    """
    live = service.current()
    newest = {pages.LIVE: f"{live.name} now"} if live.polled_at and live.replicas else {}
    first = live.name if newest or not known else known[0].beside.fleet
    listed = sorted(known, key=lambda each: each.beside.fleet != first)
    return {**newest, **{each.id: words(each) for each in listed}}


def asked(name: str, known: Mapping[str, str]) -> str:
    """Return the side that the address names; where it names none, the newest is compared with the one before it."""
    newest = list(known)[: len(SIDES)] or [pages.LIVE]
    return st.query_params.get(name) or newest[-1 if name == pages.FROM else 0]


def choose(page: str, name: str, known: Mapping[str, str], chosen: str | None) -> None:
    """Let the reader choose one side; what is chosen stands in the address with the next run. None: not known.

    It is written with every run: a snapshot can be renamed, and Streamlit takes a choice whose words changed for a new
    one, which would show its first entry.
    """
    key = f"{page}_side_{name}"
    st.session_state[key] = chosen
    st.selectbox(
        SIDES[name],
        list(known),
        index=None if chosen is None else 0,  # the session holds what is chosen
        key=key,
        format_func=lambda each: one_line(known.get(each, each)),
        placeholder="choose a snapshot",
        on_change=_write,
        args=(name, key),
    )


def _write(name: str, key: str) -> None:
    if st.session_state[key] is None:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = st.session_state[key]
