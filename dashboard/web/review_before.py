"""Which review the page is held against: the last one, or an earlier one that the reader chooses."""

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.store import Stored
from dashboard.store.reviews import Earlier, Last, last_review, opened
from dashboard.views import pages
from dashboard.web import links, markup
from dashboard.web.snapshots import describe


def chosen(known: Earlier, fleet: Fleet) -> Last:
    """Open the earlier snapshot that the address names, or the last review."""
    usual = last_review(known, fleet)
    by_id = _by_id(known)
    stored = by_id[links.read_choice(pages.FROM, list(by_id), default=usual.id)] if usual else None
    return opened(known, stored, service.frozen)


def draw(known: Earlier, last: Last, fleet: Fleet) -> None:
    """Let the reader choose another review to hold this one against, and lead to all that changed since."""
    if usual := last_review(known, fleet):
        _draw_choice(known, usual, last, fleet)
    if last.problem:
        st.html(markup.notice("warning", markup.text(last.problem)))


def _draw_choice(known: Earlier, usual: Stored, last: Last, fleet: Fleet) -> None:
    by_id = _by_id(known)
    with st.container(key="review_since", horizontal=True, vertical_alignment="center", gap="small"):
        if len(by_id) > 1:
            st.selectbox(
                "Last review",
                list(by_id),
                **links.bind(pages.FROM, list(by_id), default=usual.id),
                format_func=lambda key: describe(by_id[key]),
                width=430,
                label_visibility="collapsed",
            )
        else:
            st.html(f'<p class="foot">{markup.text(describe(usual))}</p>')
        if last.id is not None:
            address = links.to(pages.CHANGES, **{pages.FROM: last.id, pages.TO: fleet.snapshot or pages.LIVE})
            st.html(f'<p class="foot">{markup.link(address, "All that changed, replica by replica")}</p>')


def _by_id(known: Earlier) -> dict[str, Stored]:
    return {each.id: each for each in known.snapshots}
