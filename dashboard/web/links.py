"""Addresses of pages: the one place that knows their names and the names of what stands in the URL."""

from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, urlencode, urlsplit

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

SCRIPTS = Path(__file__).parent / "page_scripts"  # not "pages": Streamlit would take them for pages of its own kind
OVERVIEW, FINDINGS, COMPARE = "", "findings", "compare"
CAPACITY, REPLICAS, REPLICA_PAGE = "capacity", "replicas", "replica"
REVIEW, SNAPSHOTS, CHANGES = "review", "snapshots", "changes"

# Names in the URL. A widget whose choice stands there (see choices.py) has its name as its key.
POOL = "pool"
REPLICA = "replica"
PATH = "path"
COHORT = "cohort"
SHOW = "show"
SECTION = "section"
SEARCH = "search"
SETTING = "setting"  # a search of its own: what was searched among replicas is not searched among settings
TAB = "tab"
REFERENCE = "reference"
COLUMNS = "columns"
MEASURE = "measure"
LENGTH = "length"
PER = "per"
STATE = "state"
FINDING = "finding"
SEVERITY = "severity"
FAMILY = "family"
RULE = "rule"
RULES = "rules"  # which outcomes of rules are listed
FROM, TO = "from", "to"  # the two snapshots that are compared
MANAGE = "manage"  # the snapshot that is renamed, taken away or deleted
CONVERGE = "converge"  # what a pool would be made like

# What each page reads of its address: the rest means nothing there.
KNOWN = {
    FINDINGS: {SEARCH, POOL, SEVERITY, FAMILY, RULE, RULES, FINDING},
    COMPARE: {POOL, SHOW, SEARCH, SECTION, REFERENCE, COLUMNS, PATH, COHORT, CONVERGE},
    CAPACITY: {POOL, MEASURE, LENGTH, PER},
    REPLICAS: {SEARCH, POOL, STATE},
    REPLICA_PAGE: {REPLICA, TAB, SETTING, SECTION, SHOW},
    REVIEW: {FROM},
    SNAPSHOTS: {SEARCH, MANAGE},
    CHANGES: {FROM, TO},
}

# These hold on every page: navigate.js and `to` carry them on.
SNAPSHOT = "snapshot"  # the frozen fleet that is shown
SCREENSHOT = "screenshot"  # the page stands still
MEETING = "meeting"  # larger type
CARRIED = (SNAPSHOT, SCREENSHOT, MEETING)
LIVE = "live"  # the newest poll, where a snapshot could be named

OPENED = "opened_snapshot"  # in the session: the snapshot that is shown, by its whole id


def to(page: str, **choices: str | None) -> str:
    """Return the address of a page with choices in it, relative, so that it also holds behind a path prefix.

    It stays within the snapshot that is shown. The rest of CARRIED is added by navigate.js when a link is followed:
    pages that are drawn once for all sessions cannot hold it.
    """
    shown = _opened()
    return _address(page, {**({SNAPSHOT: shown} if shown else {}), **choices})


def onward(page: str, **choices: str | None) -> str:
    """Return the address of a page with all that holds on every page: where this session goes, and no other."""
    held = {name: st.query_params.get(name) for name in CARRIED if name != SNAPSHOT}
    return to(page, **held, **choices)


def live(page: str, **choices: str | None) -> str:
    """Return the address of a page of the live fleet, or of the snapshot that is among the choices."""
    return _address(page, choices)


def choices() -> dict[str, str]:
    """Return the choices that stand in the address, without what holds on every page."""
    return {name: value for name, value in st.query_params.items() if name not in CARRIED}


def snapshot() -> str | None:
    """Return the snapshot that the address names, as somebody typed it."""
    return st.query_params.get(SNAPSHOT)


def pasted(text: str) -> tuple[str, dict[str, str]]:
    """Return the page and the choices that a whole link names, as somebody pasted it; any other text is a snapshot.

    Of another host, of pages and of choices that we do not have nothing is left: what is made of it leads to us.
    """
    try:
        parts = urlsplit(text.strip())
        told = {name: values[0] for name, values in parse_qs(parts.query).items()}
    except ValueError:  # brackets that are no address, or very many choices
        return OVERVIEW, {SNAPSHOT: text}
    last = parts.path.rstrip("/").rpartition("/")[2]  # what stands before it is a path prefix
    page = last if last in KNOWN else OVERVIEW
    if SNAPSHOT not in told and not (page == CHANGES and told.keys() & KNOWN[CHANGES]):
        return OVERVIEW, {SNAPSHOT: text}
    return page, {name: value for name, value in told.items() if name in {*KNOWN.get(page, ()), *CARRIED}}


def _opened() -> str | None:
    """Return the snapshot that is shown. One that cannot be opened is named in no link."""
    if get_script_run_ctx(suppress_warning=True) is None:  # a test that draws a part without a page
        return None
    return cast("str | None", st.session_state.get(OPENED))


def _address(page: str, choices: dict[str, str | None]) -> str:
    chosen = {name: value for name, value in choices.items() if value is not None}
    return f"{page or './'}?{urlencode(chosen)}" if chosen else page or "./"


def file_name(*parts: str) -> str:
    """Make a file's name of names that may hold anything: what is no letter or digit becomes a dash."""
    return "-".join("".join(char if char.isalnum() else "-" for char in part).strip("-") for part in parts).lower()
