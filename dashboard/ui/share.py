"""What a reader takes away of a page: a frozen snapshot with its link, and the page as a file."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, cast

import streamlit as st

from dashboard import service
from dashboard.errors import SnapshotError
from dashboard.report.formats.export import SUFFIXES, Format, written
from dashboard.store.sidecar import LONGEST_NAME
from dashboard.ui import links, markup
from dashboard.ui.snapshots_list import UNNAMED
from dashboard.wording import iso

if TYPE_CHECKING:
    from collections.abc import Callable

    from dashboard.fleet import Fleet
    from dashboard.report.blocks import Report
    from dashboard.store import Stored

OFFERED = "offered_view"
FROZEN = "frozen_just_now"
NAME = "freeze_name"
PDF_LIBRARY = "weasyprint"  # an optional extra
_WHY = (
    "Saves everything that was read, under a short id. Its link opens exactly this, also after the fleet has changed."
)
FORMATS = {
    Format.HTML: "HTML",
    Format.PDF: "PDF",
    Format.MARKDOWN: "Markdown",
    Format.CSV: "CSV",
    Format.JSON: "JSON",
    Format.SVG: "SVG",
}


class _Frozen(NamedTuple):
    """What became of the last freezing: the snapshot, or why there is none. `generation`: of what was frozen."""

    generation: int
    stored: Stored | None = None
    problem: str = ""


class _Offer(NamedTuple):
    """What the page of this run can be taken away as."""

    report: Callable[[], Report]
    charts: bool


def begin() -> None:
    """Forget what the page of the last run offered."""
    st.session_state[OFFERED] = None


def offer(report: Callable[[], Report], *, charts: bool = False) -> None:
    """Let the reader take the page away. `report` is made when somebody asks for a file; `charts`: it has some."""
    st.session_state[OFFERED] = _Offer(report, charts)


def draw(fleet: Fleet, page: str) -> None:
    """Draw the button and what it opens; before the first poll there is nothing to share."""
    if fleet.polled_at is None:
        return
    with st.popover("Share", width="content", key="share"):
        _draw_link(fleet, page) if fleet.snapshot else _draw_freeze(fleet, page)
        offered = cast("_Offer | None", st.session_state.get(OFFERED))
        if offered is not None:
            _draw_export(fleet, page, offered)


def _draw_freeze(fleet: Fleet, page: str) -> None:
    """Offer to freeze what is shown; once done, the link that opens it."""
    st.html(markup.section("Freeze this fleet") + f'<p class="mute">{markup.text(_WHY)}</p>')
    st.text_input("Name", key=NAME, placeholder=_default_name(fleet), max_chars=LONGEST_NAME)
    st.button("Freeze", key="freeze", type="primary", on_click=_freeze, args=(fleet,))
    done = cast("_Frozen | None", st.session_state.get(FROZEN))
    if done is None or done.generation != fleet.generation:
        return
    if done.stored is None:
        st.html(markup.notice("warning", markup.text(done.problem)))
    else:
        beside = done.stored.beside
        st.html(f"<p>Frozen as {markup.bold(beside.name or UNNAMED)}, data as of {iso(beside.data_as_of)}.</p>")
        if done.stored.problem:
            st.html(markup.notice("warning", markup.text(done.stored.problem)))
        _draw_address(page, done.stored.id)


def _freeze(fleet: Fleet) -> None:
    name = str(st.session_state.get(NAME) or _default_name(fleet))
    try:
        stored = service.snapshots().freeze(fleet, name, service.now())
    except SnapshotError as error:
        st.session_state[FROZEN] = _Frozen(fleet.generation, problem=str(error))
    else:
        st.session_state[FROZEN] = _Frozen(fleet.generation, stored)


def _default_name(fleet: Fleet) -> str:
    return f"{fleet.name} {iso(fleet.polled_at)}" if fleet.polled_at else fleet.name


def _draw_link(fleet: Fleet, page: str) -> None:
    st.html(markup.section("Link to this page of the snapshot"))
    _draw_address(page, str(fleet.snapshot))


def _draw_address(page: str, key: str) -> None:
    """Write the address of this page in a snapshot, to be copied and to be followed."""
    address = links.live(page, **{**links.choices(), links.SNAPSHOT: key})
    st.html(f"<p>Snapshot {markup.code(key)}: {markup.link(address, 'open it')}</p>")
    st.code(f"{base_of(st.context.url or '', page)}/{address.removeprefix('./')}", language=None, wrap_lines=True)


def base_of(url: str, page: str) -> str:
    """Return what stands before the names of all pages, given the address of one; a path prefix belongs to it."""
    path = url.partition("?")[0].rstrip("/")
    return path.removesuffix(f"/{page}") if page else path


def _draw_export(fleet: Fleet, page: str, offered: _Offer) -> None:
    st.html(markup.section("Take this page away"))
    there = [each for each in FORMATS if _is_there(each, offered)]
    chosen = st.segmented_control(
        "Format", there, default=Format.HTML, format_func=FORMATS.__getitem__, key="export_format", required=True
    )
    output = Format(chosen)
    st.download_button(
        f"Download {FORMATS[output]}",
        data=lambda: written(offered.report(), output),
        file_name=f"{links.file_name(fleet.name, page or 'overview', fleet.snapshot or 'live')}.{SUFFIXES[output]}",
        on_click="ignore",
        key="export",
        help="Made when you ask for it; a large fleet takes some seconds.",
    )


def _is_there(output: Format, offered: _Offer) -> bool:
    if output is Format.PDF:
        return find_spec(PDF_LIBRARY) is not None
    return offered.charts or output is not Format.SVG
