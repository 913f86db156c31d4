"""Draws the page of all snapshots: what there is, how one is opened, which two are compared."""

from collections.abc import Sequence

import streamlit as st

from dashboard import service
from dashboard.errors import SnapshotError
from dashboard.fleet.formatting import count
from dashboard.store import Listed, Stored
from dashboard.store.reviews import earlier, last_review
from dashboard.store.snapshots import READ_ONLY
from dashboard.views import pages
from dashboard.web import choices, links, markup, replica_opening, snapshots_compare, state
from dashboard.web.snapshots_list import UNNAMED, matching, table

MANY = 8  # snapshots from which on a search helps
ID = "snapshot_id"
WHAT = (
    "A snapshot is a whole fleet, frozen at one moment under a short id: its link opens exactly what was seen, also "
    "after the fleet has changed."
)
HOW = "To make one, choose Share above and press Freeze, or import a file below."


def listed() -> Listed | None:
    """Return what the folder holds; where it cannot be read, say so and return None."""
    try:
        return service.snapshots().listed()
    except SnapshotError as error:
        st.html(markup.notice("critical", f"{markup.glyph('critical', 'critical:')} {markup.text(error)}"))
        return None


def draw_empty() -> None:
    """Say what a snapshot is, and how to make one."""
    how = READ_ONLY if service.snapshots().read_only else HOW
    st.html(f'<div class="empty"><h2>There is no snapshot yet</h2><p>{WHAT} {how}</p></div>')


def draw_head(found: Listed) -> None:
    """Say how many there are, and offer to open one by its id."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="snapshots_head"):
        st.html(markup.heading(count(len(found.snapshots), "snapshot"), markup.text(WHAT)))
        typed = st.text_input("Open by id", key=ID, placeholder="3fa9c01b2e, or a link", width=190)
    if typed:
        _open(typed)


def _open(typed: str) -> None:
    """Go to what a snapshot's id or a whole link names; Changes names its snapshots itself, and says what is wrong."""
    page, told = links.pasted(typed)
    try:
        if pages.SNAPSHOT in told:
            told[pages.SNAPSHOT] = service.snapshots().named(told[pages.SNAPSHOT])
    except SnapshotError as error:
        st.html(markup.notice("warning", markup.text(error)))
    else:
        replica_opening.open_address(links.live(page, **told))


def draw_compare(known: Sequence[Stored]) -> None:
    """Offer what changed since the last review, and between any two."""
    there = snapshots_compare.sides(known)
    if len(there) < len(snapshots_compare.SIDES):
        return
    chosen = {name: snapshots_compare.asked(name, there) for name in snapshots_compare.SIDES}
    st.html(markup.section("Compare two"))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="snapshots_compare"):
        for name, side in chosen.items():
            snapshots_compare.choose(pages.SNAPSHOTS, name, there, side if side in there else None)
        address = links.to(pages.CHANGES, **chosen)
        st.html(f'<p class="go">{markup.link(address, "Show what changed", css="button")}</p>')
    live = service.current()
    if last := last_review(earlier(service.snapshots(), live), live):
        name = markup.bold(last.beside.name or UNNAMED)
        since = links.to(pages.CHANGES, **{pages.FROM: last.id, pages.TO: pages.LIVE})
        st.html(f"<p>{markup.link(since, 'What changed since the last review')}, {name}</p>")


def draw_list(found: Listed) -> None:
    """Draw the list, and below it what is damaged."""
    known = found.snapshots
    if len(known) > MANY:
        search = st.text_input("Search", **choices.bound(pages.SEARCH), placeholder="name, fleet or id", width=260)
        known = matching(known, search or "")
    if known:
        st.html(table(known, state.fleet().snapshot))
    else:
        st.html(markup.notice("info", "No snapshot is called so."))
    for sentence in found.damaged:
        st.html(markup.notice("warning", f"{markup.glyph('warning', 'damaged:')} {markup.text(sentence)}"))
