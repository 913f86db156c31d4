"""The script behind every page: the pages' addresses, the header, then the page itself."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard.ui import empty, links, masthead, state

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
            st.Page(links.SCRIPTS / "replica.py", title="Replica", visibility="hidden"),
        ],
        position="top",
    )
    st.set_page_config(page_title=f"{page.title} · {fleet.name}", page_icon=str(ICON), layout="wide")
    masthead.draw(fleet)
    if fleet.polled_at is None:
        empty.no_data_yet()
    elif not fleet.replicas:
        empty.nothing_configured()
    else:
        page.run()


main()
