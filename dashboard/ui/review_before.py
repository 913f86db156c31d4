"""Which review the page is held against: the last one, or an earlier one that the reader chooses."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from dashboard import service
from dashboard.errors import SnapshotError
from dashboard.ui import choices, links, markup
from dashboard.ui.snapshots_list import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.fleet import Fleet
    from dashboard.models import Note
    from dashboard.models.notes import Notes
    from dashboard.store import Stored


APART = timedelta(hours=4)  # what is frozen to prepare a meeting, and in it, is of one half of a day


class Last(NamedTuple):
    """The review that the page is held against: all empty where this is the first one, or it cannot be opened.

    `problem` says why it, or what was written then, cannot be read.
    """

    id: str | None = None
    fleet: Fleet | None = None
    noted: tuple[tuple[str, Note], ...] = ()
    problem: str = ""

    @property
    def notes(self) -> Notes:
        """Return what was written then, by what it speaks of."""
        return dict(self.noted)


def earlier(fleet: Fleet) -> tuple[Stored, ...]:
    """Return the snapshots of this fleet whose data is older than what is shown, the newest first."""
    as_of = fleet.polled_at
    try:
        known = service.snapshots().all()
    except SnapshotError:  # the folder cannot be read, which the page Snapshots says
        return ()
    return tuple(
        each
        for each in known
        if each.beside.fleet == fleet.name and as_of is not None and each.beside.data_as_of < as_of
    )


def last_review(known: Sequence[Stored], fleet: Fleet) -> Stored | None:
    """Return which of the earlier snapshots, the newest first, was most likely the last review.

    The newest with notes, for somebody reviewed it; else the newest that was not frozen just before; else the newest.
    """
    noted = (each for each in known if each.notes)
    apart = (each for each in known if fleet.polled_at and fleet.polled_at - each.beside.data_as_of >= APART)
    return next(chain(noted, apart, known), None)


def chosen(known: Sequence[Stored], fleet: Fleet) -> Stored | None:
    """Return the earlier snapshot that the address names, or the last review; None where there is none."""
    last = last_review(known, fleet)
    by_id = {each.id: each for each in known}
    return by_id[choices.chosen(links.FROM, list(by_id), default=last.id)] if last else None


def opened(stored: Stored | None) -> Last:
    """Open an earlier snapshot with its notes, or say why it cannot be."""
    if stored is None:
        return Last()
    try:
        return Last(stored.id, service.frozen(stored.id), tuple(sorted(stored.notes.items())), stored.problem)
    except SnapshotError as error:
        return Last(problem=str(error))


def draw(known: Sequence[Stored], last: Last, fleet: Fleet) -> None:
    """Let the reader choose another review to hold this one against, and lead to all that changed since."""
    usual = last_review(known, fleet)
    if usual is None:
        return
    by_id = {each.id: each for each in known}
    with st.container(key="review_since", horizontal=True, vertical_alignment="center", gap="small"):
        if len(known) > 1:
            st.selectbox(
                "Last review",
                list(by_id),
                **choices.bound(links.FROM, list(by_id), default=usual.id),
                format_func=lambda key: words(by_id[key]),
                width=430,
                label_visibility="collapsed",
            )
        else:
            st.html(f'<p class="foot">{markup.text(words(known[0]))}</p>')
        if last.id is not None:
            address = links.to(links.CHANGES, **{links.FROM: last.id, links.TO: fleet.snapshot or links.LIVE})
            st.html(f'<p class="foot">{markup.link(address, "All that changed, replica by replica")}</p>')
    if last.problem:
        st.html(markup.notice("warning", markup.text(last.problem)))
