"""Chosen replicas side by side on the page Compare: of any pools, and as they were in snapshots."""

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.errors import SnapshotError
from dashboard.fleet.formatting import one_line
from dashboard.fleet.pieces import Kind
from dashboard.views import pages
from dashboard.views.blocks import View
from dashboard.views.chosen_columns import (
    OpenedSnapshot,
    add_snapshot,
    chosen_columns,
    not_shown,
    read_chosen,
    snapshot_notes,
    with_snapshots,
)
from dashboard.views.compare import chosen_reference, chosen_report
from dashboard.views.pool_comparison import ORIGIN_WORDS, OriginFilter, SettingChoice
from dashboard.views.snapshots import describe_snapshot
from dashboard.web import draw, empty, links, markup, share
from dashboard.web.state import shared

LEAST_CHOSEN = 2  # replicas to compare
DIFFERENCES, ALL = "Only differences", "All settings"  # labels of the control and values in the URL
ORIGIN_HELP = "Whether an argument, a config file or a variable sets the value. Only the configuration API reports it."
ADDED = "added_snapshot"  # key of the choice that adds columns


@shared(max_entries=8, has_times=True)
def chosen_view(
    fleet: Fleet, ids: tuple[str, ...], choice: SettingChoice, notes: dict[str, str]
) -> tuple[View, draw.PreparedPieces]:
    """Return the comparison of chosen replicas, and its sections prepared."""
    view = chosen_report(fleet, ids, choice, notes)
    return view, draw.prepare_sections(view.parts)


def choose_origin() -> OriginFilter:
    bound = links.bind(pages.ORIGIN, list(OriginFilter))
    chosen = st.selectbox(
        "Origin", list(OriginFilter), **bound, format_func=lambda key: ORIGIN_WORDS[key], width=195, help=ORIGIN_HELP
    )
    return OriginFilter(str(chosen))


def draw_chosen(shown: Fleet, text: str) -> None:
    columns = chosen_columns(text)
    opened, problems = _open_snapshots({each.snapshot: None for each in columns if each.snapshot})
    fleet = with_snapshots(shown, columns, opened)
    ids = read_chosen(fleet, text)
    if sentences := not_shown(fleet, text, opened, problems):
        st.html(markup.notice("warning", markup.text(" ".join(sentences))))
    if len(ids) < LEAST_CHOSEN:
        empty.too_few_chosen()
        if ids:
            _choose_snapshot(text, ids)
        return
    head = st.container()
    with draw.controls_row("filters"):
        rows = links.draw_segments("Show", pages.SHOW, (DIFFERENCES, ALL))
        search = st.text_input("Search", **links.bind(pages.SEARCH), placeholder="path or value", live=True, width=150)
        origin = choose_origin()
        first = chosen_reference(fleet, ids).key or ids[0]
        options = [first, *(each for each in ids if each != first)]
        bound = links.bind(pages.REFERENCE, options)
        reference = st.selectbox(
            "Reference", options, **bound, format_func=lambda key: one_line(fleet.names[key]), width=240
        )
        _choose_snapshot(text, ids)
    choice = SettingChoice(
        only_differences=rows != ALL,
        search=search or "",
        origin=origin,
        reference=chosen_reference(fleet, ids, str(reference)),
        by_replica=True,
    )
    view, pieces = chosen_view(fleet, ids, choice, snapshot_notes(columns, opened))
    with head:
        draw.draw_head(view)
    clicked = draw.draw_prepared(pieces, "chosen")
    share.offer(lambda: view)
    if clicked is None:
        return
    frozen = next((each for each in columns if each.snapshot and each.key == clicked.key), None)
    if clicked.kind is Kind.SETTING:
        links.open_url(links.to(pages.SETTINGS, path=clicked.key))
    elif frozen is not None:
        links.open_url(links.live(pages.REPLICA_PAGE, replica=frozen.replica, snapshot=frozen.snapshot))
    else:
        draw.open_link(clicked)


def _open_snapshots(asked: dict[str, None]) -> tuple[dict[str, OpenedSnapshot], dict[str, str]]:
    """Return the snapshots by their texts in the URL, and why the others cannot be opened."""
    opened, problems = {}, {}
    for text in asked:
        try:
            key = service.snapshots().named(text)
            opened[text] = OpenedSnapshot(service.open_snapshot(key), service.snapshots().get(key).metadata.name)
        except SnapshotError as error:
            problems[text] = str(error)
    return opened, problems


def _choose_snapshot(text: str, ids: tuple[str, ...]) -> None:
    """Draw the choice of a snapshot, which adds each replica as it was then; nothing without snapshots."""
    try:
        known = {each.id: each for each in service.snapshots().all()}
    except SnapshotError:  # the page Snapshots has the reason
        return
    if known:
        st.selectbox(
            "Add snapshot",
            list(known),
            index=None,
            key=ADDED,
            format_func=lambda key: one_line(describe_snapshot(known[key])),
            on_change=_add_snapshot,
            args=(text, ids),
            placeholder="none",
            width=240,
        )


def _add_snapshot(text: str, ids: tuple[str, ...]) -> None:
    if key := st.session_state[ADDED]:
        st.query_params[pages.CHOSEN] = add_snapshot(text, key, ids)
        st.session_state[ADDED] = None
