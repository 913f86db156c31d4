"""The fields for notes of a review: owner and text, saved with the snapshot when a field is left."""

from datetime import datetime
from typing import NamedTuple

import streamlit as st

from dashboard import service
from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.fleet.formatting import iso
from dashboard.store.notes_file import LONGEST_NAME, LONGEST_NOTE
from dashboard.web import audit, markup, state

NOTHING = Note("")
BOTH_KEPT = "Somebody else wrote here at the same time: both are kept."
TOO_LONG = f"Together with what somebody else wrote this is longer than {LONGEST_NOTE:,} characters. Shorten it."


class _Names(NamedTuple):
    """Where the session keeps what belongs to one note: two fields, what was seen on disk, what was not saved."""

    text: str
    owner: str
    seen: str
    unsaved: str
    remark: str


def draw(snapshot: str, about: str, label: str, there: Note | None) -> None:
    """Draw the fields of one note. `label` is our own text; `there` is what stands beside the snapshot now."""
    names = _names(snapshot, about)
    _follow(names, there or NOTHING)
    with st.container(key=f"note_{about}", gap="xxsmall"):
        st.text_input(
            f"Owner of {label}",
            key=names.owner,
            placeholder="Owner",
            max_chars=LONGEST_NAME,
            on_change=_save,
            args=(snapshot, about),
            label_visibility="collapsed",
        )
        st.text_area(
            f"Note on {label}",
            key=names.text,
            placeholder="What was agreed",
            max_chars=LONGEST_NOTE,
            height="content",
            on_change=_save,
            args=(snapshot, about),
            label_visibility="collapsed",
        )
        _draw_remark(names, there, snapshot, about)


def merged(base: Note, theirs: Note, mine: Note) -> Note:
    """Put together what two people made of one note: where both changed it, what both wrote is kept."""
    text = _merged(base.text, theirs.text, mine.text, "\n")
    return Note(text, _merged(base.owner, theirs.owner, mine.owner, ", "), mine.at)


def _merged(base: str, theirs: str, mine: str, between: str) -> str:
    if theirs in {base, mine} or not theirs:
        return mine
    return theirs if mine in {base, ""} else f"{theirs}{between}{mine}"


def _names(snapshot: str, about: str) -> _Names:
    return _Names(*(f"note {snapshot} {about} {part}" for part in _Names._fields))


def _follow(names: _Names, there: Note) -> None:
    """Show what stands on disk where it is new to this session; what could not be saved is never overwritten."""
    kept = st.session_state
    unsaved: Note | None = kept.get(names.unsaved)
    is_news = kept.get(names.seen) != there and unsaved is None
    shown = unsaved or there
    for name, value in ((names.text, shown.text), (names.owner, shown.owner)):
        # Writing what is there already, which is kept without the space around it, would disturb somebody who types on;
        # what another page did not draw is forgotten.
        if name not in kept or (is_news and kept[name].strip() != value):
            kept[name] = value
    if is_news:
        kept[names.seen] = there


def _save(snapshot: str, about: str) -> None:
    """Keep what was typed. What somebody else wrote meanwhile stays, and a failed write loses nothing."""
    names, kept = _names(snapshot, about), st.session_state
    mine = Note(kept[names.text].strip(), kept[names.owner].strip(), service.now())
    try:
        note = _written(snapshot, about, kept.get(names.seen, NOTHING), mine)
    except SnapshotError as error:
        kept[names.unsaved], kept[names.remark] = mine, str(error)
        return
    kept[names.unsaved] = None
    kept[names.remark] = BOTH_KEPT if note[:2] != mine[:2] else ""


def _written(snapshot: str, about: str, base: Note, mine: Note) -> Note:
    """Write a note, put together with what stands there by now; an empty one is taken away."""
    theirs = service.snapshots().get(snapshot).notes.get(about, NOTHING)
    note = merged(base, theirs, mine)
    if len(note.text) > LONGEST_NOTE or len(note.owner) > LONGEST_NAME:
        raise SnapshotError(TOO_LONG)
    with audit.recorded("note", snapshot=snapshot, about=about):
        service.snapshots().note(snapshot, about, note if note.text or note.owner else None)
    return note


def _draw_remark(names: _Names, there: Note | None, snapshot: str, about: str) -> None:
    """Say below the fields what became of them: when they were saved, or why not."""
    remark = str(st.session_state.get(names.remark) or "")
    if st.session_state.get(names.unsaved) is not None:
        st.html(f'<p class="saved" role="alert">{markup.glyph("warning", "")} Not saved. {markup.text(remark)}</p>')
        st.button("Save again", key=f"save_{about}", on_click=_save, args=(snapshot, about))
        return
    if there is not None and there.at is not None:
        when = f'<span title="{iso(there.at)}">saved {_when(there.at)}</span>'
        st.html(f'<p class="saved" role="status">{when} {markup.text(remark)}</p>')


def _when(at: datetime) -> str:
    """Write a time of day, and the day where it is not that of the data."""
    return f"{at:%H:%M}" if at.date() == state.now().date() else f"{at:%Y-%m-%d %H:%M}"
