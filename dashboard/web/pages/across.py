"""The part of Compare with a column for each cluster and cohort: pools of one name in several clusters."""

from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.pieces import Kind
from dashboard.render.tabular import matrix_csv
from dashboard.views import pages
from dashboard.views.across import across_report, cluster_pools
from dashboard.views.blocks import DifferenceTable, View
from dashboard.views.pool_comparison import SettingChoice, coverage_text
from dashboard.web import draw, empty, filter_box, links, share
from dashboard.web.state import shared


@shared(max_entries=8, has_times=True)
def across_view(fleet: Fleet, name: str, choice: SettingChoice, reference: str) -> tuple[View, draw.PreparedPieces]:
    view = across_report(fleet, name, choice, reference)
    return view, draw.prepare_sections(view.parts)


def draw_across(fleet: Fleet) -> None:
    """Draw the comparison of the pools with the name in the URL, or that there is none."""
    name = st.query_params.get(pages.POOL, "")
    pools = cluster_pools(fleet, name)
    if not pools:
        empty.no_such_scope("pool", name, links.scoped(pages.COMPARE))
        return
    head = st.container()
    with draw.controls_row("filters"):
        choice = filter_box.draw_rows()
        options = ["", *(each.cluster for each in pools if each.cluster)]
        reference = links.draw_select("Reference", pages.REFERENCE, options, 200, lambda key: key or "majority")
        view, pieces = across_view(fleet, name, choice, reference or "")
        st.download_button(
            "CSV",
            data=lambda: "\n".join(matrix_csv(each, (coverage_text(fleet),)) for each in _tables(view)),
            file_name=f"{links.make_file_name(fleet.name, name, 'clusters', *pages.choices_of(fleet).values())}.csv",
            mime="text/csv",
            on_click="ignore",
            help="What the tables show, values uncut.",
        )

    def url_of(column: str) -> str | None:
        pool, _, letter = column.rpartition(" ")
        return links.to(pages.COMPARE, pool=pool, cohort=letter) if pool in {each.name for each in pools} else None

    draw_columns(head, view, pieces, "across", url_of)


def draw_columns(
    head: DeltaGenerator, view: View, pieces: draw.PreparedPieces, key: str, url_of: Callable[[str], str | None]
) -> None:
    """Draw a comparison of replicas of several pools; a click opens a setting, or the URL of a column by its key."""
    with head:
        draw.draw_head(view)
    clicked = draw.draw_prepared(pieces, key)
    share.offer(lambda: view)
    if clicked is not None:
        is_setting = clicked.kind is Kind.SETTING
        if url := links.to(pages.SETTINGS, path=clicked.key) if is_setting else url_of(clicked.key):
            links.open_url(url)


def _tables(view: View) -> list[DifferenceTable]:
    return [block for part in view.parts for block in part.blocks if isinstance(block, DifferenceTable)]
