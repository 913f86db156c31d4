"""The controls of Capacity. Every choice stands in the URL under the name of its key."""

from collections.abc import Sequence
from typing import NamedTuple

import streamlit as st

from dashboard.fleet.formatting import one_line
from dashboard.report.capacity.ranks import Measure
from dashboard.report.capacity.words import parse_length
from dashboard.views import pages
from dashboard.web import links

# The options are what the reader sees and what stands in the URL: a bound widget writes its labels there.
RANK, GPU, POOL = "DP rank", "GPU", "pool"
PERS = (RANK, GPU, POOL)
OWN = "own length"  # of each replica itself, its max_model_len
LENGTHS = (OWN, "4k", "8k", "32k", "128k")


class Choice(NamedTuple):
    """What the reader asked for. `length` is None for each replica's own; `misread` is a length that is none."""

    measure: Measure
    length: int | None
    pool: str
    per: str
    misread: str = ""

    @property
    def drawn(self) -> Measure:
        """What the bars are drawn in: of a GPU it is always GiB, whatever is chosen for ranks and pools."""
        return Measure.GIB if self.per == GPU else self.measure


def choose(pools: Sequence[str]) -> Choice:
    """Draw the controls that apply in one row and return what they say. The first pool is shown until one is chosen."""
    measures = [each.value for each in Measure]
    per = links.read_choice(pages.PER, PERS)
    measure, pool = links.read_choice(pages.MEASURE, measures), links.read_choice(pages.POOL, pools)
    with st.container(key="controls", horizontal=True, vertical_alignment="bottom", gap="small"):
        if per != GPU:  # a GPU has memory, and nothing else is drawn of it
            measure = links.draw_segments("Measure", pages.MEASURE, measures)
        length = st.selectbox(
            "Requests of",
            LENGTHS,
            **links.bind(pages.LENGTH, default=LENGTHS[0]),
            accept_new_options=True,
            width=170,
            help="How many tokens every request has. Any number can be typed, such as 50000 or 64k.",
        )
        if per != POOL:
            pool = st.selectbox("Pool", pools, **links.bind(pages.POOL, pools), format_func=one_line, width=250)
        per = links.draw_segments("Bars per", pages.PER, PERS)
    tokens = parse_length(length or OWN)
    return Choice(
        measure=Measure(measure),
        length=tokens,
        pool=pool or pools[0],
        per=per,
        misread=length if length and length != OWN and tokens is None else "",
    )


def address(choice: Choice, pool: str) -> str:
    """Return the address of this page with the same choices and another pool."""
    return links.to(
        pages.CAPACITY,
        pool=pool,
        measure=None if choice.measure is Measure.TOKENS else choice.measure.value,
        length=None if choice.length is None else str(choice.length),
        per=GPU if choice.per == GPU else None,
    )
