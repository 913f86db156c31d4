"""URLs of pages and of what a text names. Names of pages and of choices: `views/pages.py`."""

from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, urlencode, urlsplit

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from dashboard.fleet.pieces import Kind, Target
from dashboard.views import pages

SCRIPTS = Path(__file__).parent / "page_scripts"  # not "pages": Streamlit would take them for pages of its own kind
OPENED = "opened_snapshot"  # in the session: the snapshot that is shown, by its whole id


PAGES_OF = {
    Kind.POOL: (pages.COMPARE, pages.POOL),
    Kind.REPLICA: (pages.REPLICA_PAGE, pages.REPLICA),
    Kind.RULE: (pages.FINDINGS, pages.RULE),
    Kind.FINDING: (pages.FINDINGS, pages.FINDING),
}


def to(page: str, **choices: str | None) -> str:
    """Return the URL of a page, relative, so that it also works behind a path prefix; it keeps the snapshot shown.

    navigate.js adds the rest of pages.CARRIED when a link is followed: HTML that sessions share cannot contain it.
    """
    shown = _opened()
    return _address(page, {**({pages.SNAPSHOT: shown} if shown else {}), **choices})


def onward(page: str, **choices: str | None) -> str:
    """Return the address of a page with all that holds on every page: where this session goes, and no other."""
    held = {name: st.query_params.get(name) for name in pages.CARRIED if name != pages.SNAPSHOT}
    return to(page, **held, **choices)


def live(page: str, **choices: str | None) -> str:
    """Return the address of a page of the live fleet, or of the snapshot that is among the choices."""
    return _address(page, choices)


def address(target: Target) -> str | None:
    """Return the URL of what a text names; None for a section of the same page, and for a setting without a pool.

    A choice `snapshot` replaces the snapshot that is shown; `live` leaves it.
    """
    key, pool = target.key, target.pool
    choices: dict[str, str | None] = dict(target.choices)
    if choices.get(pages.SNAPSHOT) == pages.LIVE:
        choices[pages.SNAPSHOT] = None
    match target.kind:
        case Kind.SECTION:
            return None
        case Kind.SETTING:
            return to(pages.COMPARE, **{pages.POOL: pool, pages.PATH: key, **choices}) if pool else None
        case Kind.COHORT:
            return to(pages.COMPARE, **{pages.POOL: pool, pages.COHORT: key, **choices})
        case Kind.PAGE:
            return to(key, **choices)
        case Kind.POOL | Kind.REPLICA | Kind.RULE | Kind.FINDING:
            page, name = PAGES_OF[target.kind]
            return to(page, **{name: key, **choices})


def choices() -> dict[str, str]:
    """Return the choices that stand in the address, without what holds on every page."""
    return {name: value for name, value in st.query_params.items() if name not in pages.CARRIED}


def snapshot() -> str | None:
    """Return the snapshot that the address names, as somebody typed it."""
    return st.query_params.get(pages.SNAPSHOT)


def pasted(text: str) -> tuple[str, dict[str, str]]:
    """Return the page and the choices that a whole link names, as somebody pasted it; any other text is a snapshot.

    Of another host, of pages and of choices that we do not have nothing is left: what is made of it leads to us.
    """
    try:
        parts = urlsplit(text.strip())
        told = {name: values[0] for name, values in parse_qs(parts.query).items()}
    except ValueError:  # brackets that are no address, or very many choices
        return pages.OVERVIEW, {pages.SNAPSHOT: text}
    last = parts.path.rstrip("/").rpartition("/")[2]  # what stands before it is a path prefix
    page = last if last in pages.KNOWN else pages.OVERVIEW
    if pages.SNAPSHOT not in told and not (page == pages.CHANGES and told.keys() & pages.KNOWN[pages.CHANGES]):
        return pages.OVERVIEW, {pages.SNAPSHOT: text}
    return page, {name: value for name, value in told.items() if name in {*pages.KNOWN.get(page, ()), *pages.CARRIED}}


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
