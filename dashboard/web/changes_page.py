"""The page Changes: the choice of both sides, and the view of what changed."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.views import pages
from dashboard.views.blocks import View
from dashboard.views.changes import changes_report
from dashboard.views.context import context_of
from dashboard.web import draw, empty, links, markup, share, snapshots
from dashboard.web.changes_sides import Chosen, Sides

Stamp = tuple[int, datetime | None, str]  # generation and time of a fleet, and the name of its snapshot


class Shown(NamedTuple):
    """The view, and its sections prepared; appendices are folded."""

    view: View
    pieces: draw.Prepared


def choose(sides: Sides) -> None:
    """Draw the choice of both sides, which is in the URL."""
    before, after, known = sides
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="changes_sides"):
        snapshots.draw_side(pages.CHANGES, pages.FROM, known, _known(before, known))
        swapped = links.to(pages.CHANGES, **{pages.FROM: after.id, pages.TO: before.id})
        st.html(f'<p class="go">{markup.link(swapped, "⇄ Swap", title="Swap before and after")}</p>')
        snapshots.draw_side(pages.CHANGES, pages.TO, known, _known(after, known))


def _known(side: Chosen, known: Mapping[str, str]) -> str | None:
    return side.id if side.id in known else None


def draw_changes(sides: Sides, head: DeltaGenerator) -> None:
    """Draw what changed, or why nothing is compared; `head` is the place above the choice of sides."""
    problems = [each.problem for each in (sides.before, sides.after) if each.problem]
    for each in problems:
        st.html(markup.notice("warning", markup.text(each)))
    if sides.both is None:
        if not problems:
            empty.same_twice()
        return
    before, after = sides.both
    found = shown(_stamp(before, sides.before.name), _stamp(after, sides.after.name), before, after)
    share.offer(lambda: found.view)
    with head:
        draw.draw_head(found.view)
    draw.draw_prepared(found.pieces, "changes")


def _stamp(fleet: Fleet, name: str) -> Stamp:
    return fleet.generation, fleet.polled_at, name


@st.cache_resource(max_entries=6, show_spinner=False)
def shown(before: Stamp, after: Stamp, _before: Fleet, _after: Fleet) -> Shown:
    """Compare two fleets; every session that compares them shares the result."""
    changes = changes_between(_before, _after)
    view = changes_report(changes, context_of(_before, name=before[-1]), context_of(_after, name=after[-1]))
    folded = (draw.Aside(each.title, draw.prepare(each.blocks)) for each in view.parts if each.is_appendix)
    return Shown(view, (*draw.prepare_sections(view.parts), *folded))
