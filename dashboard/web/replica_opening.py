"""Opens the page of a replica from a table or a chart, whose parts are no links.

`st.switch_page(query_params=)` would leave a second entry in the browser's history, this page with the next one's
choices, and Back would lead there instead of to what the reader saw.
"""

from pathlib import Path

import streamlit as st

from dashboard.views import pages
from dashboard.web import links

_component = st.components.v2.component(
    "open_address", js=Path(__file__).with_name("replica_opening.js").read_text(encoding="utf-8")
)


def open_replica(replica: str) -> None:
    """Let the browser go to the page of one replica, as it would by a link."""
    open_address(links.onward(pages.REPLICA_PAGE, replica=replica))


def open_address(address: str) -> None:
    """Let the browser go to an address of ours, as it would by a link."""
    with st.container(key="navigate_once"):
        _component(key="open_address", data={"address": address})
