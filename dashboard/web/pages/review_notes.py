"""The fields for notes of a review: owner and text, saved with the snapshot when a field is left."""

from datetime import datetime

import streamlit as st

from dashboard import service
from dashboard.access import audit
from dashboard.errors import DashboardError, SnapshotError
from dashboard.fleet import Note
from dashboard.fleet.formatting import iso
from dashboard.store.packing import LONGEST_NAME, LONGEST_NOTE
from dashboard.views.names import brief
from dashboard.web import markup, sessions, state

# Keys of the session: the two fields of a note, the last note seen on disk, the unsaved note, the remark.
PREFIX = "note {} {} "  # the snapshot, and what the note is about
TEXT, OWNER, SEEN, UNSAVED, REMARK = "text", "owner", "seen", "unsaved", "remark"
NOTHING = Note("")
BOTH_KEPT = "Edited by two people at the same time: both texts are kept."
TOO_LONG = f"With the other person's text the note exceeds {LONGEST_NOTE:,} characters. Shorten it."


def draw(snapshot: str, about: str, label: str, stored: Note | None) -> None:
    """Draw the fields of one note. `label` is our own text; `stored` is the saved note."""
    prefix = PREFIX.format(snapshot, about)
    _follow(prefix, stored or NOTHING)
    with st.container(key=f"note_{about}", gap="xxsmall"):
        st.text_input(
            f"Owner of {label}",
            key=prefix + OWNER,
            placeholder="Owner",
            max_chars=LONGEST_NAME,
            on_change=_save,
            args=(snapshot, about),
            label_visibility="collapsed",
        )
        st.text_area(
            f"Note on {label}",
            key=prefix + TEXT,
            placeholder="What was agreed",
            max_chars=LONGEST_NOTE,
            height="content",
            on_change=_save,
            args=(snapshot, about),
            label_visibility="collapsed",
        )
        _draw_remark(prefix, stored, snapshot, about)


def is_unsaved(snapshot: str, about: str) -> bool:
    """Return whether the session has a note that was refused, such as after the role was taken away."""
    return st.session_state.get(PREFIX.format(snapshot, about) + UNSAVED) is not None


def merged(base: Note, theirs: Note, mine: Note) -> Note:
    """Merge two edits of one note; where both changed it, both texts are kept."""
    text = _merged(base.text, theirs.text, mine.text, "\n")
    return Note(text, _merged(base.owner, theirs.owner, mine.owner, ", "), mine.at, mine.author)


def _merged(base: str, theirs: str, mine: str, between: str) -> str:
    if theirs in {base, mine} or not theirs:
        return mine
    return theirs if mine in {base, ""} else f"{theirs}{between}{mine}"


def _follow(prefix: str, stored: Note) -> None:
    """Show the saved note where it is new to this session; an unsaved one is never overwritten."""
    session = st.session_state
    unsaved: Note | None = session.get(prefix + UNSAVED)
    is_new = session.get(prefix + SEEN) != stored and unsaved is None
    shown = unsaved or stored
    for name, value in ((prefix + TEXT, shown.text), (prefix + OWNER, shown.owner)):
        # Rewriting an equal value (saved without surrounding space) would interrupt typing. Streamlit drops the state
        # of fields that another page does not draw.
        if name not in session or (is_new and session[name].strip() != value):
            session[name] = value
    if is_new:
        session[prefix + SEEN] = stored


def _save(snapshot: str, about: str) -> None:
    """Save the note, merged with a concurrent edit; after a failed write the session keeps it."""
    prefix, session = PREFIX.format(snapshot, about), st.session_state
    author = sessions.visitor().author
    mine = Note(session[prefix + TEXT].strip(), session[prefix + OWNER].strip(), service.now(), author)
    try:
        note = _write(snapshot, about, session.get(prefix + SEEN, NOTHING), mine)
    except DashboardError as error:
        session[prefix + UNSAVED], session[prefix + REMARK] = mine, str(error)
        return
    session[prefix + UNSAVED] = None
    session[prefix + REMARK] = BOTH_KEPT if (note.text, note.owner) != (mine.text, mine.owner) else ""


def _write(snapshot: str, about: str, base: Note, mine: Note) -> Note:
    """Merge a note with the saved one and write it; an empty note is deleted. Return what was written."""
    theirs = service.snapshots().get(snapshot).metadata.notes.get(about, NOTHING)
    note = merged(base, theirs, mine)
    if len(note.text) > LONGEST_NOTE or len(note.owner) > LONGEST_NAME:
        raise SnapshotError(TOO_LONG)
    with audit.performed("note", sessions.visitor(), snapshot=snapshot, about=about):
        service.snapshots().note(snapshot, about, note if note.text or note.owner else None)
    return note


def _draw_remark(prefix: str, stored: Note | None, snapshot: str, about: str) -> None:
    """Draw the result of the last save below the fields: its time, or why it failed."""
    remark = str(st.session_state.get(prefix + REMARK) or "")
    if st.session_state.get(prefix + UNSAVED) is not None:
        st.html(f'<p class="saved" role="alert">{markup.glyph("warning", "")} Not saved. {markup.text(remark)}</p>')
        st.button("Save again", key=f"save_{about}", on_click=_save, args=(snapshot, about))
        return
    if stored is not None and stored.at is not None:
        by = f" by {markup.text(brief(stored.author))}" if stored.author else ""
        when = f'<span title="{iso(stored.at)}">saved {_format_time(stored.at)}</span>{by}'
        st.html(f'<p class="saved" role="status">{when} {markup.text(remark)}</p>')


def _format_time(at: datetime) -> str:
    """Return the time of day, with the date unless it is that of the data."""
    return f"{at:%H:%M}" if at.date() == state.now().date() else f"{at:%Y-%m-%d %H:%M}"
