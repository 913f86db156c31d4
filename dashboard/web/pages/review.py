"""Review: the agenda of a meeting on one page, with notes; in meeting mode one section a screen."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.errors import DashboardError
from dashboard.fleet import Note
from dashboard.fleet.formatting import FEW, short_id, shortlist
from dashboard.fleet.pools import Notes
from dashboard.store.packing import READ_ONLY, SnapshotList, StoredSnapshot
from dashboard.store.reviews import REVIEW, LastReview, NoLastReview, earlier, last_review, opened
from dashboard.views import pages
from dashboard.views.blocks import Entries, Entry, Paragraph, Section, View
from dashboard.views.context import AS_OF, as_of, context_of, source_text
from dashboard.views.finding_list import (
    SORTS,
    WORST_FIRST,
    ListedFinding,
    finding_anchor,
    fix_groups,
    list_findings,
    sort_findings,
)
from dashboard.views.finding_text import note_lines
from dashboard.views.names import brief
from dashboard.views.review import AGENDA, FINDINGS, NEW, STATUS, agenda_counts, review_report
from dashboard.views.since import NEWEST_FIRST, Recency, has_history, range_start, range_words, ranges_of
from dashboard.views.snapshots import describe_snapshot
from dashboard.web import causes, draw, links, markup, sessions, share, state
from dashboard.web.pages import review_notes
from dashboard.web.state import shared

SAVE = "save_for_review"
PROBLEM = "save_for_review_problem"
SAVED = "Notes save automatically (when a field is left, or with Ctrl+Enter)."
WHY_SAVE = "Notes belong to a snapshot, so they keep their context when the fleet changes."
NO_REVIEW = ""  # no snapshot to compare with
_MARK = ' aria-current="true"'
HELP = "One section a screen, larger type, no updates."
_STYLE = (Path(__file__).parents[1] / "meeting.css").read_text(encoding="utf-8")
_component = markup.component("review", "review.js")

NoteItems = tuple[tuple[str, Note], ...]  # notes as a part of a cache's key


class NoteTopic(NamedTuple):
    """One entry on findings with fields for a note: the ids of its findings, and the label of its fields."""

    ids: tuple[str, ...]
    label: str
    html: str


class AgendaSection(NamedTuple):
    """One section of the agenda, prepared; `listed` are its entries on findings by the part that has them."""

    anchor: str
    heading: str  # HTML, with the id that the agenda leads to
    amount: int
    pieces: draw.PreparedPieces
    listed: tuple[tuple[Section, tuple[NoteTopic, ...]], ...]

    @property
    def key(self) -> str:
        return f"review_{self.anchor.replace('-', '_')}"

    @property
    def agenda_title(self) -> str:
        """Return its title on the agenda and the number of its items as HTML."""
        amount = f' <span class="amount">{self.amount:,}</span>' if self.amount else ""
        return f"{markup.text(AGENDA[self.anchor])}{amount}"


@shared(max_entries=4)
def review(
    fleet: Fleet, before: Fleet | None, noted: NoteItems, missing: NoLastReview, recency: Recency
) -> tuple[tuple[AgendaSection, ...], str]:
    """Return the sections in the order of the agenda, and links to what an export has as appendices.

    Sessions with the same fleets and notes share the result.
    """
    view = review_report(fleet, before=before, before_notes=dict(noted), missing=missing, recency=recency)
    listed = [each for each in list_findings(fleet).active if recency.keeps(each.sighting)]
    if recency.is_newest_first:
        listed = sort_findings(listed, NEWEST_FIRST)
    groups = {finding_anchor(group[0].key): group for group in fix_groups(listed)}
    counts = agenda_counts(fleet, recency)
    targets = [(each.title, links.address(each.link)) for each in view.parts if each.is_appendix and each.link]
    appendix = " · ".join(markup.link(url, markup.text(title)) for title, url in targets if url)
    head = markup.heading(markup.text(view.headline), markup.text(view.lead))
    sections = tuple(_section(each, head, counts, groups) for each in view.parts if each.anchor in AGENDA)
    return sections, f'<p class="foot">All of it: {appendix}</p>' if appendix else ""


def _section(
    section: Section, head: str, counts: Mapping[str, int], groups: Mapping[str, Sequence[ListedFinding]]
) -> AgendaSection:
    title = draw.heading_of(section) if section.note else markup.section(section.title)
    labels = Counter[str]()
    listed = {each.anchor: _topics(each, groups, labels) for each in section.parts}
    others = [each for each in section.parts if not listed[each.anchor]]
    return AgendaSection(
        anchor=section.anchor,
        heading=f'<div id="agenda-{section.anchor}">{head if section.anchor == STATUS else title}</div>',
        amount=counts.get(section.anchor, 0),
        pieces=(*draw.prepare(section.blocks), *draw.prepare_sections(others, 3)),
        listed=tuple((each, topics) for each in section.parts if (topics := listed[each.anchor])),
    )


def _topics(
    section: Section, groups: Mapping[str, Sequence[ListedFinding]], labels: Counter[str]
) -> tuple[NoteTopic, ...]:
    """Return the entries of a section that are about findings, each with a label of its own."""
    items = [item for block in section.blocks if isinstance(block, Entries) for item in block.items]
    return tuple(_topic(item, groups[item.anchor], labels) for item in items if item.anchor in groups)


def _topic(entry: Entry, group: Sequence[ListedFinding], labels: Counter[str]) -> NoteTopic:
    """Return an entry with the label of its fields: the rule, its pools, and a number where several are equal."""
    found = [each.finding for each in group]
    pools = dict.fromkeys(pool for each in found for pool in each.pools)
    names = [_plain(brief(pool)) for pool in pools]
    label = f"{found[0].rule} in {shortlist(names, FEW)}" if pools else found[0].rule
    labels[label] += 1
    numbered = label if labels[label] == 1 else f"{label}, {labels[label]}"
    return NoteTopic(tuple(dict.fromkeys(each.id for each in found)), numbered, draw.html_of([Entries((entry,))]))


def _plain(name: str) -> str:
    """Return a name without what Streamlit would read as Markdown in a label."""
    return " ".join("".join(char if char.isalnum() or char in "_./-" else " " for char in name).split())


def report(fleet: Fleet, last: LastReview, recency: Recency) -> View:
    """Return the review for an export, with the notes of now."""
    stored = state.read_stored(fleet.snapshot)
    return review_report(
        fleet,
        before=last.fleet,
        notes=stored.metadata.notes if stored else {},
        before_notes=last.notes,
        missing=last.missing,
        recency=recency,
    )


def draw_controls(fleet: Fleet) -> None:
    stored = state.stored()
    unread = stored.problem if stored else ""
    with st.container(key="review_controls", horizontal=True, vertical_alignment="center", gap="small"):
        if service.snapshots().read_only:
            st.html(f'<p class="foot">{READ_ONLY}</p>')
        elif fleet.snapshot is not None:
            remark = sessions.missing_role("note", "Editing notes") or SAVED
            st.html(f'<p class="foot">{"" if unread else remark}</p>')
        else:
            why = f"{WHY_SAVE} {sessions.missing_role('save', 'Saving one')}".rstrip()
            st.html(f'<p class="foot">{markup.bold("Save a snapshot to take notes.")} {why}</p>')
            st.button("Save snapshot", key=SAVE, on_click=_save_snapshot, args=(fleet,), **sessions.control("save"))
    for problem in (str(st.session_state.pop(PROBLEM, "")), unread):
        if problem:
            st.html(markup.notice("warning", f"{markup.glyph('warning', 'warning:')} {markup.text(problem)}"))


def _save_snapshot(fleet: Fleet) -> None:
    """Save the fleet and show its snapshot: the URL names it from now on."""
    try:
        stored = sessions.save_snapshot(fleet, f"{REVIEW} {service.now():%Y-%m-%d}")
    except DashboardError as error:
        st.session_state[PROBLEM] = str(error)
    else:
        st.query_params.pop(pages.AT, None)
        st.query_params[pages.SNAPSHOT] = stored.id


def chosen_last(known: SnapshotList, fleet: Fleet) -> LastReview:
    """Open the earlier snapshot that the URL names, or the last review."""
    by_id, usual = _choices(known, fleet)
    return opened(known, by_id.get(links.read_choice(pages.FROM, list(by_id), default=usual)), service.open_snapshot)


def _choices(known: SnapshotList, fleet: Fleet) -> tuple[dict[str, StoredSnapshot | None], str]:
    """Return what a review can be compared with, by id, and the id of the last review; without one nothing."""
    usual = last_review(known, fleet)
    none: dict[str, StoredSnapshot | None] = {} if usual else {NO_REVIEW: None}
    return none | {each.id: each for each in known.snapshots}, usual.id if usual else NO_REVIEW


def chosen_recency(fleet: Fleet) -> Recency:
    start = range_start(fleet, links.read_choice(pages.NEW, _ranges(fleet)))
    return Recency(start, links.read_choice(pages.SORT, _sorts(fleet)) == NEWEST_FIRST)


def draw_recency(fleet: Fleet) -> None:
    """Draw the choice of what is new, and of the order; nothing without a history."""
    ranges, sorts = _ranges(fleet), _sorts(fleet)
    if len(ranges) == 1:
        return
    with draw.controls_row("review_recency"):
        st.selectbox("New", ranges, **links.bind(pages.NEW, ranges), format_func=range_words, width=130)
        st.selectbox("Sort", sorts, **links.bind(pages.SORT, sorts), format_func=lambda sort: SORTS[sort][0], width=150)


def _ranges(fleet: Fleet) -> list[str]:
    return ranges_of(fleet, st.query_params.get(pages.NEW, ""))


def _sorts(fleet: Fleet) -> list[str]:
    return [WORST_FIRST, NEWEST_FIRST] if has_history(fleet) else [WORST_FIRST]


def draw_last(known: SnapshotList, last: LastReview, fleet: Fleet) -> None:
    """Draw the choice of the last review, and a link to all changes since."""
    by_id, usual = _choices(known, fleet)

    def describe(key: str) -> str:
        stored = by_id[key]
        return describe_snapshot(stored) if stored else "no last review"

    if known.snapshots:
        with st.container(key="review_since", horizontal=True, vertical_alignment="center", gap="small"):
            if len(by_id) > 1:
                st.selectbox(
                    "Last review",
                    list(by_id),
                    **links.bind(pages.FROM, list(by_id), default=usual),
                    format_func=describe,
                    width=430,
                    label_visibility="collapsed",
                )
            else:
                st.html(f'<p class="foot">{markup.text(describe(usual))}</p>')
            if last.id is not None:
                url = links.to(pages.CHANGES, **{pages.FROM: last.id, pages.TO: pages.side_of(fleet)})
                st.html(f'<p class="foot">{markup.link(url, "All changes")}</p>')
    if last.problem:
        st.html(markup.notice("warning", markup.text(last.problem)))


def draw_body(section: AgendaSection, snapshot: str | None, notes: Notes) -> None:
    """Draw a section; on a snapshot each entry on findings, and the section itself, has fields for a note."""
    draw.draw_prepared(section.pieces, section.key)
    for part, topics in section.listed:
        _draw_topics(part, topics, snapshot, notes)
    if snapshot is not None:
        with st.container(key=f"whole_{section.anchor}"):
            _draw_note(snapshot, section.anchor, "this section", notes.get(section.anchor))


def _draw_topics(part: Section, topics: Sequence[NoteTopic], snapshot: str | None, notes: Notes) -> None:
    """Draw the entries of one severity; folded ones are open where there is a note on them."""
    if not part.is_aside:
        st.html(draw.heading_of(part, 3))
    is_noted = any(each in notes for topic in topics for each in topic.ids)
    with st.expander(part.title, expanded=is_noted) if part.is_aside else st.container():
        if snapshot is None:
            st.html("".join(topic.html for topic in topics))
            return
        for topic in topics:
            _draw_topic(topic, snapshot, notes)


def _draw_topic(topic: NoteTopic, snapshot: str, notes: Notes) -> None:
    """Draw one entry with its fields. If it has several notes, the first one can be edited."""
    noted = [each for each in topic.ids if each in notes] or [topic.ids[0]]
    with st.container(key=f"topic_{noted[0]}"):
        st.html(topic.html)
        with st.container(key=f"notes_{noted[0]}", gap="xxsmall"):
            if quotes := "".join(_quotes(notes[each] for each in noted[1:])):
                st.html(quotes)
            _draw_note(snapshot, noted[0], topic.label, notes.get(noted[0]))


def _draw_note(snapshot: str, about: str, label: str, note: Note | None) -> None:
    """Draw the fields of a note; the note alone where snapshots are read-only, or the visitor may not edit it."""
    is_editor = not sessions.missing_role("note") or review_notes.is_unsaved(snapshot, about)
    if is_editor and not service.snapshots().read_only:
        review_notes.draw(snapshot, about, label, note)
    elif note is not None:
        st.html("".join(_quotes([note])))


def _quotes(notes: Iterable[Note]) -> Iterator[str]:
    for note in notes:
        for line in note_lines(note):
            yield f'<blockquote class="noted">{draw.html_of([Paragraph(line)])}</blockquote>'


def draw_agenda(titles: Mapping[str, str]) -> None:
    """Draw links to the sections, whose titles are HTML by their ids, and the one that starts the meeting."""
    entries = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, title in titles.items())
    begin = markup.link(_url(**{pages.MEETING: "1"}), "Meeting mode", title=HELP, css="button")
    with st.container(key="agenda"):
        st.html(f'<nav class="agenda" aria-label="Agenda"><ol>{entries}</ol>{begin}</nav>')
    listen()


def draw_bar(titles: Mapping[str, str], current: str) -> None:
    """Draw the bar of a meeting: the keys, which are links, the sections, and what is shown.

    Titles are HTML by the anchors of their sections.
    """
    anchors = list(titles)
    place = anchors.index(current)
    entries = "".join(
        f'<li><a href="{markup.text(_url(section=key))}"{_MARK if key == current else ""}>{title}</a></li>'
        for key, title in titles.items()
    )
    keys = (
        _key("previous", "←", anchors[place - 1] if place else None),
        _key("next", "→", anchors[place + 1] if place + 1 < len(anchors) else None),
    )
    leave = markup.link(_url(meeting=None, section=None), "<kbd>Esc</kbd> leave", css="leave")
    st.html(
        f"<style>{_STYLE}</style>"
        f'<nav class="agenda meeting" aria-label="Agenda"><span class="keys">{"".join(keys)}</span><ol>{entries}</ol>'
        f'<p class="shown">{_shown_html()}</p>{leave}</nav>'
        f'<p class="said" role="status">Section {place + 1} of {len(anchors)}</p>'
    )
    listen()


def _key(name: str, arrow: str, section: str | None) -> str:
    kbd = f"<kbd aria-hidden=true>{arrow}</kbd>{markup.said(f'{name.capitalize()} section')}"
    return f"<span>{kbd}</span>" if section is None else markup.link(_url(section=section), kbd, css=name)


def listen() -> None:
    """Let the browser listen to the keys of a meeting, and mark notes that are not saved."""
    _component(key="review_keys", data={"meeting": state.is_meeting()})


def _url(**choices: str | None) -> str:
    return links.to(pages.REVIEW, **{**links.page_choices(), **choices})


def _shown_html() -> str:
    """Return what is shown, and the time of its data: of the live fleet the name is enough."""
    fleet, stored = state.fleet(), state.stored()
    name = f"“{stored.metadata.name}” " if stored and stored.metadata.name else ""
    past = f", {source_text(context_of(fleet))}" if fleet.past else ""
    what = f"Snapshot {name}{short_id(fleet.snapshot)}" if fleet.snapshot else f"{fleet.name}{past}"
    return f"<span>{markup.text(what)}</span> · {markup.text(as_of(fleet).removeprefix(AS_OF))}"


def draw_page() -> None:
    fleet = state.fleet()
    known = earlier(service.snapshots(), fleet)
    last = chosen_last(known, fleet)
    stored = state.stored()
    notes = stored.metadata.notes if stored else {}
    recency = chosen_recency(fleet)
    sections, appendix = review(fleet, last.fleet, last.noted, last.missing, recency)

    if state.is_meeting():
        titles = {each.anchor: each.agenda_title for each in sections}
        current = links.read_choice(pages.SECTION, list(titles))
        draw_bar(titles, current)
        sections = tuple(each for each in sections if each.anchor == current)
    else:
        draw_agenda({f"agenda-{each.anchor}": each.agenda_title for each in sections})
        draw_controls(fleet)
    for section in sections:
        with st.container(key=section.key):
            st.html(section.heading)
            if section.anchor == NEW:
                draw_last(known, last, fleet)
            elif section.anchor == FINDINGS:
                draw_recency(fleet)
            draw_body(section, fleet.snapshot, notes)
    if not state.is_meeting():
        st.html(appendix)
    causes.draw_cause(fleet)
    share.offer(lambda: report(fleet, last, recency))
