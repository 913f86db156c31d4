"""What was agreed in a review: every note in one list, each with its owner and what it speaks of."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dashboard.fleet import Note
from dashboard.fleet.formatting import iso
from dashboard.fleet.pieces import Piece, Style, plain, section
from dashboard.report.findings.listed import Known, Listed, grouped
from dashboard.rules.findings import Finding
from dashboard.views.blocks import Cell, Column, Entries, Entry, Line, Section, Table, Tone, data_cell
from dashboard.views.finding_data import COLUMNS, finding_row
from dashboard.views.finding_entries import (
    bundled,
    finding_anchor,
    head_of,
    note_lines,
    rule_words,
    side_of,
    who_lines,
)

AGREED = "agreed"
TITLE = "What was agreed"
_COLUMNS = (Column("owner"), Column("note"), Column("at"), Column("about"), *COLUMNS)
_NO_FINDING = (data_cell(None),) * len(COLUMNS)


class _About(NamedTuple):
    """What a note speaks of: as the head of an entry, and the finding, None for a part or a finding that is gone.

    `side` and `lines` say whom the finding concerns and which rule made it.
    """

    tone: Tone
    head: Line
    side: str = ""
    lines: tuple[Line, ...] = ()
    finding: Finding | None = None


def agreed_part(
    known: Known, agenda: Sequence[Section], suppressed: str, notes: Mapping[str, Note]
) -> tuple[Section, ...]:
    """List the notes on findings, the worst first, then those on the parts of the agenda; empty without notes.

    `suppressed` is the anchor of the part that lists the suppressed findings.
    """
    told = dict(_findings(known, suppressed, notes))
    told |= {
        each.anchor: _About(Tone.PLAIN, (Piece(each.title, Style.STRONG, section(each.anchor)),)) for each in agenda
    }
    gone = [each for each in notes if each not in told]
    told |= {each: _About(Tone.PLAIN, plain(f"A finding that is not made any more: {each}")) for each in gone}
    held = [(about, notes[key]) for key, about in told.items() if key in notes]
    items = tuple(
        Entry(about.tone, about.head, about.side, about.lines, notes=note_lines(note)) for about, note in held
    )
    words = (("".join(piece.text for piece in about.head), about.finding, note) for about, note in held)
    data = noted_data(words, known.names)
    return (Section(AGREED, TITLE, (Entries(items, data),)),) if items else ()


def noted_data(
    told: Iterable[tuple[str, Finding | None, Note]],
    names: Mapping[str, str],
    *,
    name: str = AGREED,
    caption: str = TITLE,
) -> Table:
    """Return notes for programs, a row each: what it is about in words, the finding where it is one, and the note."""
    return Table(name, caption, _COLUMNS, tuple(_row(*each, names) for each in told))


def _row(about: str, finding: Finding | None, note: Note, names: Mapping[str, str]) -> tuple[Cell, ...]:
    own = (note.owner, note.text, iso(note.at) if note.at else "", about)
    return (*map(data_cell, own), *(finding_row(finding, names) if finding else _NO_FINDING))


def _findings(known: Known, suppressed: str, notes: Mapping[str, Note]) -> Iterator[tuple[str, _About]]:
    """Yield each noted finding by its id: its head leads to where it is told whole."""
    for listed, anchor in (*_places(known), *((each, suppressed) for each in known.suppressed)):
        finding = listed.finding
        if finding.id in notes:
            yield finding.id, _finding(finding, anchor, known.names)


def _finding(finding: Finding, anchor: str, names: Mapping[str, str]) -> _About:
    lines = ((Piece(rule_words(finding.rule), Style.MUTED),), *who_lines([finding], names))
    head, side = head_of([finding], anchor), side_of([finding], names)
    return _About(Tone(finding.severity), head, side, lines, finding)


def _places(known: Known) -> Iterable[tuple[Listed, str]]:
    """Pair each finding with the anchor of the entry that tells it, which may tell many."""
    for bundle in bundled(grouped(known.active)):
        for group in bundle:
            yield from ((each, finding_anchor(bundle[0][0].key)) for each in group)
