"""Changes: what changed between two fleets: snapshots, past times, or the live fleet."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.events import (
    ALL_CHANGES,
    ChangeFilter,
    Event,
    begun_between,
    filter_events,
    filter_fleet,
    range_between,
)
from dashboard.errors import HistoryError
from dashboard.store.history.reader import HistoryReader
from dashboard.views import pages
from dashboard.views.blocks import View
from dashboard.views.changes import changes_report
from dashboard.views.changes_text import what_happened
from dashboard.views.context import context_of
from dashboard.web import draw, empty, filter_box, links, markup, share
from dashboard.web.sides import ChangesSide, Sides, draw_side, settled
from dashboard.web.state import stamp

FILTERS = (pages.POOL, pages.PATH, pages.REPLICA)
MOST_LOOKED_UP = 20  # polls whose findings a filter reads: each takes 0.1 s at 1,000 replicas


def choose(sides: Sides) -> ChangeFilter:
    """Draw the choice of both sides and the filters, which are in the URL; return the filters."""
    before, after, known = sides
    with draw.controls_row("changes_sides"):
        draw_side(pages.CHANGES, pages.FROM, known, _known(before, known))
        swapped = links.to(pages.CHANGES, **{**links.page_choices(), pages.FROM: after.id, pages.TO: before.id})
        st.html(f'<p class="go">{markup.link(swapped, "⇄ Swap", title="Swap before and after")}</p>')
        draw_side(pages.CHANGES, pages.TO, known, _known(after, known))
        if sides.both is None:
            return ALL_CHANGES
        pool = links.read_choice(pages.POOL, ["", *sorted({each.name for fleet in sides.both for each in fleet.pools})])
        with filter_box.draw_button(pages.PATH, pages.REPLICA):
            path = st.text_input("Setting", **links.bind(pages.PATH), placeholder="part of a path")
            replica = st.text_input("Replica", **links.bind(pages.REPLICA), placeholder="name or address")
    return ChangeFilter(pool, (path or "").strip(), (replica or "").strip())


def _known(side: ChangesSide, known: Mapping[str, str]) -> str | None:
    is_past = side.fleet is not None and side.fleet.past is not None
    return side.id if side.id in known or is_past else None


def draw_changes(sides: Sides, wanted: ChangeFilter, head: DeltaGenerator) -> None:
    """Draw what changed, or why nothing is compared; `head` is the place above the choice of sides."""
    problems = list(filter(None, dict.fromkeys(each.problem for each in (sides.before, sides.after))))
    for each in problems:
        st.html(markup.notice("warning", markup.text(each)))
    if sides.both is None:
        if not problems:
            empty.same_twice()
        return
    before, after = sides.both
    try:
        history = service.history() if sides.range else None
        events = read_events(before, after, history) if history and sides.range else None
    except HistoryError as error:
        st.html(markup.notice("warning", markup.text(error)))
        events = None
    names = sides.before.name, sides.after.name
    view, pieces = shown(before, after, names, wanted, None if events is None else sides.range, events or ())
    share.offer(lambda: view)
    with head:
        draw.draw_head(view)
    draw.draw_prepared(pieces, "changes")


@st.cache_resource(max_entries=6, show_spinner=False, hash_funcs={Fleet: stamp})
def read_events(before: Fleet, after: Fleet, _history: HistoryReader) -> tuple[Event, ...]:
    """Return what happened between the times of two fleets; every session shares the result."""
    times = range_between(before, after)
    return _history.events(*times) if times else ()


@st.cache_resource(max_entries=6, show_spinner=False, hash_funcs={Fleet: stamp})
def shown(
    before: Fleet,
    after: Fleet,
    names: tuple[str, str],
    wanted: ChangeFilter,
    between: tuple[datetime, datetime] | None,
    _events: tuple[Event, ...],
) -> tuple[View, draw.PreparedPieces]:
    """Return the comparison of two fleets, and its sections prepared, appendices folded; sessions share the result."""
    fleets = [before, after]
    changes = changes_between(filter_fleet(before, wanted), filter_fleet(after, wanted))
    begun = begun_between(_events, wanted, fleets)
    with suppress(HistoryError):  # no longer recorded
        fleets += [service.past(at) for at in list(begun)[:MOST_LOOKED_UP]]
    events = filter_events(_events, wanted, fleets)
    skipped = sum(map(len, list(begun.values())[MOST_LOOKED_UP:]))
    filters = [(name, text) for name, text in zip(FILTERS, wanted, strict=True) if text]
    contexts = [context_of(side, name=name, filters=filters) for side, name in zip((before, after), names, strict=True)]
    happened = what_happened(events, *between, skipped) if between else None
    view = changes_report(changes, contexts[0], contexts[1], happened)
    folded = (draw.folded(each.title, draw.prepare(each.blocks)) for each in view.parts if each.is_appendix)
    return view, (*draw.prepare_sections(view.parts), *folded)


def draw_page() -> None:
    head = st.container()
    sides = settled()
    wanted = choose(sides)
    draw_changes(sides, wanted, head)
