"""The page Settings: its controls, whose choices are in the URL, and its rows, shared by all sessions."""

from datetime import datetime

import pandas as pd
import streamlit as st

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import natural, one_line
from dashboard.views import pages
from dashboard.views.settings import Choice, setting_values
from dashboard.web import links
from dashboard.web.state import shared

ALL = {pages.POOL: "all pools", pages.VERSION: "all versions", pages.ROLE: "all roles"}


@shared(max_entries=4)
def rows(generation: int, since: datetime | None, _fleet: Fleet) -> pd.DataFrame:  # noqa: ARG001  # the cache's key
    """Return the values of one fleet."""
    return setting_values(_fleet)


def choose(fleet: Fleet, *, has_path: bool) -> Choice:
    """Draw the search, or the filters of one setting, and return their choice."""
    search = label = ""
    if not has_path:
        search = st.text_input("Search", **links.bind(pages.SEARCH), placeholder="path or value", width=260, live=True)
    pool = _select("Pool", pages.POOL, [each.name for each in fleet.pools])
    version = role = None
    if has_path:
        versions = sorted({each.version for each in fleet.replicas if each.version}, key=natural)
        version = _select("vLLM", pages.VERSION, versions)
        role = _select("Role", pages.ROLE, sorted({str(each.role) for each in fleet.replicas}))
        label = st.text_input("Label", **links.bind(pages.LABEL), placeholder="key=value", width=200, live=True)
    return Choice(search or "", pool, version, role, label or "")


def _select(label: str, name: str, values: list[str]) -> str | None:
    options = [ALL[name], *values]
    chosen = st.selectbox(label, options, **links.bind(name, options), format_func=one_line, width=200)
    return None if chosen in {None, ALL[name]} else chosen
