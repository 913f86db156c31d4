"""The part of Compare with a column for each cluster and cohort: pools of one name in several clusters."""

import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import one_line
from dashboard.fleet.pieces import Kind
from dashboard.render.tabular import matrix_csv
from dashboard.views import pages
from dashboard.views.across import across_report, cluster_pools
from dashboard.views.blocks import DifferenceTable, View
from dashboard.views.pool_comparison import SettingChoice, coverage_text
from dashboard.web import draw, empty, links, share
from dashboard.web.state import shared

DIFFERENCES, ALL = "Only differences", "All settings"
MAJORITY = ""  # no reference in the URL


@shared(max_entries=8, has_times=True)
def across_view(fleet: Fleet, name: str, choice: SettingChoice, reference: str) -> tuple[View, draw.PreparedPieces]:
    view = across_report(fleet, name, choice, reference)
    return view, draw.prepare_sections(view.parts)


def draw_across(fleet: Fleet) -> None:
    """Draw the comparison of the pools with the name in the URL, or that there is none."""
    name = st.query_params.get(pages.POOL, "")
    pools = cluster_pools(fleet, name)
    if not pools:
        empty.no_such_pool(name, links.scoped(pages.COMPARE))
        return
    head = st.container()
    with draw.controls_row("filters"):
        rows = links.draw_segments("Show", pages.SHOW, (DIFFERENCES, ALL))
        search = st.text_input("Search", **links.bind(pages.SEARCH), placeholder="path or value", live=True, width=150)
        options = [MAJORITY, *(each.cluster for each in pools if each.cluster)]
        bound = links.bind(pages.REFERENCE, options)
        reference = st.selectbox(
            "Reference", options, **bound, format_func=lambda key: one_line(key) or "majority", width=200
        )
        choice = SettingChoice(only_differences=rows != ALL, search=search or "")
        view, pieces = across_view(fleet, name, choice, reference or MAJORITY)
        st.download_button(
            "CSV",
            data=lambda: "\n".join(matrix_csv(each, (coverage_text(fleet),)) for each in _tables(view)),
            file_name=f"{links.make_file_name(fleet.name, name, 'clusters', *pages.choices_of(fleet).values())}.csv",
            mime="text/csv",
            on_click="ignore",
            help="What the tables show, values uncut.",
        )
    with head:
        draw.draw_head(view)
    clicked = draw.draw_prepared(pieces, "across")
    share.offer(lambda: view)
    if clicked is None:
        return
    pool, _, letter = clicked.key.rpartition(" ")
    if clicked.kind is Kind.SETTING:
        links.open_url(links.to(pages.SETTINGS, path=clicked.key))
    elif pool in {each.name for each in pools}:
        links.open_url(links.to(pages.COMPARE, pool=pool, cohort=letter))


def _tables(view: View) -> list[DifferenceTable]:
    return [block for part in view.parts for block in part.blocks if isinstance(block, DifferenceTable)]
