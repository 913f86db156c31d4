"""Files that are dropped onto the page: made into fleets, frozen, and opened."""

import time
from collections.abc import Sequence
from typing import NamedTuple, cast

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from dashboard import service
from dashboard.errors import SnapshotError
from dashboard.fleet.formatting import count, iso
from dashboard.sources.importing import File, Refused, import_files
from dashboard.store.sidecar import LONGEST_NAME, with_name
from dashboard.views import pages
from dashboard.web import audit, links, markup, replica_opening
from dashboard.web.uploads import MAX_FILE_BYTES, MIB

DONE, ROUND = "imported", "import_round"  # in the session: what became of the last import, and how many there were
SAID_SECONDS = 0.2  # until the browser has heard of it: reading a large file locks the interpreter for seconds
FLEET_NAME = "imported"  # of answers, where nobody says another
MOST_REFUSED = 20  # files that are told one by one
_WHAT = (
    '<p class="mute">Drop an exported snapshot, the output of <code>poll --format json --full</code>, or answers of '
    "replicas that were saved with curl. For answers:</p>"
    '<ul class="how"><li>Save any of <code>/inference/v1/config?full=true</code>, '
    "<code>/server_info?config_format=json</code>, <code>/metrics</code>, <code>/v1/models</code> and "
    "<code>/version</code>.</li>"
    "<li>Name each file after its replica, such as <code>chat-1.json</code>. Where a replica has several, add the "
    "path, with dots for slashes: <code>chat-1.inference.v1.config.json</code>, <code>chat-1.server_info.json</code>, "
    "<code>chat-1.metrics.txt</code>, <code>chat-1.v1.models.json</code>.</li>"
    "<li>Answers do not tell their time: in place of it stands when they were imported.</li></ul>"
    '<p class="mute">Once files are chosen, <b>Import</b> stands below them: it checks them, freezes what they hold '
    "and opens it.</p>"
)


class Frozen(NamedTuple):
    """One fleet of the import as it was frozen: its id, and what it is in words."""

    id: str
    words: str


class Done(NamedTuple):
    """What became of an import."""

    frozen: tuple[Frozen, ...]
    refused: tuple[Refused, ...]


def draw() -> None:
    """Draw the field for files, and what became of the last ones; nothing where snapshots are read-only."""
    if service.snapshots().read_only:
        return
    st.html(markup.section("Import") + _WHAT)
    place = int(st.session_state.get(ROUND, 0))
    files = st.file_uploader(
        "Files",
        accept_multiple_files=True,
        key=f"files_{place}",
        max_upload_size=MAX_FILE_BYTES // MIB,
        label_visibility="collapsed",
    )
    if files:
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            name = st.text_input(
                "What the fleet of these answers is called", placeholder=FLEET_NAME, max_chars=LONGEST_NAME, width=360
            )
            is_pressed = st.button("Import", type="primary", key="import")
        if is_pressed:
            st.html(f'<p class="busy" role="status">Checking and freezing {count(len(files), "file")} …</p>')
            time.sleep(SAID_SECONDS)
            _import(files, name or FLEET_NAME)
            st.rerun()
    done = cast("Done | None", st.session_state.get(DONE))
    if done is not None:
        _say(done)


def _import(files: Sequence[UploadedFile], name: str) -> None:
    """Freeze what the files hold. One fleet and nothing refused: it is opened at once."""
    live, at = service.current(), service.now()
    who = audit.visitor()  # the page may be left before the files are read
    frozen: list[Frozen] = []
    try:
        brought = [File(each.name, each.getvalue()) for each in files]
        fleets, found = import_files(brought, at, name, policy=live.policy, ignore=live.ignored)
    except SnapshotError as error:
        fleets, found = (), (Refused(count(len(files), "file"), str(error)),)
    refused = list(found)
    of_answers = f"{FLEET_NAME} {iso(at)}" if name == FLEET_NAME else f"{name}, imported {iso(at)}"
    for file, content, beside, carried in fleets:
        called = carried.name or (file.partition(".json")[0] if file else of_answers)
        try:
            with audit.recorded("import", who, name=called, file=file) as told:
                stored = service.snapshots().keep(content, with_name(beside, called), carried)
                told["snapshot"] = stored.id
        except SnapshotError as error:
            refused.append(Refused(file or name, str(error)))
        else:
            frozen.append(Frozen(stored.id, f"{stored.beside.name}: {count(beside.targets, 'replica')}"))
    st.session_state[DONE] = Done(tuple(frozen), tuple(refused))
    st.session_state[ROUND] = int(st.session_state.get(ROUND, 0)) + 1  # an empty field for the next files


def _say(done: Done) -> None:
    st.session_state[DONE] = None if not done.refused and len(done.frozen) == 1 else done
    if not done.refused and len(done.frozen) == 1:
        replica_opening.open_address(links.live(pages.OVERVIEW, snapshot=done.frozen[0].id))
        return
    for each in done.frozen:
        opened = markup.link(links.live(pages.OVERVIEW, snapshot=each.id), "open it")
        glyph = markup.glyph("good", "good:")
        st.html(markup.notice("good", f"{glyph} {markup.bold(each.words)}, frozen as {markup.code(each.id)}: {opened}"))
    if done.refused:
        st.html(_refused(done.refused))


def _refused(refused: Sequence[Refused]) -> str:
    """List the files that were not used, each with the reason."""
    rows = [("warning", f"{markup.code(each.name)}<small>{markup.text(each.why)}</small>", "") for each in refused]
    more = len(rows) - MOST_REFUSED
    foot = f'<div class="foot">and {count(more, "more file")}</div>' if more > 0 else ""
    title = f"{count(len(refused), 'file was', 'files were')} not used"
    return markup.section(title) + markup.entries(rows[:MOST_REFUSED]) + foot
