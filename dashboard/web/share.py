"""Share: save the fleet as a snapshot and link to it, and export the page as a file."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from threading import Lock
from typing import cast

import streamlit as st

from dashboard import service
from dashboard.access import audit
from dashboard.access.visitor import Visitor
from dashboard.analysis.assembly import Fleet
from dashboard.errors import DashboardError
from dashboard.fleet.formatting import short_id
from dashboard.render.export import Format, written
from dashboard.store.packing import LONGEST_NAME, READ_ONLY, StoredSnapshot
from dashboard.views import pages
from dashboard.views.blocks import View
from dashboard.views.snapshots import UNNAMED, data_time, default_name
from dashboard.views.summary import name_scope
from dashboard.web import links, markup, sessions, state
from dashboard.web.sides import Sides

# Keys of the session.
OFFERED, HAS_CHARTS, NAME = "offered_view", "offers_charts", "snapshot_name"  # a view that is built for a download
SAVED = "saved_just_now"  # the generation of the fleet and its snapshot, or why there is none
COPY_LINK = (
    '<button type="button" class="copy-link" data-copy-url>Copy link to the live page</button>'  # by navigate.js
)
REVIEW = '<p><a href="{}">Open the review</a>: an agenda for a meeting, with notes.</p>'
PDF_LIBRARY = "weasyprint"  # an optional extra
_PDF_TURN = Lock()


def begin() -> None:
    st.session_state[OFFERED] = None


def offer(view: Callable[[], View], *, charts: bool = False) -> None:
    """Offer a view for export, which is built when a file is downloaded. `charts`: it has charts."""
    st.session_state[OFFERED], st.session_state[HAS_CHARTS] = view, charts


def draw(fleet: Fleet, page: str, sides: Sides | None = None) -> None:
    """Draw the button and its popover; nothing before the first poll and without a comparison.

    On a comparison the link has both `sides`, a live side can be saved, and `fleet` is the second one.
    """
    is_empty = fleet.polled_at is None if sides is None else sides.both is None
    if is_empty:
        return
    with st.popover("Share", width="content", key="share"):
        if sides is None and fleet.snapshot:
            st.html(markup.section("Link to this page"))
            _draw_snapshot_link(page, fleet.snapshot, _in_snapshot(page, fleet.snapshot))
        elif sides is None:
            if fleet.past:
                st.html(markup.section("Link to this page"))
                _draw_url(page, links.live(page, **{**links.page_choices(), **pages.choices_of(fleet)}))
            else:
                st.html(COPY_LINK)
            _draw_save(fleet, "Save snapshot", lambda key: _in_snapshot(page, key), page)
        elif sides.live is None:
            st.html(markup.section("Link to this comparison"))
            _draw_url(page, links.live(page, **{**links.page_choices(), **sides.address()}))
        else:
            _draw_save(
                sides.live,
                "Save the live side",
                lambda key: links.live(page, **{**links.page_choices(), **sides.address(key)}),
                page,
            )
        shown = sides.address().values() if sides else [pages.side_of(fleet)]
        if page != pages.REVIEW:
            st.html(markup.section("Review") + REVIEW.format(markup.text(links.to(pages.REVIEW))))
        _complete(fleet, page, "" if sides else state.snapshot_name())
        _draw_export(links.make_file_name(fleet.name, page or "overview", *shown))


def _draw_save(fleet: Fleet, title: str, url_of: Callable[[str], str], page: str) -> None:
    """Offer to save the fleet as a snapshot; once done, draw the link that `url_of` makes of the snapshot's id."""
    is_read_only, missing = service.snapshots().read_only, sessions.missing_role("save")
    why = READ_ONLY if is_read_only else missing or "Saves all data of the fleet as a snapshot with a permanent link."
    st.html(markup.section(title) + f'<p class="mute">{markup.text(why)}</p>')
    if is_read_only:
        return
    default = default_name("", fleet.name, fleet.polled_at)
    st.text_input("Name", key=NAME, placeholder=default, max_chars=LONGEST_NAME, disabled=bool(missing))
    st.button(
        "Save snapshot",
        key="save_snapshot",
        type="primary",
        on_click=_save_snapshot,
        args=(fleet,),
        **sessions.control("save"),
    )
    generation, done = st.session_state.get(SAVED, (None, ""))
    if generation != fleet.generation:
        return
    stored = done if isinstance(done, StoredSnapshot) else None
    if stored:
        name = markup.bold(stored.metadata.name or UNNAMED)
        st.html(f"<p>Saved as {name}, {data_time(stored.metadata)}.</p>")
    if problem := stored.problem if stored else done:
        st.html(markup.notice("warning", markup.text(problem)))
    if stored:
        _draw_snapshot_link(page, stored.id, url_of(stored.id))


def _save_snapshot(fleet: Fleet) -> None:
    name = default_name(st.session_state.get(NAME), fleet.name, fleet.polled_at)
    try:
        st.session_state[SAVED] = fleet.generation, sessions.save_snapshot(fleet, name)
    except DashboardError as error:
        st.session_state[SAVED] = fleet.generation, str(error)


def _in_snapshot(page: str, key: str) -> str:
    return links.live(page, **{**links.page_choices(), pages.SNAPSHOT: short_id(key)})


def _draw_snapshot_link(page: str, key: str, url: str) -> None:
    st.html(f"<p>Snapshot {markup.code(short_id(key))}: {markup.link(url, 'open it')}</p>")
    _draw_url(page, url)


def _draw_url(page: str, url: str) -> None:
    st.html(markup.pasted(f"{base_url(st.context.url or '', page)}/{url.removeprefix('./')}"))


def base_url(url: str, page: str) -> str:
    """Return what precedes the name of every page, with a path prefix, given the URL of one page."""
    path = url.partition("?")[0].rstrip("/")
    return path.removesuffix(f"/{page}") if page else path


def _complete(fleet: Fleet, page: str, name: str) -> None:
    """Let an export name its snapshot and, of a page that is limited to a pool, begin with what that leaves out."""
    offered = cast("Callable[[], View] | None", st.session_state.get(OFFERED))
    if offered is None:
        return
    pool = links.scope() if page in pages.SCOPED else None

    def completed() -> View:
        view = offered()
        if pool in {each.name for each in fleet.pools}:
            view = name_scope(view, fleet, pool, page)
        return replace(view, context=replace(view.context, name=name)) if name else view

    st.session_state[OFFERED] = completed


def _draw_export(file_name: str) -> None:
    """Draw the export, if the page offers one."""
    view = cast("Callable[[], View] | None", st.session_state.get(OFFERED))
    if view is None:
        return
    st.html(markup.section("Export this page"))
    formats = [each for each in Format if each is not Format.PDF or find_spec(PDF_LIBRARY) is not None]
    if not st.session_state[HAS_CHARTS]:
        formats.remove(Format.SVG)
    selected = st.segmented_control(
        "Format",
        formats,
        default=Format.HTML,
        format_func=lambda each: each.label,
        key="export_format",
        required=True,
    )
    if Format.PDF not in formats:
        st.html(
            f'<p class="mute">PDF: install {markup.code("requirements-pdf.txt")} or the extra {markup.code("pdf")}.</p>'
        )
    output = Format(selected)
    st.download_button(
        f"Download {output.label}",
        data=partial(_exported, view, output, sessions.visitor(), file_name),
        file_name=f"{file_name}.{output.suffix}",
        on_click="ignore",
        key="export",
        **sessions.control("export", "A large fleet takes some seconds."),
    )


def _exported(view: Callable[[], View], output: Format, visitor: Visitor, file: str) -> bytes:
    """Return the file of a page. A PDF of a large fleet takes 0.6 GB: one at a time is made."""
    turn = _PDF_TURN if output is Format.PDF else nullcontext()
    with audit.performed("export", visitor, file=f"{file}.{output.suffix}"), turn:
        return written(view(), output)
