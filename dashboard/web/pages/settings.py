"""Settings: any setting over the whole fleet, and its values on every replica."""

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.config import DEFAULT_FILE
from dashboard.config.rules import ignore_yaml
from dashboard.fleet.formatting import natural, one_line
from dashboard.views import pages
from dashboard.views.excluded import ignore_preview
from dashboard.views.setting import SettingFilter, setting_report
from dashboard.views.settings import SORTS, setting_values, settings_report
from dashboard.views.timeline import with_timeline
from dashboard.web import draw, empty, filter_box, links, markup, share, state, timeline
from dashboard.web.state import shared

LONGEST_GLOB = 200  # characters, as in fleet.yaml
EVERY_PATH = ""  # no setting in the URL: the search


filtered_values = shared(max_entries=16)(setting_values)


@shared(max_entries=4)
def known_paths(fleet: Fleet) -> list[str]:
    """Return the settings that any replica of one fleet reports."""
    return sorted({path for document in fleet.documents.values() for path in document.settings})


def choose_path(fleet: Fleet) -> str:
    """Draw the list of settings, which completes what a reader types, and return the chosen path; empty: none."""
    paths = known_paths(fleet)
    named = st.query_params.get(pages.PATH, EVERY_PATH)
    options = [EVERY_PATH, *paths, *([named] if named and named not in paths else [])]
    bound, words = links.bind(pages.PATH), lambda path: one_line(path) if path != EVERY_PATH else "all settings"
    return str(st.selectbox("Setting", options, **bound, format_func=words, width=330) or EVERY_PATH)


def choose(fleet: Fleet, *, has_path: bool) -> SettingFilter:
    """Draw the search, where no setting is chosen, and the filters of replicas; return their choice."""
    search = ""
    if not has_path:
        search = st.text_input("Search", **links.bind(pages.SEARCH), placeholder="path or value", width=200, live=True)
    versions = sorted({each.version for each in fleet.replicas if each.version}, key=natural)
    roles = sorted({str(each.role) for each in fleet.replicas})
    with filter_box.draw_button(pages.VERSION, pages.ROLE, pages.LABEL):
        return SettingFilter(
            search or "",
            links.scope(),
            links.draw_select("vLLM", pages.VERSION, ["all versions", *versions], 250),
            links.draw_select("Role", pages.ROLE, ["all roles", *roles], 250),
            st.text_input("Label", **links.bind(pages.LABEL), placeholder="key=value", width=250, live=True) or "",
        )


def draw_ignore(fleet: Fleet, path: str) -> None:
    """Draw the entry that ignores a setting, or those that match a glob, with what it would hide."""
    options = service.options()
    with st.expander("Ignore this setting"):
        glob = st.text_input(
            "Setting or glob", path, key=f"ignore_{path}", max_chars=LONGEST_GLOB, width=420, live=True
        )
        glob = (glob or "").strip() or path
        st.html(f"<p>{markup.text(ignore_preview(fleet, glob))}</p>{markup.pasted(ignore_yaml(glob))}")
        st.html(f'<div class="foot">Add it to {markup.text(options.file if options else DEFAULT_FILE)}.</div>')


def draw_page() -> None:
    fleet = state.fleet()
    if not fleet.pools:
        empty.nothing_answered()
        return

    head = st.container()
    with draw.controls_row("filters"):
        path = choose_path(fleet) if st.query_params.get(pages.PATH) else EVERY_PATH
        choice = choose(fleet, has_path=bool(path))
    if path:
        view = setting_report(fleet, path, choice, has_replicas=True)
    else:
        rows, sort = filtered_values(fleet, choice._replace(search="")), links.read_choice(pages.SORT, ["", *SORTS])
        view = settings_report(fleet, choice, rows=rows, sort=sort)
    with head:
        if path:
            st.html(markup.link(links.to(pages.SETTINGS), "All settings"))
        draw.draw_head(view)
    draw.open_link(draw.draw_sections(view.parts, f"settings_{path}"))
    if path:
        draw_ignore(fleet, path)
    past = timeline.draw_setting(fleet, path, choice.pool) if path else ()
    share.offer(lambda: with_timeline(view, past), charts=bool(past))
