"""What a reader takes away of a page: a frozen snapshot with its link, and the page as a file."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple, cast

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.errors import SnapshotError
from dashboard.render.export import SUFFIXES, Format, written
from dashboard.store import Stored
from dashboard.store.sidecar import LONGEST_NAME
from dashboard.store.snapshots import READ_ONLY
from dashboard.views import pages
from dashboard.views.blocks import View
from dashboard.web import audit, links, markup
from dashboard.web.changes_sides import Sides
from dashboard.web.snapshots_list import UNNAMED, as_of, name_or_default

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

    report: Callable[[], View]
    charts: bool


def begin() -> None:
    """Forget what the page of the last run offered."""
    st.session_state[OFFERED] = None


def offer(report: Callable[[], View], *, charts: bool = False) -> None:
    """Let the reader take the page away. `report` is made when somebody asks for a file; `charts`: it has some."""
    st.session_state[OFFERED] = _Offer(report, charts)


def draw(fleet: Fleet, page: str, sides: Sides | None = None) -> None:
    """Draw the button and what it opens; where there is nothing to share, such as before the first poll, none.

    Where two `sides` are compared, the link holds both, a live side can be frozen, and `fleet` is the second one.
    """
    is_empty = fleet.polled_at is None if sides is None else sides.both is None
    if is_empty:
        return
    with st.popover("Share", width="content", key="share"):
        if sides is not None:
            _draw_compared(sides, page)
            _draw_export(page, fleet.name, *sides.address().values())
        elif fleet.snapshot:
            _draw_link(page, fleet.snapshot)
            _draw_export(page, fleet.name, fleet.snapshot)
        else:
            _draw_freeze(fleet, "Freeze this fleet", lambda key: _in_snapshot(page, key), page)
            _draw_export(page, fleet.name, pages.LIVE)


def _draw_compared(sides: Sides, page: str) -> None:
    if sides.live is None:
        st.html(markup.section("Link to this comparison"))
        _draw_code(page, links.live(page, **sides.address()))
    else:
        _draw_freeze(sides.live, "Freeze the live side", lambda key: links.live(page, **sides.address(key)), page)


def _draw_freeze(fleet: Fleet, title: str, address: Callable[[str], str], page: str) -> None:
    """Offer to freeze what is shown; once done, the link that opens it: `address` makes it of the snapshot's id."""
    if service.snapshots().read_only:
        st.html(markup.section(title) + f'<p class="mute">{markup.text(READ_ONLY)}</p>')
        return
    st.html(markup.section(title) + f'<p class="mute">{markup.text(_WHY)}</p>')
    default = name_or_default("", fleet.name, fleet.polled_at)
    st.text_input("Name", key=NAME, placeholder=default, max_chars=LONGEST_NAME)
    st.button("Freeze", key="freeze", type="primary", on_click=_freeze, args=(fleet,))
    done = cast("_Frozen | None", st.session_state.get(FROZEN))
    if done is None or done.generation != fleet.generation:
        return
    if done.stored is None:
        st.html(markup.notice("warning", markup.text(done.problem)))
    else:
        beside = done.stored.beside
        st.html(f"<p>Frozen as {markup.bold(beside.name or UNNAMED)}, {as_of(beside)}.</p>")
        if done.stored.problem:
            st.html(markup.notice("warning", markup.text(done.stored.problem)))
        _draw_address(page, done.stored.id, address(done.stored.id))


def _freeze(fleet: Fleet) -> None:
    name = name_or_default(st.session_state.get(NAME), fleet.name, fleet.polled_at)
    try:
        with audit.recorded("freeze", name=name) as told:
            stored = service.snapshots().freeze(fleet, name, service.now())
            told["snapshot"] = stored.id
    except SnapshotError as error:
        st.session_state[FROZEN] = _Frozen(fleet.generation, problem=str(error))
    else:
        st.session_state[FROZEN] = _Frozen(fleet.generation, stored)


def _draw_link(page: str, key: str) -> None:
    st.html(markup.section("Link to this page of the snapshot"))
    _draw_address(page, key, _in_snapshot(page, key))


def _in_snapshot(page: str, key: str) -> str:
    return links.live(page, **{**links.choices(), pages.SNAPSHOT: key})


def _draw_address(page: str, key: str, address: str) -> None:
    """Write an address that holds a snapshot, to be copied and to be followed."""
    st.html(f"<p>Snapshot {markup.code(key)}: {markup.link(address, 'open it')}</p>")
    _draw_code(page, address)


def _draw_code(page: str, address: str) -> None:
    st.code(f"{base_of(st.context.url or '', page)}/{address.removeprefix('./')}", language=None, wrap_lines=True)


def base_of(url: str, page: str) -> str:
    """Return what stands before the names of all pages, given the address of one; a path prefix belongs to it."""
    path = url.partition("?")[0].rstrip("/")
    return path.removesuffix(f"/{page}") if page else path


def _draw_export(page: str, fleet: str, *shown: str) -> None:
    """Offer the page as a file, if it can be taken away; its name says whose it is and which snapshots it shows."""
    offered = cast("_Offer | None", st.session_state.get(OFFERED))
    if offered is None:
        return
    st.html(markup.section("Take this page away"))
    there = [each for each in FORMATS if _is_there(each, offered)]
    chosen = st.segmented_control(
        "Format", there, default=Format.HTML, format_func=FORMATS.__getitem__, key="export_format", required=True
    )
    output = Format(chosen)
    st.download_button(
        f"Download {FORMATS[output]}",
        data=lambda: written(offered.report(), output),
        file_name=f"{links.file_name(fleet, page or 'overview', *shown)}.{SUFFIXES[output]}",
        on_click="ignore",
        key="export",
        help="Made when you ask for it; a large fleet takes some seconds.",
    )


def _is_there(output: Format, offered: _Offer) -> bool:
    if output is Format.PDF:
        return find_spec(PDF_LIBRARY) is not None
    return offered.charts or output is not Format.SVG
