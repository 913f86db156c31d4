"""Overview: the share of replicas that share prefixes, the fix plan, the map of the fleet, and its pools."""

from dataclasses import replace

import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.plan import plan_of
from dashboard.fleet import ReplicaState
from dashboard.views import pages
from dashboard.views.across import CLUSTERS
from dashboard.views.blocks import Entries, View
from dashboard.views.cause import PLAN
from dashboard.views.overview import BY_EFFECT, BY_RATE, MAP, NUMBERS, POOLS, UNREAD, overview_report, pools_table
from dashboard.views.pool_text import pools_by_urgency
from dashboard.views.summary import is_consistent, only_scope, scoped_title
from dashboard.views.table import sort_names
from dashboard.web import causes, draw, empty, links, markup, share, state
from dashboard.web.state import shared

BY_URGENCY = ""  # no sort in the URL


@shared(max_entries=8, has_times=True)
def overview_view(
    fleet: Fleet, sort: str, order: str, colouring: str, pool: str | None
) -> tuple[View, dict[str, draw.PreparedPieces]]:
    """Return the view, and its sections as HTML: writing a thousand cells takes as long as all the rest of the page."""
    part = fleet
    if pool is not None:
        part = replace(only_scope(fleet, pool), plan=plan_of(fleet).of_pool(pool, fleet.replicas))
    view = overview_report(part, sort, fleet, order=order, colouring=colouring)
    if pool is not None:
        context = replace(view.context, filters=(*view.context.filters, (pages.POOL, pool)))
        view = replace(view, headline=scoped_title(view.headline, pool), context=context)
    return view, {each.anchor: draw.prepare_sections([each]) for each in view.parts}


@shared(max_entries=4, has_times=True)
def pool_order(fleet: Fleet) -> tuple[str, ...]:
    return tuple(pool.name for pool in pools_by_urgency(fleet))


def draw_page() -> None:
    fleet = state.fleet()
    sort = links.read_choice(
        pages.SORT, [BY_URGENCY, *sort_names(each.title for each in pools_table(fleet, ()).columns)]
    )
    order = links.read_choice(pages.ORDER, ["", BY_EFFECT])
    colouring = links.read_choice(pages.MAP, ["", BY_RATE])
    view, prepared = overview_view(fleet, sort, order, colouring, links.scope())
    sections = {each.anchor: each for each in view.parts}
    number, noun, words = view.headline.partition(" replicas (")
    title = markup.text(view.headline)
    if words:
        title = f'<b data-testid="number">{markup.text(number)}</b>{markup.text(noun + words)}'
    if is_consistent(fleet):
        title = f"{markup.glyph('good')} {title}"
    head = markup.heading(title, markup.text(view.lead))
    st.html(f'<div class="overview-head">{head}{draw.html_of(sections[NUMBERS].blocks)}</div>')
    has_findings = any(isinstance(block, Entries) for block in sections[PLAN].blocks)
    if has_findings or any(pool.cohorts for pool in fleet.pools):
        with st.container(key="first"):
            draw.draw_prepared(prepared[PLAN], "first")
    elif any(replica.state is ReplicaState.UP for replica in fleet.replicas):
        empty.no_settings_reported("fleet") if fleet.pools else empty.no_pool_labels()
    for anchor in (CLUSTERS, MAP, POOLS, UNREAD):
        if anchor in sections:
            with st.container(key=anchor.replace("-", "_")):
                draw.draw_prepared(prepared[anchor], anchor)
    causes.draw_cause(fleet)
    empty.draw_guide()
    share.offer(lambda: view)
