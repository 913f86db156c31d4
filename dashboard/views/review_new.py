"""What is new since the last review, as a part of the review."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.fleet import Note
from dashboard.fleet.formatting import iso
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.report.findings.sentence_lines import with_values
from dashboard.rules.findings import Finding
from dashboard.views.blocks import Block, Entries, Entry, Paragraph, Section, Tone
from dashboard.views.changes import changes_report
from dashboard.views.context import context_of
from dashboard.views.finding_entries import note_lines, where_of
from dashboard.views.names import replica_names
from dashboard.views.nesting import nested
from dashboard.views.review_agreed import noted_data

NEW = "new"
TITLE = "What is new since the last review"
SETTLED = "Noted at the last review, and gone"
SINCE = ("findings", "replicas", "capacity")  # parts whose titles alone would be those of other parts of the review
CUT = ("setting-changes", "rank-changes")  # whose first lines the part tells: the appendix has all of them


class Alone(StrEnum):
    """Why a review is held against no other, as the report says it."""

    FIRST = "This is the first review of this fleet: there is nothing to compare it with."
    UNREAD = "The last review cannot be opened, so what is new since then is not known."
    CHOSEN = "This review is not held against an earlier one."


def new_parts(
    fleet: Fleet, before: Fleet | Alone, before_notes: Mapping[str, Note], said: tuple[Block, ...]
) -> tuple[Section, tuple[Section, ...]]:
    """Compare with the fleet of the last review, or say why there is none: the part, and its appendices.

    `said` are notes on this part.
    """
    if isinstance(before, Alone):
        return Section(NEW, TITLE, (Paragraph(plain(before)), *said)), ()
    changes = changes_between(before, fleet)
    told = changes_report(changes, context_of(before), context_of(fleet))
    since = f"The last review looked at data of {iso(before.polled_at)}. " if before.polled_at else ""
    head = Paragraph((Piece(since, Style.MUTED), Piece(f"{told.headline}.", Style.STRONG), Piece(f" {told.lead}")))
    own = () if changes.is_empty else tuple(part for part in told.parts if not part.is_appendix)
    inner = nested(map(_since, own), NEW)
    part = Section(NEW, TITLE, (head, *said), (*_settled(fleet, before, before_notes), *inner))
    cut = [each for each in told.parts if each.anchor in CUT]
    return part, tuple(map(_appendix, nested(cut, NEW)))


def _since(part: Section) -> Section:
    return replace(part, title=f"{part.title} since then") if part.anchor in SINCE else part


def _appendix(part: Section) -> Section:
    return replace(part, is_appendix=True)


def _settled(fleet: Fleet, before: Fleet, before_notes: Mapping[str, Note]) -> tuple[Section, ...]:
    """List what was written at the last review of findings that are gone: it can be ticked off, or asked about."""
    there = {each.id for each in (*fleet.inspection.findings, *fleet.inspection.suppressed)}
    gone = [
        each
        for each in (*before.inspection.findings, *before.inspection.suppressed)
        if each.id in before_notes and each.id not in there
    ]
    items = tuple(_entry(each, before_notes[each.id]) for each in gone)
    told = ((f"{where_of(each)} {each.sentence}", each, before_notes[each.id]) for each in gone)
    data = noted_data(told, replica_names(before), name="settled", caption=SETTLED)
    return (Section("settled", SETTLED, (Entries(items, data),)),) if items else ()


def _entry(finding: Finding, note: Note) -> Entry:
    head = (Piece(where_of(finding), Style.STRONG), Piece(" "), *with_values(finding.sentence, finding.evidence))
    return Entry(Tone.PLAIN, head, notes=note_lines(None, note))
