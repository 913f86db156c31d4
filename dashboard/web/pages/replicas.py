"""Replicas: every replica in one table."""

import pandas as pd
import streamlit as st

from dashboard.fleet.formatting import count, one_line
from dashboard.views import pages, replicas
from dashboard.views.blocks import Table
from dashboard.views.table import ASCENDING, DESCENDING, REVERSED, sort_name
from dashboard.web import draw, empty, filter_box, links, share, state
from dashboard.web.state import shared
from dashboard.web.tables import ARROWS

WORST_FIRST = ""  # no sort in the URL


known_rows = shared(max_entries=4, has_times=True)(replicas.replica_rows)


def choose(rows: pd.DataFrame) -> replicas.ReplicaChoice:
    """Draw the search box with its filters, the sort and the columns, and return the choice."""
    sorts, picked = [WORST_FIRST, *replicas.SORTS], list[str]()

    def draw_more() -> None:
        st.selectbox("Sort", sorts, **links.bind(pages.SORT, sorts), format_func=_sort_text)
        bound = links.bind_several(pages.COLUMNS, replicas.TITLES[1:])
        picked.extend(
            st.multiselect("Columns", replicas.TITLES[1:], **bound, format_func=one_line, placeholder="usual")
        )

    search = filter_box.draw_box(replicas.replica_keys(rows), "state:down version:0.32", draw_more)
    return replicas.ReplicaChoice(search, links.scope(), links.read_choice(pages.SORT, sorts), tuple(picked))


def _sort_text(sort: str) -> str:
    if sort == WORST_FIRST:
        return "problems first"
    title = next(each for each in replicas.SORTED_BY if sort_name(each) == sort.removeprefix(REVERSED))
    return f"{title} {ARROWS[DESCENDING if sort.startswith(REVERSED) else ASCENDING]}"


def draw_page() -> None:
    fleet = state.fleet()
    head = st.container()
    rows = known_rows(fleet)
    choice = choose(rows)
    view = replicas.replicas_report(fleet, choice, rows=rows)
    with head:
        draw.draw_head(view)
    share.offer(lambda: view)
    (section,) = (each for each in view.parts if each.anchor == replicas.TABLE)
    if not any(isinstance(block, Table) for block in section.blocks):
        hidden = len(replicas.chosen_rows(rows, replicas.ReplicaChoice(pool=choice.pool)))
        empty.filter_hides_all(f"{count(hidden, 'replica')} hidden.", links.to(pages.REPLICAS))
        return
    draw.open_link(draw.draw_blocks(section.blocks, "replicas"))
