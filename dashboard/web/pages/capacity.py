"""Capacity: KV cache per DP rank, per GPU and per pool."""

from collections.abc import Sequence
from typing import NamedTuple

import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import one_line
from dashboard.views import pages
from dashboard.views.blocks import View
from dashboard.views.capacity import GPU, POOL, RANK, capacity_report, order_pools
from dashboard.views.capacity_text import Measure, parse_length
from dashboard.web import draw, empty, links, markup, share, state
from dashboard.web.state import shared

PERS = (RANK, GPU, POOL)  # the options are the labels of the control and the values in the URL
OWN = "own length"  # each replica's own max_model_len
LENGTHS = (OWN, "4k", "8k", "32k", "128k")


class CapacityChoice(NamedTuple):
    """The choices of a reader. `length` is None for each replica's own; `misread` is a text that is no length."""

    measure: Measure
    length: int | None
    pool: str
    per: str
    misread: str = ""


def choose(pools: Sequence[str]) -> CapacityChoice:
    """Draw the controls in one row and return their choice. The first pool is the default."""
    measures = [each.value for each in Measure]
    per = links.read_choice(pages.PER, PERS)
    measure, pool = links.read_choice(pages.MEASURE, measures), links.read_choice(pages.POOL, pools)
    with st.container(key="controls", horizontal=True, vertical_alignment="bottom", gap="small"):
        if per != GPU:  # a GPU has memory only
            measure = links.draw_segments("Measure", pages.MEASURE, measures)
        length = st.selectbox(
            "Requests of",
            LENGTHS,
            **links.bind(pages.LENGTH, default=LENGTHS[0]),
            accept_new_options=True,
            width=170,
            help="Tokens per request. Type any number, such as 50000 or 64k.",
        )
        if per != POOL:
            pool = st.selectbox("Pool", pools, **links.bind(pages.POOL, pools), format_func=one_line, width=250)
        per = links.draw_segments("Bars per", pages.PER, PERS)
    tokens = parse_length(length or OWN)
    return CapacityChoice(
        measure=Measure(measure),
        length=tokens,
        pool=pool or pools[0],
        per=per,
        misread=length if length and length != OWN and tokens is None else "",
    )


@shared(max_entries=4)
def pool_names(fleet: Fleet) -> tuple[str, ...]:
    """Return the pools of a fleet, those with the most short ranks first."""
    return order_pools(fleet)


@shared(max_entries=32)
def capacity_view(fleet: Fleet, name: str, choice: CapacityChoice) -> View:
    """Return the view of one fleet and one choice."""
    return capacity_report(fleet, choice.pool, choice.measure, choice.length, per=choice.per, name=name)


def draw_page() -> None:
    """Draw the page."""
    fleet = state.fleet()
    if not fleet.pools:
        empty.nothing_answered()
        state.end_page()

    head = st.container()
    choice = choose(pool_names(fleet))
    if choice.misread:
        why = "is not a length in tokens, such as 32768 or 32k. Requests use each replica's own length."
        st.html(markup.notice("warning", f"{markup.code(choice.misread)} {why}"))
    name = state.snapshot_name()
    view = capacity_view(fleet, name, choice._replace(misread=""))
    with head:
        draw.draw_head(view)
    clicked = draw.draw_sections(view.parts, "capacity")
    share.offer(lambda: view, charts=True)
    if clicked:
        draw.open_link(clicked)
