"""The script behind every page: the pages' addresses, the header, the page itself, and where its data is from."""

from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from dashboard.analysis.assembly import Fleet
from dashboard.views import pages
from dashboard.web import changes_sides, choices, empty, frozen_band, links, markup, masthead, meeting, share, state

ICON = Path(__file__).with_name("icon.png")


def main() -> None:
    """Draw the header and the page that the address names."""
    fleet = state.settle()
    page = st.navigation(
        [
            st.Page(links.SCRIPTS / "overview.py", title="Overview", default=True),
            st.Page(links.SCRIPTS / "findings.py", title="Findings"),
            st.Page(links.SCRIPTS / "compare.py", title="Compare"),
            st.Page(links.SCRIPTS / "capacity.py", title="Capacity"),
            st.Page(links.SCRIPTS / "replicas.py", title="Replicas"),
            st.Page(links.SCRIPTS / "review.py", title="Review"),
            st.Page(links.SCRIPTS / "snapshots.py", title="Snapshots"),
            st.Page(links.SCRIPTS / "changes.py", title="Changes", visibility="hidden"),
            st.Page(links.SCRIPTS / "replica.py", title="Replica", visibility="hidden"),
        ],
        position="top",
    )
    sides = changes_sides.settle(page.url_path)
    about = sides.both[1] if sides and sides.both else fleet
    title = " · ".join(filter(None, (page.title, about.name, about.snapshot)))
    st.set_page_config(page_title=title, page_icon=str(ICON), layout="wide")
    controls = masthead.draw(about, sides)
    meeting.draw(page.url_path)
    share.begin()
    choices.begin()
    frozen_band.begin(fleet)
    if sides is None:
        frozen_band.draw_above(page.url_path)
    said, body, foot = st.container(), st.container(key="body"), st.container()
    try:
        with body:
            _draw(page, fleet)
    finally:  # a page may stop before its end
        with said:
            frozen_band.draw_not_followed()
        with foot:
            frozen_band.draw_below(fleet, page.url_path, sides)
        with controls:
            share.draw(about, page.url_path, sides)


def _draw(page: StreamlitPage, fleet: Fleet) -> None:
    """Draw the page, or why there is nothing to show; snapshots can be looked for at any time."""
    problem = state.problem()
    if page.url_path in {pages.SNAPSHOTS, pages.CHANGES}:
        if problem is not None:
            st.html(markup.notice("warning", markup.text(problem)))
        page.run()
    elif problem is not None:
        empty.no_such_snapshot(problem)
    elif fleet.polled_at is None:
        empty.no_data_yet()
    elif not fleet.replicas:
        empty.nothing_configured()
    else:
        page.run()


main()
