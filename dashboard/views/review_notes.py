"""The notes of a review in one list, and what is new since the last review."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.models import Changes
from dashboard.fleet import Note
from dashboard.fleet.formatting import iso
from dashboard.fleet.history import NO_SIGHTINGS, Sighting
from dashboard.fleet.pieces import Piece, Style, page, plain, section, to_plain
from dashboard.rules.findings import Finding
from dashboard.store.reviews import NoLastReview
from dashboard.views import pages
from dashboard.views.blocks import (
    Block,
    Cell,
    Chart,
    Column,
    DifferenceTable,
    Entries,
    Entry,
    Paragraph,
    Section,
    Table,
    Tone,
)
from dashboard.views.changes import changes_report
from dashboard.views.changes_text import RANGE, EventSummary
from dashboard.views.context import context_of
from dashboard.views.finding_list import (
    FindingList,
    ListedFinding,
    finding_anchor,
    fix_groups,
    head_of,
    replica_lines,
    side_of,
)
from dashboard.views.finding_text import COLUMNS, finding_fields, note_lines, rule_title, where_of
from dashboard.views.pages import CHANGES, FROM, TO

AGREED = "agreed"
AGREED_TITLE = "Notes"
_COLUMNS = (Column("owner"), Column("note"), Column("at"), Column("about"), *COLUMNS)
_NO_FINDING = (Cell(""),) * len(COLUMNS)

EntryFinding = tuple[Entry, Finding | None]  # an entry without notes, and the finding that it is about
NEW = "new"
NEW_TITLE = "New since the last review"
NO_LONGER_FOUND = "Noted at the last review, no longer found"
SINCE = ("findings", "settings", "replicas", "capacity")  # sections whose titles the review has, too
ON_CHANGES = ("warnings", "compared", "replicas", "capacity")  # sections that a page leaves to the page Changes
CUT = ("setting-changes", "rank-changes")  # appendices of lists that are cut


def agreed_part(
    known: FindingList, agenda: Sequence[Section], suppressed: str, notes: Mapping[str, Note]
) -> tuple[Section, ...]:
    """Return the notes on findings, the worst first, then those on sections of the agenda; empty without notes.

    `suppressed` is the anchor of the section of suppressed findings.
    """
    about: dict[str, EntryFinding] = dict(_findings(known, suppressed, notes))
    for each in agenda:
        about[each.anchor] = (Entry(Tone.PLAIN, (Piece(each.title, Style.STRONG, section(each.anchor)),)), None)
    for key in notes:
        about.setdefault(key, (Entry(Tone.PLAIN, plain(f"Finding no longer found: {key}")), None))
    found = [(*about[key], notes[key]) for key in about if key in notes]
    items = tuple(
        Entry(entry.tone, entry.head, entry.side, entry.lines, notes=note_lines(note)) for entry, _, note in found
    )
    rows = [(to_plain(entry.head), finding, note) for entry, finding, note in found]
    data = partial(noted_data, rows, known.names, known.sightings)
    return (Section(AGREED, AGREED_TITLE, (Entries(items, data),)),) if items else ()


def noted_data(
    rows: Iterable[tuple[str, Finding | None, Note]],
    names: Mapping[str, str],
    sightings: Mapping[str, Sighting] = NO_SIGHTINGS.findings,
    *,
    name: str = AGREED,
    caption: str = AGREED_TITLE,
) -> Table:
    """Return notes for programs, a row each: what it is about, the finding where it is one, and the note."""
    fields, cells = finding_fields(names, sightings), []
    for about, finding, note in rows:
        own = (note.owner, note.text, iso(note.at) if note.at else "", about)
        of_finding = tuple(field.cell(finding) for field in fields) if finding else _NO_FINDING
        cells.append((*(Cell("", value=each) for each in own), *of_finding))
    return Table(name, caption, _COLUMNS, tuple(cells))


def _findings(known: FindingList, suppressed: str, notes: Mapping[str, Note]) -> Iterator[tuple[str, EntryFinding]]:
    """Yield each finding with a note by its id; its head leads to the entry that has all about it."""
    for listed, anchor in (*_places(known), *((each, suppressed) for each in known.suppressed)):
        finding = listed.finding
        if finding.id in notes:
            lines = ((Piece(rule_title(finding.rule), Style.MUTED),), *replica_lines([finding], known.names))
            side = side_of([finding], known.names)
            yield finding.id, (Entry(Tone(finding.severity), head_of([finding], section(anchor)), side, lines), finding)


def _places(known: FindingList) -> Iterator[tuple[ListedFinding, str]]:
    """Yield each finding with the anchor of its entry, which may be about several."""
    for group in fix_groups(known.active):
        yield from ((each, finding_anchor(group[0].key)) for each in group)


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
        return Section(NEW, NEW_TITLE, (Paragraph(plain(before)), *notes)), ()
    changes = changes_between(before, fleet)
    view = changes_report(changes, context_of(before), context_of(fleet), between)
    since = f"Data of the last review: {iso(before.polled_at)}. " if before.polled_at else ""
    if before.past and before.polled_at:
        since = f"Compared with {iso(before.past.at)}, last poll {iso(before.polled_at)}. "
    head = Paragraph((Piece(since, Style.MUTED), Piece(f"{view.headline}.", Style.STRONG), Piece(f" {view.lead}")))
    shown = [each for each in view.parts if not each.is_appendix and (each.anchor == RANGE or not changes.is_empty)]
    title = f"New since {iso(before.past.at)}" if before.past else NEW_TITLE
    part = Section(
        NEW, title, (head, *notes), (*_settled(changes, before, before_notes), *nested(map(_since, shown), NEW))
    )
    everything = page(CHANGES, **{FROM: pages.side_of(before), TO: pages.side_of(fleet)})
    cut = nested((each for each in view.parts if each.anchor in CUT), NEW)
    return part, tuple(replace(each, is_appendix=True, link=everything) for each in cut)


def nested(sections: Iterable[Section], prefix: str) -> tuple[Section, ...]:
    """Return sections of one view as sections of another: their anchors and file names get a prefix."""
    return tuple(
        replace(
            each,
            anchor=f"{prefix}-{each.anchor}",
            content=tuple(_nested(block, prefix) for block in each.blocks),
            parts=nested(each.parts, prefix),
            is_appendix=False,
        )
        for each in sections
    )


def _nested(block: Block, prefix: str) -> Block:
    if isinstance(block, Entries | Table) and (make := block.for_programs):

        def renamed() -> Table:
            data = make()
            return replace(data, name=f"{prefix}-{data.name}")

        block = replace(block, for_programs=renamed)
    if isinstance(block, Table | DifferenceTable | Chart):
        return replace(block, name=f"{prefix}-{block.name}")
    return block


def _since(part: Section) -> Section:
    title = f"{part.title} since then" if part.anchor in SINCE else part.title
    return replace(part, title=title, is_exported_only=part.anchor in ON_CHANGES)


def _settled(changes: Changes, before: Fleet, before_notes: Mapping[str, Note]) -> tuple[Section, ...]:
    """Return the notes of the last review on findings that are no longer found."""
    gone = [each.finding for each in changes.findings.no_longer_found if each.finding.id in before_notes]
    items = tuple(_settled_entry(each, before_notes[each.id]) for each in gone)
    rows = [(f"{where_of(each)} {each.sentence}", each, before_notes[each.id]) for each in gone]
    names, sightings = before.names, before.sightings.findings
    data = partial(noted_data, rows, names, sightings, name="settled", caption=NO_LONGER_FOUND)
    return (Section("settled", NO_LONGER_FOUND, (Entries(items, data),)),) if items else ()


def _settled_entry(finding: Finding, note: Note) -> Entry:
    head = (Piece(where_of(finding), Style.STRONG), Piece(" "), *finding.text)
    return Entry(Tone.PLAIN, head, notes=note_lines(None, note))
