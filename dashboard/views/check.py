"""What `check` prints: findings by severity with cause and fix, then what limits them."""

from collections.abc import Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.report.findings import words
from dashboard.report.findings.head import NOUNS, lead, title
from dashboard.report.findings.sentence_lines import with_code
from dashboard.rules.findings import Severity
from dashboard.views.blocks import Entries, Entry, Line, Paragraph, Section, Tone, View
from dashboard.views.context import context_of
from dashboard.views.names import replica_names

MOST_LINES = 50  # of one section below the findings; the rest is counted
EITHER = "One of these is enough:"
PAGES = "`python -m dashboard rules ID` prints the page of a rule, such as `python -m dashboard rules RT-01`."


def check_view(fleet: Fleet) -> View:
    """Return all findings of a fleet, and what was not evaluated or not counted."""
    inspection, names = fleet.inspection, replica_names(fleet)
    entries = [
        (
            finding.severity,
            _entry(words.describe(finding, names), words.as_in(finding, earlier, names) if earlier else None),
        )
        for finding, earlier in words.with_earlier(inspection.findings)
    ]
    sections = [
        Section(f"severity-{severity}", count(len(own), *NOUNS[severity]), (Entries(own),))
        for severity in Severity
        if (own := tuple(entry for each, entry in entries if each is severity))
    ]
    lists = (
        ("assumptions", "Assumptions (not configured)", words.assumptions(inspection)),
        ("rollouts", "Rollouts", words.rollouts(inspection)),
        ("suppressed", "Suppressed", words.suppressed(inspection, names)),
        ("errors", "Rule errors", words.raised(inspection)),
        ("skipped", "Skipped (not reported)", words.skipped(inspection)),
        ("warnings", "Warnings", inspection.notes),
        ("unreachable", "Unreachable", words.unread(fleet)),
    )
    sections += [_list(anchor, heading, lines) for anchor, heading, lines in lists if lines]
    if inspection.findings:
        sections.append(Section("rules", "Rules", (Paragraph(with_code(PAGES)),)))
    return View(
        title="vLLM fleet",
        headline=f"{fleet.name}: {title(inspection)}",
        lead=f"{lead(fleet)}.",
        context=context_of(fleet),
        parts=tuple(sections),
    )


def _entry(described: words.Described, same_as: str | None) -> Entry:
    advice: list[Line] = [_labelled("What to do", described.action), *([plain(EITHER)] if described.is_either else [])]
    if described.why:
        advice.insert(0, _labelled("Why it matters", described.why))
    return Entry(
        tone=Tone(described.finding.severity),
        head=(Piece(described.rule, Style.STRONG), Piece(f" in {described.where}")),
        side=described.who,
        lines=(plain(described.sentence), *([plain(same_as)] if same_as else advice), *map(plain, described.remarks)),
        snippets=() if same_as else tuple(each.text for each in described.finding.remedy.snippets),
    )


def _labelled(label: str, text: str) -> Line:
    return (Piece(f"{label}: ", Style.STRONG), *with_code(text))


def _list(anchor: str, heading: str, lines: Sequence[str]) -> Section:
    hidden = len(lines) - MOST_LINES
    shown = [*lines[:MOST_LINES], *([f"and {hidden:,} more"] if hidden > 0 else [])]
    return Section(anchor, heading, (Entries(tuple(Entry(Tone.PLAIN, plain(each)) for each in shown)),))
