"""One snapshot in a dialog: rename it, take it away as a file, delete it after a second question."""

from collections.abc import Callable, Mapping

import streamlit as st

from dashboard import service
from dashboard.errors import SnapshotError
from dashboard.fleet.formatting import count
from dashboard.store import Stored
from dashboard.store.sidecar import LONGEST_NAME
from dashboard.views import pages
from dashboard.web import audit, links, markup
from dashboard.web.snapshots_list import UNNAMED, as_of, name_or_default, times

ASKED = "snapshot_to_delete"


def draw() -> None:
    """Open the dialog of the snapshot that the address names."""
    key = st.query_params.get(pages.MANAGE)
    if key is None:
        return
    try:
        stored = service.snapshots().get(key)
    except SnapshotError as error:
        st.html(markup.notice("warning", markup.text(error)))
        return
    st.dialog("Snapshot", width="medium", on_dismiss=close)(_body)(stored)


def close() -> None:
    """Take what was open out of the URL."""
    st.query_params.pop(pages.MANAGE, None)
    st.session_state.pop(ASKED, None)


def _body(stored: Stored) -> None:
    beside = stored.beside
    told = f"{markup.code(stored.id)} · {as_of(beside)} · {times(beside)}"
    st.html(f'<p class="dialog-head">{told}</p>')
    is_read_only = service.snapshots().read_only
    if not is_read_only:
        _draw_name(stored)
    with st.container(horizontal=True, gap="small"):
        who = audit.visitor()  # the file is made outside of the session
        st.download_button(
            "Export",
            data=lambda: _export(stored, who),
            file_name=f"{links.file_name(beside.fleet, beside.name or 'snapshot', stored.id)}.json.gz",
            mime="application/gzip",
            on_click="ignore",
            key="download",
            help="One file with the fleet, its name and its notes, to be imported elsewhere.",
        )
        if not is_read_only:
            st.button("Delete …", key="delete", on_click=_ask, args=(stored.id,))
    if not is_read_only and st.session_state.get(ASKED) == stored.id:
        _confirm(stored)


def _draw_name(stored: Stored) -> None:
    beside = stored.beside
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        typed = st.text_input(
            "Name",
            value=beside.name,
            placeholder=name_or_default("", beside.fleet, beside.data_as_of),
            max_chars=LONGEST_NAME,
            key=f"name_{stored.id}",
        )
        name = name_or_default(typed, beside.fleet, beside.data_as_of)
        # Never disabled: a name arrives only when its field is left, and the click that leaves it would go nowhere.
        if st.button("Rename", key="rename") and name != beside.name:
            _do(lambda: _rename(stored.id, name))


def _rename(key: str, name: str) -> None:
    with audit.recorded("rename", snapshot=key, name=name):
        service.snapshots().rename(key, name)


def _export(stored: Stored, who: Mapping[str, str]) -> bytes:
    with audit.recorded("export", who, snapshot=stored.id, name=stored.beside.name or UNNAMED):
        return service.snapshots().export(stored.id)


def _ask(key: str | None) -> None:
    st.session_state[ASKED] = key


def _confirm(stored: Stored) -> None:
    verb = "is" if len(stored.notes) == 1 else "are"
    notes = f" {count(len(stored.notes), 'note')} {verb} deleted with it." if stored.notes else ""
    if stored.problem:
        notes = " What was noted on it cannot be read, and goes with it."
    name = markup.bold(stored.beside.name or UNNAMED)
    st.html(markup.notice("warning", f"Delete {name} for good? Links to it will open nothing any more.{notes}"))
    typed = st.text_input("Type its name to delete it", key=f"delete_{stored.id}", max_chars=LONGEST_NAME)
    with st.container(horizontal=True, gap="small"):
        if st.button("Delete for good", type="primary", key="delete_for_good"):
            _do(lambda: _delete(stored, typed))
        st.button("Keep it", key="keep", on_click=_ask, args=(None,))


def _delete(stored: Stored, typed: str | None) -> None:
    name = stored.beside.name or UNNAMED
    with audit.recorded("delete", snapshot=stored.id, name=name):
        if (typed or "").strip() != name:
            raise SnapshotError(f"Not deleted: type the name, {name}.")
        service.snapshots().delete(stored.id)
    asked = links.snapshot()
    if asked is not None and stored.id.startswith(asked):
        st.query_params.pop(pages.SNAPSHOT, None)


def _do(change: Callable[[], None]) -> None:
    """Change something and draw the page again; say it where the disk does not let it."""
    try:
        change()
    except SnapshotError as error:
        st.html(markup.notice("warning", markup.text(error)))
        return
    close()
    st.rerun()
