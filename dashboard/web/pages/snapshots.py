"""Snapshots: open, compare, rename, export, delete and import them."""

import time
from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.uploaded_file_manager import UploadedFile

from dashboard import service
from dashboard.access import audit
from dashboard.errors import DashboardError, SnapshotError
from dashboard.fleet.formatting import count, iso, short_id
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.fleet.times import is_time
from dashboard.sources.importing import File, RefusedFile, import_files
from dashboard.store.packing import LONGEST_NAME, READ_ONLY, SnapshotList, StoredSnapshot, with_name
from dashboard.store.reviews import earlier, last_review
from dashboard.views import pages
from dashboard.views.blocks import Entries, Entry, Tone
from dashboard.views.snapshots import UNNAMED, data_time, default_name, saving_times, search_snapshots, snapshots_table
from dashboard.web import draw, links, markup, sessions, sides, state
from dashboard.web.sessions import MAX_FILE_BYTES, MIB

ID = "snapshot_id"
SEARCHABLE = 8  # more snapshots than these have a search
WHAT = "A snapshot is a permanent copy of the fleet at one moment. Its link always opens the same data."
HOW, OR_IMPORT = "To create one, select Save snapshot under Share", ", or import files below"
ONCE_SAVED = "Once one is saved, open, compare and export it here."


def read() -> SnapshotList | None:
    """Return the content of the folder; where it cannot be read, draw the reason and return None."""
    try:
        return service.snapshots().listed()
    except SnapshotError as error:
        st.html(markup.notice("critical", f"{markup.glyph('critical', 'critical:')} {markup.text(error)}"))
        return None


def draw_empty() -> None:
    if service.snapshots().read_only:
        how = READ_ONLY
    elif missing := sessions.missing_role("save", "Saving one"):
        how = f"{missing} {ONCE_SAVED}"
    else:
        how = f"{HOW}{'' if sessions.missing_role('import') else OR_IMPORT}."
    st.html(f'<div class="empty"><h2>No snapshots</h2><p>{WHAT} {how}</p></div>')


def draw_head(found: SnapshotList) -> None:
    """Draw the number of snapshots, and the field that opens one by its id or a link."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="snapshots_head"):
        st.html(markup.heading(count(len(found.snapshots), "snapshot"), markup.text(WHAT)))
        typed = st.text_input("Open by id", key=ID, placeholder="3fa9c01b2e, or a link", width=190)
    if not typed:
        return
    page, choices = links.parse_link(typed)
    try:
        if pages.SNAPSHOT in choices:
            choices[pages.SNAPSHOT] = service.snapshots().named(choices[pages.SNAPSHOT])
    except SnapshotError as error:
        st.html(markup.notice("warning", markup.text(error)))
    else:
        links.open_url(links.live(page, **choices))


def draw_list(found: SnapshotList) -> None:
    """Draw the list with its search, and below it what is damaged."""
    known = found.snapshots
    if len(known) > SEARCHABLE:
        search = st.text_input("Search", **links.bind(pages.SEARCH), placeholder="name, fleet or id", width=260)
        known = search_snapshots(known, search or "")
    if known:
        with st.container(key="snapshots_list"):
            draw.draw_blocks([snapshots_table(known, state.fleet().snapshot)], "snapshots")
    else:
        st.html(markup.notice("info", "No snapshot matches."))
    for sentence in found.damaged:
        st.html(markup.notice("warning", f"{markup.glyph('warning', 'damaged:')} {markup.text(sentence)}"))


def draw_compare(known: Sequence[StoredSnapshot]) -> None:
    """Draw the comparison of any two, and with the last review."""
    options = sides.list_sides(known)
    if len(options) < len(sides.SIDES):
        return
    selected = {name: sides.read_side(name, options) for name in sides.SIDES}
    st.html(markup.section("Compare two"))
    with draw.controls_row("snapshots_compare"):
        for name, side in selected.items():
            sides.draw_side(pages.SNAPSHOTS, name, options, side if side in options or is_time(side) else None)
        url = links.to(pages.CHANGES, **selected)
        st.html(f'<p class="go">{markup.link(url, "Show changes", css="button")}</p>')
    live = service.current()
    if last := last_review(earlier(service.snapshots(), live), live):
        since = links.to(pages.CHANGES, **{pages.FROM: last.id, pages.TO: pages.LIVE})
        name = markup.bold(last.metadata.name or UNNAMED)
        st.html(f"<p>{markup.link(since, 'Changes since the last review')}, {name}</p>")


# Keys of the session.
TO_DELETE = "snapshot_to_delete"
IMPORTED, REFUSED = "imported", "refused_files"  # of the last import: descriptions of snapshots by id, and the rest
ROUND = "import_round"  # the number of imports

BROWSER_SECONDS = 0.2  # until the browser has drawn "Checking": reading a large file blocks the interpreter for seconds
FLEET_NAME = "imported"  # of saved answers without a different name
MOST_REFUSED = 20  # files listed one by one
_HOW = (
    '<p class="mute">Drop an exported snapshot, the output of <code>poll --format json --full</code>, or answers of '
    "replicas saved with curl.</p>"
    '<details><summary>Names of files with answers</summary><ul class="how">'
    "<li>Save any of <code>/inference/v1/config?full=true</code>, "
    "<code>/server_info?config_format=json</code>, <code>/metrics</code>, <code>/v1/models</code> and "
    "<code>/version</code>.</li>"
    "<li>Name each file after its replica, such as <code>chat-1.json</code>. With several files per replica, add the "
    "path with dots for slashes: <code>chat-1.inference.v1.config.json</code>, <code>chat-1.server_info.json</code>, "
    "<code>chat-1.metrics.txt</code>, <code>chat-1.v1.models.json</code>.</li>"
    "<li>Import time is used as the data time.</li></ul></details>"
)


def draw_dialog() -> None:
    key = st.query_params.get(pages.MANAGE)
    if key is None:
        return
    try:
        stored = service.snapshots().get(service.snapshots().named(key))
    except SnapshotError as error:
        st.html(markup.notice("warning", markup.text(error)))
        return
    title = f"Snapshot {markup.markdown_code(stored.metadata.name or stored.id)}"
    st.dialog(title, width="medium", on_dismiss=_close)(_draw_snapshot)(stored)


def _close() -> None:
    st.query_params.pop(pages.MANAGE, None)
    st.session_state.pop(TO_DELETE, None)


def _draw_snapshot(stored: StoredSnapshot) -> None:
    sidecar = stored.metadata
    head = f"{markup.code(stored.id)} · {data_time(sidecar)} · {saving_times(sidecar)}"
    st.html(f'<p class="dialog-head">{head}</p>')
    is_writable = not service.snapshots().read_only
    if is_writable:
        _draw_name(stored)
    with st.container(horizontal=True, gap="small"):
        visitor = sessions.visitor()  # the file is made outside of the session

        def export() -> bytes:
            with audit.performed("export", visitor, snapshot=stored.id, name=sidecar.name or UNNAMED):
                return service.snapshots().export(stored.id)

        st.download_button(
            "Export",
            data=export,
            file_name=f"{links.make_file_name(sidecar.fleet, sidecar.name or 'snapshot', stored.id)}.json.gz",
            mime="application/gzip",
            on_click="ignore",
            key="download",
            **sessions.control("export", "One file with the fleet, its name and notes, for import elsewhere."),
        )
        if is_writable:
            st.button(
                "Delete …", key="delete", on_click=_set_to_delete, args=(stored.id,), **sessions.control("delete")
            )
    if is_writable and (missing := sessions.missing_role("delete", "Delete")):
        st.html(f'<p class="mute">{missing}</p>')
    elif is_writable and st.session_state.get(TO_DELETE) == stored.id:
        _draw_deletion(stored)


def _draw_name(stored: StoredSnapshot) -> None:
    sidecar, visitor = stored.metadata, sessions.visitor()
    action = "rename" if sidecar.author == visitor.author else "rename_of_another"
    allowed = sessions.control(action)
    with draw.controls_row():
        typed = st.text_input(
            "Name",
            value=sidecar.name,
            placeholder=default_name("", sidecar.fleet, sidecar.data_as_of),
            max_chars=LONGEST_NAME,
            key=f"name_{stored.id}",
            disabled=allowed["disabled"],
        )
        name = default_name(typed, sidecar.fleet, sidecar.data_as_of)

        def rename() -> None:
            with audit.performed(action, visitor, snapshot=stored.id, name=name, before=sidecar.name):
                service.snapshots().rename(stored.id, name)

        # With an unchanged name, too: a new one arrives when its field loses the focus, with the click on the button.
        if st.button("Rename", key="rename", **allowed) and name != sidecar.name:
            _apply(rename)
    if missing := sessions.missing_role(action, "Rename"):  # a tooltip of a disabled button needs a mouse
        st.html(f'<p class="mute">{missing}</p>')


def _set_to_delete(key: str | None) -> None:
    st.session_state[TO_DELETE] = key


def _draw_deletion(stored: StoredSnapshot) -> None:
    name = stored.metadata.name or UNNAMED
    notes = f" Also deletes {count(len(stored.metadata.notes), 'note')}." if stored.metadata.notes else ""
    if stored.problem:
        notes = " Also deletes its notes, which cannot be read."
    warning = f"Delete {markup.bold(name)} permanently? Links to it will stop working.{notes}"
    st.html(markup.notice("warning", warning))
    typed = st.text_input("Type its name to confirm", key=f"delete_{stored.id}", max_chars=LONGEST_NAME)
    with st.container(horizontal=True, gap="small"):
        if st.button("Delete permanently", type="primary", key="delete_for_good", **sessions.control("delete")):
            _apply(lambda: _delete(stored, typed))
        st.button("Cancel", key="keep", on_click=_set_to_delete, args=(None,))


def _delete(stored: StoredSnapshot, typed: str | None) -> None:
    name = stored.metadata.name or UNNAMED
    with audit.performed("delete", sessions.visitor(), snapshot=stored.id, name=name):
        if (typed or "").strip() != name:
            raise SnapshotError(f"Not deleted: type the name, {name}.")
        service.snapshots().delete(stored.id)
    shown = st.query_params.get(pages.SNAPSHOT)
    if shown is not None and stored.id.startswith(shown):
        st.query_params.pop(pages.SNAPSHOT, None)


def _apply(change: Callable[[], None]) -> None:
    """Change something, close the dialog and draw the page again; on an error draw its reason."""
    try:
        change()
    except DashboardError as error:
        st.html(markup.notice("warning", markup.text(error)))
        return
    _close()
    st.rerun()


def draw_import() -> None:
    """Draw the field for files and the result of the last import; nothing where snapshots are read-only."""
    if service.snapshots().read_only:
        return
    allowed = sessions.control("import")
    missing = f'<p class="mute">{markup.text(allowed["help"])}</p>' if allowed["disabled"] else _HOW
    st.html(markup.section("Import") + missing)
    files = st.file_uploader(
        "Files",
        accept_multiple_files=True,
        key=f"files_{st.session_state.get(ROUND, 0)}",  # a new key empties the field
        max_upload_size=MAX_FILE_BYTES // MIB,
        label_visibility="collapsed",
        disabled=allowed["disabled"],
    )
    if files and not allowed["disabled"]:  # reading files is work, too
        with draw.controls_row():
            name = st.text_input(
                "Name of the imported fleet", placeholder=FLEET_NAME, max_chars=LONGEST_NAME, width=360
            )
            is_pressed = st.button("Import", type="primary", key="import", **allowed)
        if is_pressed:
            status = st.empty()
            many = count(len(files), "file")
            _draw_busy(status, f"Checking and saving {many} …")
            time.sleep(BROWSER_SECONDS)
            waiting = partial(_draw_busy, status, f"Waiting for another import, then checking {many} …")
            st.session_state[IMPORTED], st.session_state[REFUSED] = _import(files, name or FLEET_NAME, waiting)
            st.session_state[ROUND] = st.session_state.get(ROUND, 0) + 1
            st.rerun()
    if IMPORTED in st.session_state:
        _draw_result(st.session_state[IMPORTED], st.session_state[REFUSED])


def _draw_busy(place: DeltaGenerator, text: str) -> None:
    place.html(f'<p class="busy" role="status">{text}</p>')


def _import(
    files: Sequence[UploadedFile], name: str, wait: Callable[[], None]
) -> tuple[dict[str, str], list[RefusedFile]]:
    """Save the fleets of the files; `wait` is called where another import is being read.

    Return the description of each snapshot by its id, and the files that were refused.
    """
    live, at = service.current(), service.now()
    visitor = sessions.visitor()  # the page may be closed before the files are read
    saved: dict[str, str] = {}
    try:
        contents = [File(each.name, each.getvalue()) for each in files]
        fleets, refused = import_files(contents, at, name, policy=live.policy, ignore=live.ignored, wait=wait)
    except SnapshotError as error:
        fleets, refused = [], [RefusedFile(count(len(files), "file"), str(error))]
    name_of_answers = f"{FLEET_NAME} {iso(at)}" if name == FLEET_NAME else f"{name}, imported {iso(at)}"
    for file, content, sidecar, carried in fleets:
        called = carried.name or (file.partition(".json")[0] if file else name_of_answers)
        try:
            with audit.performed("import", visitor, name=called, file=file) as details:
                named = with_name(sidecar, called).model_copy(update={"author": visitor.author})
                stored = service.snapshots().keep(content, named, carried)
                details["snapshot"] = stored.id
        except DashboardError as error:
            refused.append(RefusedFile(file or name, str(error)))
        else:
            saved[stored.id] = f"{stored.metadata.name}: {count(sidecar.targets, 'replica')}"
    return saved, refused


def _draw_result(saved: dict[str, str], refused: list[RefusedFile]) -> None:
    """Open the fleet where it is the only one and no file was refused; else list fleets and refused files."""
    if not refused and len(saved) == 1:
        del st.session_state[IMPORTED]
        links.open_url(links.live(pages.OVERVIEW, snapshot=short_id(next(iter(saved)))))
        return
    for key, description in saved.items():
        opened = markup.link(links.live(pages.OVERVIEW, snapshot=short_id(key)), "open it")
        glyph = markup.glyph("good", "good:")
        st.html(
            markup.notice(
                "good", f"{glyph} {markup.bold(description)}, saved as {markup.code(short_id(key))}: {opened}"
            )
        )
    if refused:
        files = [Entry(Tone.WARNING, (Piece(each.name, Style.CODE),), lines=(plain(each.why),)) for each in refused]
        more = len(files) - MOST_REFUSED
        foot = f'<div class="foot">and {count(more, "more file")}</div>' if more > 0 else ""
        title = f"{count(len(files), 'file')} refused"
        st.html(markup.section(title) + draw.html_of([Entries(tuple(files[:MOST_REFUSED]))]) + foot)


def draw_page() -> None:
    found = read()
    if found is not None and (found.snapshots or found.damaged):
        draw_head(found)
        draw_list(found)
        draw_compare(found.snapshots)
    elif found is not None:
        draw_empty()
    draw_import()
    draw_dialog()
