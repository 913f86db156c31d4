"""Draws what changed between two fleets: the exported report on a page, with links into both."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.views import pages
from dashboard.views.blocks import Section, View
from dashboard.views.changes import changes_report
from dashboard.views.context import context_of
from dashboard.web import changes_links, empty, links, markup, review_blocks, share, snapshots
from dashboard.web.changes_sides import Chosen, Sides

Stamp = tuple[int, "datetime | None", str]  # which fleet it is, and what its snapshot is called


class Shown(NamedTuple):
    """The page: its head and its parts as HTML, appendices with their titles, and the report to take away."""

    head: str
    body: str
    appendices: tuple[tuple[str, str], ...]
    report: View


def choose(sides: Sides) -> None:
    """Let the reader choose both sides; the address says which they are."""
    before, after, there = sides
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="changes_sides"):
        snapshots.draw_side(pages.CHANGES, pages.FROM, there, _known(before, there))
        swapped = links.to(pages.CHANGES, **{pages.FROM: after.id, pages.TO: before.id})
        st.html(f'<p class="go">{markup.link(swapped, "⇄ Swap", title="Put the second before the first")}</p>')
        snapshots.draw_side(pages.CHANGES, pages.TO, there, _known(after, there))


def _known(side: Chosen, there: Mapping[str, str]) -> str | None:
    return side.id if side.id in there else None


def draw(sides: Sides, head: DeltaGenerator) -> None:
    """Draw what changed, or why nothing can be said; `head` is the place above the choice of both sides."""
    before, after = sides.before, sides.after
    problems = [each.problem for each in (before, after) if each.problem]
    for each in problems:
        st.html(markup.notice("warning", markup.text(each)))
    if sides.both is None:
        if not problems:
            empty.same_twice()
        return
    fleets = sides.both
    found = shown(_stamp(fleets[0], before.name), _stamp(fleets[1], after.name), *fleets)
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


def _part(part: Section, leads: review_blocks.LinkMap) -> str:
    return f'<h2 id="{changes_links.section_id(part.anchor)}">{markup.text(part.title)}</h2>{_blocks(part, leads)}'


def _blocks(part: Section, leads: review_blocks.LinkMap) -> str:
    return "".join(piece.html for piece in review_blocks.drawn(part, leads))
