"""The page Snapshots: its list, opening one by id or link, and which two fleets to compare."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.errors import HistoryError, SnapshotError
from dashboard.fleet.formatting import count, one_line
from dashboard.fleet.times import EXAMPLE, is_time, write_time
from dashboard.store.metadata import READ_ONLY, SnapshotList, StoredSnapshot
from dashboard.store.reviews import earlier, last_review
from dashboard.views import pages
from dashboard.views.snapshots import UNNAMED, describe_snapshot, search_snapshots, snapshots_table
from dashboard.web import draw, links, markup, state

SIDES = {pages.FROM: "Before", pages.TO: "After"}
ID = "snapshot_id"
AGO = {
    "24 h ago": timedelta(hours=24),
    "1 h ago": timedelta(hours=1),
    "7 d ago": timedelta(days=7),
}  # past times to choose, the default first
FIRST_POLL = "first poll"  # in place of those before it
SEARCHABLE = 8  # more snapshots than these have a search
WHAT = "A snapshot is a permanent copy of the fleet at one moment. Its link always opens the same data."
HOW = "To create one, select Freeze under Share, or import files below."


def read() -> SnapshotList | None:
    """Return the content of the folder; where it cannot be read, draw the reason and return None."""
    try:
        return service.snapshots().listed()
    except SnapshotError as error:
        st.html(markup.notice("critical", f"{markup.glyph('critical', 'critical:')} {markup.text(error)}"))
        return None


def draw_empty() -> None:
    """Draw what a snapshot is, and how to create one."""
    how = READ_ONLY if service.snapshots().read_only else HOW
    st.html(f'<div class="empty"><h2>No snapshots</h2><p>{WHAT} {how}</p></div>')


def draw_head(found: SnapshotList) -> None:
    """Draw the number of snapshots, and the field that opens one by its id or a link."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="snapshots_head"):
        st.html(markup.heading(count(len(found.snapshots), "snapshot"), markup.text(WHAT)))
        typed = st.text_input("Open by id", key=ID, placeholder="3fa9c01b2e, or a link", width=190)
    if not typed:
        return
    page, choices = links.parse_link(typed)
    try:
        if pages.SNAPSHOT in choices:
            choices[pages.SNAPSHOT] = service.snapshots().named(choices[pages.SNAPSHOT])
    except SnapshotError as error:
        st.html(markup.notice("warning", markup.text(error)))
    else:
        links.open_url(links.live(page, **choices))


def draw_list(found: SnapshotList) -> None:
    """Draw the list with its search, and below it what is damaged."""
    known = found.snapshots
    if len(known) > SEARCHABLE:
        search = st.text_input("Search", **links.bind(pages.SEARCH), placeholder="name, fleet or id", width=260)
        known = search_snapshots(known, search or "")
    if known:
        with st.container(key="snapshots_list"):
            draw.draw_blocks([snapshots_table(known, state.fleet().snapshot)], "snapshots")
    else:
        st.html(markup.notice("info", "No snapshot matches."))
    for sentence in found.damaged:
        st.html(markup.notice("warning", f"{markup.glyph('warning', 'damaged:')} {markup.text(sentence)}"))


def draw_compare(known: Sequence[StoredSnapshot]) -> None:
    """Draw the comparison of any two, and with the last review."""
    options = list_sides(known)
    if len(options) < len(SIDES):
        return
    selected = {name: read_side(name, options) for name in SIDES}
    st.html(markup.section("Compare two"))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="snapshots_compare"):
        for name, side in selected.items():
            draw_side(pages.SNAPSHOTS, name, options, side if side in options or is_time(side) else None)
        url = links.to(pages.CHANGES, **selected)
        st.html(f'<p class="go">{markup.link(url, "Show changes", css="button")}</p>')
    live = service.current()
    if last := last_review(earlier(service.snapshots(), live), live):
        since = links.to(pages.CHANGES, **{pages.FROM: last.id, pages.TO: pages.LIVE})
        name = markup.bold(last.metadata.name or UNNAMED)
        st.html(f"<p>{markup.link(since, 'Changes since the last review')}, {name}</p>")


def list_sides(known: Sequence[StoredSnapshot]) -> Mapping[str, str]:
    """Return what can be compared, by id: the newest poll, if any, then the snapshots, other fleets last.

    With a history past times follow.
    """
    live = service.current()
    newest = {pages.LIVE: f"{live.name} now"} if live.polled_at and live.replicas else {}
    first = live.name if newest or not known else known[0].metadata.fleet
    ordered = sorted(known, key=lambda each: each.metadata.fleet != first)
    return {**newest, **{each.id: describe_snapshot(each) for each in ordered}, **(_past_times() if newest else {})}


def _past_times() -> dict[str, str]:
    """Return some past times, by which a side names them; none without a history."""
    return {write_time(time): f"{label} ({write_time(time)})" for label, time in past_times().items()}


def past_times() -> dict[str, datetime]:
    """Return past times to choose by their labels, each with a poll; none without a history."""
    now = service.now().replace(second=0, microsecond=0)
    first = _first_poll(service.current())
    if first is None:
        return {}
    times = [(label, now - ago) for label, ago in AGO.items()]
    return dict((label, time) if time >= first else (FIRST_POLL, first) for label, time in times)


@state.shared(max_entries=1)
def _first_poll(fleet: Fleet) -> datetime | None:
    if fleet.polled_at is None:
        return None
    try:
        first = reader.first_poll() if (reader := service.history()) else None
    except HistoryError:
        return None
    return first and first.replace(microsecond=0)


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
