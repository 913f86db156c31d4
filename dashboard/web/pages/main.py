"""The script behind every page: navigation, the header, the page itself, and the footer."""

import re
from importlib import import_module
from pathlib import Path
from typing import Literal

import streamlit as st
from streamlit.navigation.page import StreamlitPage
from streamlit.runtime.scriptrunner import get_script_run_ctx

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.views import pages
from dashboard.web import empty, header, links, markup, share, sides, state

ICON = Path(__file__).parents[1] / "icon.png"
UNKNOWN_PAGE = "unknown_page"  # in the session: the name in the URL that no page has
NOT_FOUND = "Page not found"


def main() -> None:
    page = _navigate()
    fleet = state.begin_run(page.url_path)
    compared = sides.settle(page.url_path)
    about = compared.both[1] if compared and compared.both else fleet
    title = " · ".join((pages.TITLES.get(page.url_path, page.title), about.name, *pages.choices_of(about).values()))
    st.set_page_config(page_title=title, page_icon=str(ICON), layout="wide")
    controls = header.draw(about, page.url_path, compared)
    share.begin()
    if compared is None:
        header.draw_banner(page.url_path)
    header.draw_siblings(page.url_path)
    header.draw_outside(fleet, page.url_path)
    warnings, body, footer = st.container(), st.container(key="body"), st.container()
    try:
        with body:
            _draw(page, fleet)
    finally:  # also under an error
        with warnings:
            header.draw_ignored_choices(page.url_path)
        with footer:
            header.draw_footer(fleet, page.url_path, compared)
        with controls:
            if compared is None:
                header.draw_time_menu(page.url_path)
            share.draw(about, page.url_path, compared)
            header.draw_gear(page.url_path, compared)


def _navigate() -> StreamlitPage:
    entries = {group[0]: entry for entry, group in pages.NAVIGATION.items()}
    every = [_page(name, entries.get(name)) for name in pages.TITLES]
    # Streamlit shows the first page under an unknown name. Only the first run has the name.
    context = get_script_run_ctx()
    asked = context.pages_manager.intended_page_name if context else None
    if asked and re.fullmatch(r"[\w-]{1,80}", asked) and asked not in {page.url_path for page in every}:
        st.session_state[UNKNOWN_PAGE] = asked
    if name := st.session_state.get(UNKNOWN_PAGE):
        every.append(st.Page(empty.no_such_page, title=NOT_FOUND, url_path=name, visibility="hidden"))
    return st.navigation(every, position="top")


def _page(name: str, entry: str | None) -> StreamlitPage:
    """Return a page, whose module has its name in the URL; `entry` is that of the navigation that leads to it."""
    draw = import_module(f"dashboard.web.pages.{name or 'overview'}").draw_page
    visibility: Literal["visible", "hidden"] = "visible" if entry else "hidden"
    return st.Page(draw, title=entry or pages.TITLES[name], url_path=name, default=not name, visibility=visibility)


def _draw(page: StreamlitPage, fleet: Fleet) -> None:
    """Draw the page, or why there is nothing to show; Snapshots and Changes need no fleet."""
    problem = state.fleet_problem()
    if page.url_path in {pages.SNAPSHOTS, pages.CHANGES}:
        if problem is not None:
            st.html(markup.notice("warning", markup.text(problem)))
        page.run()
    elif page.title == NOT_FOUND:
        page.run()
    elif problem is not None:
        empty.no_such_fleet(problem)
    elif page.url_path in {pages.STATUS, pages.HELP}:
        page.run()  # also without a fleet
    elif fleet.polled_at is None:
        empty.no_data_yet()
    elif not fleet.replicas and state.whole().replicas:
        empty.no_such_scope("cluster", fleet.cluster, links.scoped(page.url_path, cluster=""))
    elif not fleet.replicas:
        empty.no_replicas(() if state.is_frozen() else service.sources())
    elif fleet.pools and (scope := _unknown_scope(page.url_path, fleet)):
        empty.no_such_scope("pool", scope, links.scoped(page.url_path))
    else:
        page.run()


def _unknown_scope(page: str, fleet: Fleet) -> str | None:
    """Return the pool that the page is limited to, if the fleet does not have it."""
    pool = links.scope() if page in pages.SCOPED else None
    return None if pool in {each.name for each in fleet.pools} else pool


main()
