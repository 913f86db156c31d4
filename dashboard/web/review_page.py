"""Puts the Review page together: the agenda, the sections, and the notes that are taken on a snapshot."""

from collections.abc import Sequence

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.errors import SnapshotError
from dashboard.fleet import Note
from dashboard.fleet.pools import Notes
from dashboard.store.reviews import Last
from dashboard.store.snapshots import READ_ONLY
from dashboard.views import pages
from dashboard.views.blocks import View
from dashboard.views.finding_entries import note_lines
from dashboard.views.review import FINE, review_report
from dashboard.web import audit, markup, meeting, review_blocks, review_chart, review_notes, state
from dashboard.web.meeting import Item
from dashboard.web.review_blocks import HtmlFragment
from dashboard.web.review_view import AgendaSection, Rank, Topic

FREEZE = "freeze_review"
PROBLEM = "freeze_review_problem"
KEPT = "Notes are kept beside this snapshot as soon as their field is left, or by Ctrl+Enter."
FOLDED = "Bars of every DP rank, where they differ"
_WHY = "Notes belong to a snapshot: they still speak of what was seen when the fleet has changed."


def report(fleet: Fleet, last: Last) -> View:
    """Return the review to take away, with the notes as they are when it is asked for."""
    stored = state.read_stored(fleet.snapshot)
    return review_report(
        fleet,
        before=last.fleet,
        notes=stored.notes if stored else {},
        before_notes=last.notes,
        alone=last.alone,
        name=stored.metadata.name if stored else "",
    )


def draw_agenda(sections: Sequence[AgendaSection]) -> None:
    """Draw the agenda, which leads to every section."""
    meeting.agenda([Item(each.key, each.short, each.amount) for each in sections])


def draw_controls(fleet: Fleet) -> None:
    """Say how notes are taken, and let the reader begin the meeting."""
    stored = state.stored()
    unread = stored.problem if stored else ""
    with st.container(key="review_controls", horizontal=True, vertical_alignment="center", gap="small"):
        if service.snapshots().read_only:
            st.html(f'<p class="foot">{READ_ONLY}</p>')
        elif state.is_frozen():
            st.html(f'<p class="foot">{"" if unread else KEPT}</p>')
        else:
            st.html(f'<p class="foot">{markup.bold("Freeze to take notes.")} {_WHY}</p>')
            st.button("Freeze", key=FREEZE, on_click=_freeze, args=(fleet,))
        meeting.switch()
    for problem in (str(st.session_state.pop(PROBLEM, "")), unread):
        if problem:
            st.html(markup.notice("warning", f"{markup.glyph('warning', 'warning:')} {markup.text(problem)}"))


def draw_title(section: AgendaSection, head: str) -> None:
    """Head a section; the keys of a meeting lead to this heading. The first one has the head of the page."""
    st.html(head if section.anchor == FINE else markup.section(section.title))


def draw_body(section: AgendaSection, snapshot: str | None, notes: Notes) -> None:
    """Draw what a section says; on a snapshot each entry on a finding, and the section itself, has a field."""
    _draw_pieces(section.pieces, section.key)
    if section.folded:
        with st.expander(FOLDED):
            _draw_pieces(section.folded, f"{section.key}_folded")
    for rank in section.ranks:
        _draw_rank(rank, snapshot, notes)
    if snapshot is not None:
        with st.container(key=f"whole_{section.anchor}"):
            _draw_note(snapshot, section.anchor, "this section", notes.get(section.anchor))


def _draw_pieces(pieces: Sequence[HtmlFragment], key: str) -> None:
    for place, piece in enumerate(pieces):
        if piece.is_chart:
            review_chart.chart(piece.html, key=f"{key}_{place}")
        else:
            st.html(piece.html)


def _draw_rank(rank: Rank, snapshot: str | None, notes: Notes) -> None:
    """Draw the entries of one severity; what is only for information is folded, unless something is noted there."""
    is_noted = any(each in notes for topic in rank.topics for each in topic.ids)
    if rank.is_quiet:
        with st.expander(rank.title, expanded=is_noted):
            _draw_topics(rank, snapshot, notes)
        return
    st.html(f"<h3>{markup.text(rank.title)}</h3>")
    _draw_topics(rank, snapshot, notes)


def _draw_topics(rank: Rank, snapshot: str | None, notes: Notes) -> None:
    if snapshot is None:
        st.html("".join(topic.entry + topic.noted for topic in rank.topics))
        return
    for topic in rank.topics:
        _draw_topic(topic, snapshot, notes)


def _draw_topic(topic: Topic, snapshot: str, notes: Notes) -> None:
    """Draw one entry with its field. Of several pools with notes of their own, the first is written on."""
    held = [each for each in topic.ids if each in notes] or [topic.ids[0]]
    quotes = "".join([topic.noted, *(_quoted(notes[each]) for each in held[1:])])
    with st.container(key=f"topic_{held[0]}"):
        st.html(topic.entry)
        with st.container(key=f"beside_{held[0]}", gap="xxsmall"):
            if quotes:
                st.html(quotes)
            _draw_note(snapshot, held[0], topic.label, notes.get(held[0]))


def _draw_note(snapshot: str, about: str, label: str, note: Note | None) -> None:
    """Draw the fields of a note; where snapshots are read-only, the note."""
    if not service.snapshots().read_only:
        review_notes.draw(snapshot, about, label, note)
    elif note is not None:
        st.html(_quoted(note))


def _quoted(note: Note) -> str:
    return "".join(map(review_blocks.noted_html, note_lines(note)))


def _freeze(fleet: Fleet) -> None:
    """Freeze what is shown, and show the snapshot: the address names it from now on."""
    name = f"Review {service.now():%Y-%m-%d}"
    try:
        with audit.recorded("freeze", name=name) as told:
            stored = service.snapshots().freeze(fleet, name, service.now())
            told["snapshot"] = stored.id
    except SnapshotError as error:
        st.session_state[PROBLEM] = str(error)
    else:
        st.query_params[pages.SNAPSHOT] = stored.id
