"""What was agreed in a review: every note in one list, each with its owner and what it speaks of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.report.blocks import Entries, Entry, Part, Piece, Style, Tone, plain
from dashboard.report.findings.listed import grouped
from dashboard.report.views.finding_entries import bundled, finding_anchor, head_of, note_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dashboard.models import Note
    from dashboard.report.findings.listed import Known, Listed

AGREED = "agreed"
TITLE = "What was agreed"


def agreed_part(known: Known, agenda: Sequence[Part], suppressed: str, notes: Mapping[str, Note]) -> tuple[Part, ...]:
    """List the notes on findings, the worst first, then those on the parts of the agenda; empty without notes.

    `suppressed` is the anchor of the part that lists the suppressed findings.
    """
    told = dict(_findings(known, suppressed, notes))
    told |= {each.anchor: (Tone.PLAIN, (Piece(each.title, Style.STRONG, each.anchor),), "") for each in agenda}
    gone = [each for each in notes if each not in told]
    told |= {each: (Tone.PLAIN, plain(f"A finding that is not made any more: {each}"), "") for each in gone}
    items = tuple(
        Entry(tone, head, side, notes=note_lines(notes[about]))
        for about, (tone, head, side) in told.items()
        if about in notes
    )
    return (Part(AGREED, TITLE, (Entries(items),)),) if items else ()


def _findings(
    known: Known, suppressed: str, notes: Mapping[str, Note]
) -> Iterator[tuple[str, tuple[Tone, tuple[Piece, ...], str]]]:
    """Yield each noted finding by its id: its tone, its head that leads to where it is told whole, its rule."""
    for listed, anchor in (*_places(known), *((each, suppressed) for each in known.suppressed)):
        finding = listed.finding
        if finding.id in notes:
            yield finding.id, (Tone(finding.severity), head_of([finding], anchor), finding.rule)


def _places(known: Known) -> Iterable[tuple[Listed, str]]:
    """Pair each finding with the anchor of the entry that tells it, which may tell many."""
    for bundle in bundled(grouped(known.active)):
        for group in bundle:
            yield from ((each, finding_anchor(bundle[0][0].key)) for each in group)
