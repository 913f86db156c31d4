"""Draws what changed between two fleets: the exported report on a page, with links into both."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from dashboard import service
from dashboard.changes import changes_between
from dashboard.errors import SnapshotError
from dashboard.report.context import context_of
from dashboard.report.views.changes import changes_report
from dashboard.ui import changes_links, empty, links, markup, review_blocks, share, snapshots_compare, state

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from streamlit.delta_generator import DeltaGenerator

    from dashboard.fleet import Fleet
    from dashboard.report.blocks import Part, Report

Stamp = tuple[int, "datetime | None", str]  # which fleet it is, and what its snapshot is called


class Shown(NamedTuple):
    """The page: its head and its parts as HTML, appendices with their titles, and the report to take away."""

    head: str
    body: str
    appendices: tuple[tuple[str, str], ...]
    report: Report


class Chosen(NamedTuple):
    """One side: its id or `live`, its fleet, what its snapshot is called, or why it cannot be opened."""

    id: str
    fleet: Fleet | None = None
    name: str = ""
    problem: str = ""


def choose() -> tuple[Chosen, Chosen]:
    """Let the reader choose both sides; the address says which they are."""
    try:
        there = snapshots_compare.sides(service.snapshots().all())
    except SnapshotError:  # each side says why
        there = snapshots_compare.sides(())
    before, after = (_opened(snapshots_compare.asked(name, there)) for name in snapshots_compare.SIDES)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="changes_sides"):
        snapshots_compare.choose(links.CHANGES, links.FROM, there, _known(before, there))
        swapped = links.to(links.CHANGES, **{links.FROM: after.id, links.TO: before.id})
        st.html(f'<p class="go">{markup.link(swapped, "⇄ Swap", title="Put the second before the first")}</p>')
        snapshots_compare.choose(links.CHANGES, links.TO, there, _known(after, there))
    return before, after


def _known(side: Chosen, there: Mapping[str, str]) -> str | None:
    return side.id if side.id in there else None


def _opened(text: str) -> Chosen:
    if text == links.LIVE:
        live = service.current() if state.is_frozen() else state.fleet()
        waits = live.polled_at is None or not live.replicas
        return Chosen(text, problem="There is no live fleet to compare with.") if waits else Chosen(text, live)
    try:
        key = service.snapshots().named(text)
        return Chosen(key, service.frozen(key), service.snapshots().get(key).beside.name)
    except SnapshotError as error:
        return Chosen(text, problem=str(error))


def draw(before: Chosen, after: Chosen, head: DeltaGenerator) -> None:
    """Draw what changed, or why nothing can be said; `head` is the place above the choice of both sides."""
    for each in (before, after):
        if each.problem:
            st.html(markup.notice("warning", markup.text(each.problem)))
    if before.fleet is None or after.fleet is None:
        return
    if before.id == after.id:
        empty.same_twice()
        return
    found = shown(_stamp(before.fleet, before.name), _stamp(after.fleet, after.name), before.fleet, after.fleet)
    share.offer(lambda: found.report)
    head.html(found.head)
    st.html(found.body)
    for title, html in found.appendices:
        with st.expander(title):
            st.html(html)


def _stamp(fleet: Fleet, name: str) -> Stamp:
    return fleet.generation, fleet.polled_at, name


@st.cache_resource(max_entries=6, show_spinner=False)
def shown(before: Stamp, after: Stamp, _before: Fleet, _after: Fleet) -> Shown:
    """Compare two fleets and draw what changed; every session that compares them shares the result."""
    changes = changes_between(_before, _after)
    report = changes_report(changes, context_of(_before, name=before[-1]), context_of(_after, name=after[-1]))
    leads = changes_links.leads(changes)
    parts = [changes_links.linked(part, changes) for part in report.parts]
    return Shown(
        head=markup.heading(markup.text(report.headline), markup.text(report.lead)),
        body="".join(_part(part, leads) for part in parts if not part.is_appendix),
        appendices=tuple((part.title, _blocks(part, leads)) for part in parts if part.is_appendix),
        report=report,
    )


def _part(part: Part, leads: review_blocks.Leads) -> str:
    return f'<h2 id="{changes_links.section(part.anchor)}">{markup.text(part.title)}</h2>{_blocks(part, leads)}'


def _blocks(part: Part, leads: review_blocks.Leads) -> str:
    return "".join(piece.html for piece in review_blocks.drawn(part, leads))
