"""Which fleet this session shows: the newest one, or the one that it was paused at."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import streamlit as st

from dashboard import service
from dashboard.ui import links

if TYPE_CHECKING:
    from dashboard.fleet import Fleet

FLEET = "shown_fleet"
PAUSED = "paused"


def settle() -> Fleet:
    """Choose the fleet of this run, so that the header and the page never speak of two different polls."""
    if FLEET not in st.session_state or not paused():
        st.session_state[FLEET] = service.current()
    return fleet()


def fleet() -> Fleet:
    """Return the fleet that this run shows."""
    return cast("Fleet", st.session_state[FLEET])


def confirmed() -> Fleet:
    """Return the newest fleet that says the same as the shown one: its data is as of a later poll."""
    newest = service.current()
    return newest if not paused() and newest.generation == fleet().generation else fleet()


def paused() -> bool:
    """Say whether the reader stopped the page."""
    return bool(st.session_state.get(PAUSED))


def reading() -> bool:
    """Say whether a dialog is open: nothing under it may move."""
    return links.PATH in st.query_params or links.COHORT in st.query_params


def outdated() -> bool:
    """Say whether the page should be drawn again, with a newer fleet."""
    return not paused() and not reading() and service.current().generation != fleet().generation
