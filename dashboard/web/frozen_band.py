"""What every page says above and below of where its data is from: a frozen snapshot, its context."""

from typing import cast

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.errors import SnapshotError
from dashboard.fleet.formatting import iso, joined, middle_cut
from dashboard.rules.catalogue import RULE_SET
from dashboard.store import Stored
from dashboard.views import pages
from dashboard.views.context import Context, context_of, context_parts, seen_with
from dashboard.web import choices, links, markup
from dashboard.web.changes_sides import Sides

NONE_OF_THEM = "are no choices here: the page is shown as without them"
NOT_COMPARED = "nothing is compared"
LONGEST_FILTER = 60  # characters of a choice, which anybody can write into an address
SHOWN = "shown_snapshot"  # in the session: what is known of the snapshot that this run shows


def begin(fleet: Fleet) -> None:
    """Read what is known of the snapshot that is shown, once for all that this run says of it."""
    st.session_state[SHOWN] = stored(fleet.snapshot)


def stored(snapshot: str | None) -> Stored | None:
    """Read what is known of a snapshot now; None of a live fleet, or of one that was deleted since the page began."""
    try:
        return service.snapshots().get(snapshot) if snapshot else None
    except SnapshotError:
        return None


def shown() -> Stored | None:
    """Return what is known of the snapshot that this run shows; None for a live fleet."""
    return cast("Stored | None", st.session_state.get(SHOWN))


def context(fleet: Fleet, page: str = pages.OVERVIEW) -> Context:
    """Return the context of the page that is drawn: its filters are what the address says and the page followed."""
    known = shown()
    return context_of(fleet, name=known.beside.name if known else "", filters=_filters(fleet, page))


def draw_above(page: str) -> None:
    """Say that a snapshot is shown, which never changes, and how to leave it. `page` is where the reader stays."""
    known = shown()
    if known is None:
        return
    called = f" {markup.bold(f'“{known.beside.name}”')}" if known.beside.name else ""
    frozen = f"frozen {markup.text(iso(known.beside.frozen_at))}, nothing is polled"
    leave = markup.link(links.live(page, **links.choices()), "Back to the live fleet")
    st.html(
        '<div class="frozen">'
        f"<span>{markup.bold('Snapshot')}{called} {markup.code(known.id)} · {frozen}{_other_rules(known)}</span>"
        f'<span class="leave">{markup.link(links.to(pages.SNAPSHOTS), "All snapshots")} · {leave}</span></div>'
    )


def draw_not_followed() -> None:
    """Say which choices of the address are none of those that the page has; once the page is drawn."""
    told = [f"{name}={middle_cut(value, LONGEST_FILTER)}" for name, value in choices.not_followed().items()]
    if told:
        named, is_one = joined(list(map(markup.code, told))), len(told) == 1
        what = "is no choice here: the page is shown as without it" if is_one else NONE_OF_THEM
        st.html(markup.notice("warning", f"{named} in the address {what}."))


def _filters(fleet: Fleet, page: str) -> list[tuple[str, str]]:
    """Return the choices that stand in the address, in its order, without those that the page cannot follow."""
    known = pages.KNOWN.get(page, set()) - choices.not_followed().keys() - {pages.MANAGE}  # a dialog above the page
    told = {name: value for name, value in links.choices().items() if name in known}
    if told.get(pages.POOL) not in {pool.name for pool in fleet.pools}:
        told.pop(pages.POOL, None)
    return [(name, middle_cut(value, LONGEST_FILTER)) for name, value in told.items()]


def _other_rules(stored: Stored) -> str:
    """Say that other rules judge it now than when it was frozen, and what they found then."""
    then = stored.beside
    if then.rule_set == RULE_SET:
        return ""
    found = f"{then.critical:,} critical, {then.warning:,} warnings, {then.info:,} for information"
    return markup.text(f" · judged anew by rule set {RULE_SET}; rule set {then.rule_set} found {found} then")


def draw_below(fleet: Fleet, page: str, sides: Sides | None = None) -> None:
    """Write the context line: what a picture of this page can be traced by. Of two `sides` it tells both."""
    if sides is None:
        told = context_parts(context(fleet, page))
    else:
        told = context_parts(sides.context) if sides.context else (NOT_COMPARED, *seen_with(context_of(fleet)))
    parts = " · ".join(f"<span>{markup.text(part)}</span>" for part in told)
    st.html(f'<footer class="context">{parts}</footer>')
