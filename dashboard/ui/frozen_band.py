"""What every page says above and below of where its data is from: a frozen snapshot, its context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard import service
from dashboard.errors import SnapshotError
from dashboard.report.context import context_of, context_parts
from dashboard.rules.catalogue import RULE_SET
from dashboard.ui import links, markup
from dashboard.wording import iso, middle_cut

if TYPE_CHECKING:
    from dashboard.fleet import Fleet
    from dashboard.report.context import Context
    from dashboard.store import Stored

LONGEST_FILTER = 60  # characters of a choice, which anybody can write into an address


def context(fleet: Fleet, page: str = links.OVERVIEW) -> Context:
    """Return the context of the page that is drawn: its filters are what the address says and the page knows."""
    stored = shown(fleet)
    return context_of(fleet, name=stored.beside.name if stored else "", filters=filters(fleet, page))


def filters(fleet: Fleet, page: str) -> list[tuple[str, str]]:
    """Return the choices that stand in the address, in its order, without those that the page cannot follow."""
    told = {name: value for name, value in links.choices().items() if name in links.KNOWN.get(page, ())}
    if told.get(links.POOL) not in {pool.name for pool in fleet.pools}:
        told.pop(links.POOL, None)
    return [(name, middle_cut(value, LONGEST_FILTER)) for name, value in told.items()]


def draw_wrong_pool(fleet: Fleet, page: str) -> None:
    """Say that the address names a pool that is not there; Compare, which shows no other one, says it itself."""
    asked = st.query_params.get(links.POOL)
    ignored = page != links.COMPARE and links.POOL in links.KNOWN.get(page, ())
    if asked and ignored and fleet.pools and asked not in {pool.name for pool in fleet.pools}:
        named = markup.code(middle_cut(asked, LONGEST_FILTER))
        st.html(markup.notice("warning", f"There is no pool {named}: the page is shown as without it."))


def shown(fleet: Fleet) -> Stored | None:
    """Return what is known of the snapshot that is shown; None for a live fleet."""
    try:
        return service.snapshots().get(fleet.snapshot) if fleet.snapshot else None
    except SnapshotError:  # deleted since the page began
        return None


def draw_above(fleet: Fleet, page: str) -> None:
    """Say that a snapshot is shown, which never changes, and how to leave it. `page` is where the reader stays."""
    stored = shown(fleet)
    if stored is None:
        return
    called = f" {markup.bold(stored.beside.name)}" if stored.beside.name else ""
    frozen = f"frozen {markup.text(iso(stored.beside.frozen_at))}, nothing is polled"
    leave = markup.link(links.live(page, **links.choices()), "Back to the live fleet")
    st.html(
        '<div class="frozen">'
        f"<span>{markup.bold('Snapshot')}{called} {markup.code(stored.id)} · {frozen}{_other_rules(stored)}</span>"
        f'<span class="leave">{markup.link(links.to(links.SNAPSHOTS), "All snapshots")} · {leave}</span></div>'
    )


def _other_rules(stored: Stored) -> str:
    """Say that other rules judge it now than when it was frozen, and what they found then."""
    then = stored.beside
    if then.rule_set == RULE_SET:
        return ""
    found = f"{then.critical:,} critical, {then.warning:,} warnings, {then.info:,} for information"
    return markup.text(f" · judged anew by rule set {RULE_SET}; rule set {then.rule_set} found {found} then")


def draw_below(fleet: Fleet, page: str) -> None:
    """Write the context line: what a picture of this page can be traced by."""
    parts = " · ".join(f"<span>{markup.text(part)}</span>" for part in context_parts(context(fleet, page)))
    st.html(f'<footer class="context">{parts}</footer>')
