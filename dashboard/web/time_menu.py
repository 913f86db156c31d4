"""The menu of the header that opens a page as it was at a past time, or what changed since then."""

from datetime import UTC, datetime, timedelta
from operator import itemgetter

import streamlit as st

from dashboard import service
from dashboard.fleet.times import write_time
from dashboard.views import pages
from dashboard.web import links, markup, snapshots, state

DAY, CLOCK = "past_day", "past_clock"  # keys of the session
STEP = timedelta(minutes=1)


def draw(page: str) -> None:
    """Draw the button and its popover; nothing without a history."""
    if service.history() is None:
        return
    past, now = state.fleet().past, service.now().astimezone(UTC).replace(second=0, microsecond=0)
    shown = past.at if past else now
    with st.popover("Time", width="content", key="time_menu"):
        st.html(markup.section("Open a past time (UTC)"))
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            day = st.date_input("Date", shown.date(), max_value=now.date(), key=DAY, width=140)
            clock = st.time_input("Time", shown.time(), step=STEP, key=CLOCK, width=110)
            time = datetime.combine(day, clock, UTC)
            st.html(f'<p class="go">{markup.link(_url(page, time), "Open", css="button")}</p>')
        times = sorted(snapshots.past_times().items(), key=itemgetter(1), reverse=True)
        quick = [markup.link(_url(page, time), label) for label, time in times]
        back = [markup.link(links.live(page, **links.page_choices()), "Back to live")] if past else []
        st.html(f'<p class="quick-times">{" · ".join([*quick, *back])}</p>')
        st.html(markup.section("Changes since"))
        since = [markup.link(links.changes_since(write_time(time)), label) for label, time in times]
        st.html(f'<p class="quick-times">{" · ".join(since)}</p>')


def _url(page: str, time: datetime) -> str:
    return links.live(page, **{**links.page_choices(), pages.AT: write_time(time)})
