"""What is new since the last review, as a section of the review."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.models import Changes
from dashboard.fleet import Note
from dashboard.fleet.formatting import iso
from dashboard.fleet.pieces import Kind, Link, Piece, Style, page, plain, section
from dashboard.rules.findings import Finding
from dashboard.store.reviews import NoLastReview
from dashboard.views.blocks import (
    Block,
    Chart,
    DifferenceTable,
    Entries,
    Entry,
    Figures,
    Paragraph,
    Section,
    Table,
    Tone,
)
from dashboard.views.changes import changes_report
from dashboard.views.changes_text import RANGE, EventSummary
from dashboard.views.context import context_of
from dashboard.views.finding_text import note_lines, where_of
from dashboard.views.names import replica_names
from dashboard.views.pages import CHANGES, FROM, TO, side_of
from dashboard.views.review_agreed import noted_data

NEW = "new"
TITLE = "New since the last review"
NO_LONGER_FOUND = "Noted at the last review, no longer found"
SINCE = ("findings", "settings", "replicas", "capacity")  # sections whose titles the review has, too
ON_CHANGES = ("at-a-glance", "replicas", "capacity")  # sections that a page leaves to the page Changes
CUT = ("setting-changes", "rank-changes")  # appendices of lists that are cut


def new_parts(
    fleet: Fleet,
    before: Fleet | NoLastReview,
    before_notes: Mapping[str, Note],
    notes: tuple[Block, ...],
    between: EventSummary | None = None,
) -> tuple[Section, tuple[Section, ...]]:
    """Return the section and its appendices; `before` is the fleet of the last review, or why there is none.

    `between` is what happened since.
    """
    if isinstance(before, NoLastReview):
        return Section(NEW, TITLE, (Paragraph(plain(before)), *notes)), ()
    changes = changes_between(before, fleet)
    view = changes_report(changes, context_of(before), context_of(fleet), between)
    since = f"Data of the last review: {iso(before.polled_at)}. " if before.polled_at else ""
    if before.past and before.polled_at:
        since = f"Compared with {iso(before.past.at)}, last poll {iso(before.polled_at)}. "
    head = Paragraph((Piece(since, Style.MUTED), Piece(f"{view.headline}.", Style.STRONG), Piece(f" {view.lead}")))
    shown = [each for each in view.parts if not each.is_appendix and (each.anchor == RANGE or not changes.is_empty)]
    title = f"New since {iso(before.past.at)}" if before.past else TITLE
    part = Section(
        NEW, title, (head, *notes), (*_settled(changes, before, before_notes), *nested(map(_since, shown), NEW))
    )
    everything = page(CHANGES, **{FROM: side_of(before), TO: side_of(fleet)})
    cut = nested((each for each in view.parts if each.anchor in CUT), NEW)
    return part, tuple(replace(each, is_appendix=True, link=everything) for each in cut)


def nested(sections: Iterable[Section], prefix: str) -> tuple[Section, ...]:
    """Return sections of one view as sections of another: their anchors and file names get a prefix."""
    return tuple(
        replace(
            each,
            anchor=f"{prefix}-{each.anchor}",
            blocks=tuple(_nested(block, prefix) for block in each.blocks),
            parts=nested(each.parts, prefix),
            is_appendix=False,
        )
        for each in sections
    )


def _nested(block: Block, prefix: str) -> Block:
    if isinstance(block, Figures):
        items = (each._replace(link=_link(each.link, prefix)) for each in block.items)
        return Figures(tuple(items))
    if isinstance(block, Entries):
        return replace(block, data=block.data and replace(block.data, name=f"{prefix}-{block.data.name}"))
    if isinstance(block, Table) and block.for_programs:
        data = replace(block.data, name=f"{prefix}-{block.data.name}")
        block = replace(block, for_programs=lambda: data)
    if isinstance(block, Table | DifferenceTable | Chart):
        return replace(block, name=f"{prefix}-{block.name}")
    return block


def _link(link: Link | None, prefix: str) -> Link | None:
    return section(f"{prefix}-{link.anchor}") if link and link.kind is Kind.SECTION else link


def _since(part: Section) -> Section:
    title = f"{part.title} since then" if part.anchor in SINCE else part.title
    return replace(part, title=title, is_exported_only=part.anchor in ON_CHANGES)


def _settled(changes: Changes, before: Fleet, before_notes: Mapping[str, Note]) -> tuple[Section, ...]:
    """Return the notes of the last review on findings that are no longer found."""
    gone = [each.finding for each in changes.findings.no_longer_found if each.finding.id in before_notes]
    items = tuple(_settled_entry(each, before_notes[each.id]) for each in gone)
    rows = ((f"{where_of(each)} {each.sentence}", each, before_notes[each.id]) for each in gone)
    data = noted_data(rows, replica_names(before), before.sightings.findings, name="settled", caption=NO_LONGER_FOUND)
    return (Section("settled", NO_LONGER_FOUND, (Entries(items, data),)),) if items else ()


def _settled_entry(finding: Finding, note: Note) -> Entry:
    head = (Piece(where_of(finding), Style.STRONG), Piece(" "), *finding.text)
    return Entry(Tone.PLAIN, head, notes=note_lines(None, note))
