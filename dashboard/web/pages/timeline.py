"""Timeline: the cohorts of every pool over time, and who changed what in the dashboard."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import service
from dashboard.access.audit import DONE
from dashboard.analysis.assembly import Fleet
from dashboard.analysis.timeline import Period
from dashboard.config.access import AccessRole
from dashboard.errors import HistoryError
from dashboard.store.history.reader import HistoryReader
from dashboard.views import pages
from dashboard.views.audit import CHANGES, MOST_ENTRIES, TITLE, action_words, audit_report
from dashboard.views.blocks import Block
from dashboard.views.timeline import RANGES, timeline_report
from dashboard.web import draw, empty, filter_box, links, markup, sessions, share, state, timeline
from dashboard.web.pages.overview import pool_order

SHOWN = {"fleet": "Fleet", pages.AUDIT: TITLE}


def draw_page() -> None:
    fleet, reader = state.fleet(), service.history()
    head, pools = st.container(), pool_order(fleet)
    pool = links.read_choice(pages.POOL, ["", *pools]) or None
    blocks: tuple[Block, ...] = ()
    if reader is not None and timeline.has_history(fleet):
        with st.container(key="timeline_controls", horizontal=True, vertical_alignment="center", gap="small"):
            window = timeline.choose_range(fleet)
            shown = links.draw_segments("Show", pages.SHOW, list(SHOWN), SHOWN.__getitem__)
            filters = _draw_filters() if shown == pages.AUDIT else None
        if filters is not None:
            _draw_audit(fleet, reader, head, window, *filters)
            return
        blocks = timeline.draw_fleet(fleet, pools, pool, window)
    view = timeline_report(fleet, blocks, pool)
    with head:
        draw.draw_head(view)
    if not blocks:
        empty.no_history()
    share.offer(lambda: view, charts=bool(blocks))


def _draw_filters() -> tuple[str, str]:
    """Draw the filters of the audit log; return a part of a name, and an action, each empty for all."""
    with filter_box.draw_button(pages.WHO, pages.ACTION):
        who = st.text_input("Who", **links.bind(pages.WHO), placeholder="part of a name")
        actions = ["", *CHANGES]
        action = st.selectbox(
            "Action",
            actions,
            **links.bind(pages.ACTION, actions),
            format_func=lambda each: action_words(each) if each else "Any",
        )
    return (who or "").strip(), str(action or "")


def _draw_audit(
    fleet: Fleet, reader: HistoryReader, head: DeltaGenerator, window: timeline.Window, who: str, action: str
) -> None:
    """Draw who changed what in a range. Only admins see refusals, sign-ins and addresses."""
    is_whole = sessions.role() is AccessRole.ADMIN
    until = service.now() if window.shown is None else window.period.until
    period = Period(until - RANGES[window.name], until)
    actions = [action] if action else () if is_whole else CHANGES
    try:
        entries = reader.audit.entries(period, actions, () if is_whole else (DONE,), who, most=MOST_ENTRIES)
    except HistoryError as error:
        st.html(markup.notice("warning", markup.text(error)))
        return
    view = audit_report(fleet, entries, period, is_whole=is_whole)
    with head:
        draw.draw_head(view)
    if entries:
        draw.draw_sections(view.parts, "audit")
    elif who or action:
        everything = {pages.SHOW: pages.AUDIT, pages.RANGE: st.query_params.get(pages.RANGE)}
        empty.filter_hides_all("No entry of the audit log in this range.", links.to(pages.TIMELINE, **everything))
    else:
        empty.nobody_changed_anything()
    share.offer(lambda: view)
