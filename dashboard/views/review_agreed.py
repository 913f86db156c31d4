"""The notes of a review in one list: owner, text, and what each is about."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dashboard.fleet import Note
from dashboard.fleet.formatting import iso
from dashboard.fleet.pieces import Piece, Style, plain, section, to_plain
from dashboard.fleet.sightings import NO_SIGHTINGS, Sighting
from dashboard.rules.findings import Finding
from dashboard.views.blocks import Cell, Column, Entries, Entry, Section, Table, Tone, data_cell
from dashboard.views.finding_list import (
    FindingList,
    ListedFinding,
    bundled,
    finding_anchor,
    group_findings,
    head_of,
    replica_lines,
    side_of,
)
from dashboard.views.finding_text import COLUMNS, finding_row, note_lines, rule_title

AGREED = "agreed"
TITLE = "Notes"
_COLUMNS = (Column("owner"), Column("note"), Column("at"), Column("about"), *COLUMNS)
_NO_FINDING = (data_cell(None),) * len(COLUMNS)

EntryFinding = tuple[Entry, Finding | None]  # an entry without notes, and the finding that it is about


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
    rows = ((to_plain(entry.head), finding, note) for entry, finding, note in found)
    data = noted_data(rows, known.names, known.sightings)
    return (Section(AGREED, TITLE, (Entries(items, data),)),) if items else ()


def noted_data(
    rows: Iterable[tuple[str, Finding | None, Note]],
    names: Mapping[str, str],
    sightings: Mapping[str, Sighting] = NO_SIGHTINGS.findings,
    *,
    name: str = AGREED,
    caption: str = TITLE,
) -> Table:
    """Return notes for programs, a row each: what it is about, the finding where it is one, and the note."""
    return Table(name, caption, _COLUMNS, tuple(_row(*each, names, sightings) for each in rows))


def _row(
    about: str, finding: Finding | None, note: Note, names: Mapping[str, str], sightings: Mapping[str, Sighting]
) -> tuple[Cell, ...]:
    own = (note.owner, note.text, iso(note.at) if note.at else "", about)
    return (*map(data_cell, own), *(finding_row(finding, names, sightings) if finding else _NO_FINDING))


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
    for bundle in bundled(group_findings(known.active)):
        for group in bundle:
            yield from ((each, finding_anchor(bundle[0][0].key)) for each in group)
