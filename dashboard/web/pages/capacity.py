"""Capacity: KV cache per DP rank, per GPU and per pool."""

import streamlit as st

from dashboard.views import pages
from dashboard.views.capacity import GPU, POOL, RANK, capacity_report, order_pools
from dashboard.views.capacity_text import Measure, parse_length
from dashboard.web import draw, empty, links, markup, share, state
from dashboard.web.state import shared

PERS = (RANK, GPU, POOL)  # the options are the labels of the control and the values in the URL
EVERY_POOL = "all pools"
OWN = "own length"  # each replica's own max_model_len
LENGTHS = (OWN, "4k", "8k", "32k", "128k")


pool_names = shared(max_entries=4)(order_pools)
capacity_view = shared(max_entries=32)(capacity_report)


def draw_page() -> None:
    """Draw the page: the controls in one row; of all pools, the ranks of the worst."""
    fleet = state.fleet()
    if not fleet.pools:
        empty.nothing_answered()
        return

    pools, measures = pool_names(fleet), [each.value for each in Measure]
    options = (EVERY_POOL, *pools)
    per = links.read_choice(pages.PER, PERS)
    measure, pool = links.read_choice(pages.MEASURE, measures), links.read_choice(pages.POOL, options)
    length = st.query_params.get(pages.LENGTH) or OWN
    tokens = parse_length(length)
    scope = None if pool == EVERY_POOL else pool
    view = capacity_view(fleet, scope, Measure(measure), tokens, per)
    draw.draw_head(view)  # before the controls, whose choices the URL has: nothing moves when the page is drawn
    with draw.controls_row("controls"):
        if per != GPU:  # a GPU has memory only
            links.draw_segments("Measure", pages.MEASURE, measures)
        if measure == Measure.REQUESTS or length != OWN:
            st.selectbox(
                "Tokens per request",
                LENGTHS,
                **links.bind(pages.LENGTH, default=OWN),
                accept_new_options=True,
                width=170,
                help="Type any number, such as 50000 or 64k. Own length: the `max_model_len` of each replica.",
            )
        links.draw_segments("Bars per", pages.PER, PERS)
    if length != OWN and tokens is None:
        why = "is not a length in tokens, such as 32768 or 32k. Requests use each replica's own length."
        st.html(markup.notice("warning", f"{markup.code(length)} {why}"))
    draw.open_link(draw.draw_sections(view.parts, "capacity"))
    share.offer(lambda: view, charts=True)
