"""What `check` prints: findings by severity with cause and fix, then what limits them."""

from collections.abc import Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Piece, Style, Text, plain
from dashboard.rules.findings import Finding, OutcomeKind, Severity
from dashboard.views import finding_text
from dashboard.views.blocks import Entries, Entry, Paragraph, Section, Tone, View
from dashboard.views.context import context_of
from dashboard.views.finding_list import EITHER, has_alternatives
from dashboard.views.finding_text import with_code
from dashboard.views.names import replica_names
from dashboard.views.summary import SEVERITY_TERMS, findings_lead, findings_title, rule_coverage

SKIPPED = "{}, as not enough replicas report their settings. `--format json` lists each with the reason."
MOST_LINES = 50  # of one section below the findings; the rest is counted
PAGES = "`python -m dashboard rules ID` prints the page of a rule, such as `python -m dashboard rules RT-01`."


def check_view(fleet: Fleet, left_out: str = "") -> View:
    """Return all findings of a fleet, and what was not evaluated or not counted; `left_out` names what is not new."""
    inspection, names = fleet.inspection, replica_names(fleet)
    entries = [
        (
            finding.severity,
            _entry(finding, names, finding_text.same_as(finding, earlier, names) if earlier else None),
        )
        for finding, earlier in finding_text.with_earlier(inspection.findings)
    ]
    sections = [
        Section(f"severity-{severity}", count(len(own), *SEVERITY_TERMS[severity]), (Entries(own),))
        for severity in Severity
        if (own := tuple(entry for each, entry in entries if each is severity))
    ]
    lists = (
        ("assumptions", "Assumptions (not configured)", finding_text.assumptions(inspection)),
        ("rollouts", "Rollouts", finding_text.rollouts(inspection)),
        ("suppressed", "Suppressed", finding_text.suppressed(inspection, names)),
        ("errors", "Rule errors", finding_text.reasons_of(inspection, OutcomeKind.ERROR)),
        ("warnings", "Warnings", inspection.notes),
        ("unreachable", "Unreachable", finding_text.unreachable(fleet)),
    )
    sections += [_list(anchor, heading, lines) for anchor, heading, lines in lists if lines]
    if skipped := rule_coverage(inspection).skipped:
        sections.append(Section("skipped", "Skipped", (Paragraph(with_code(SKIPPED.format(count(skipped, "rule")))),)))
    if inspection.findings:
        sections.append(Section("rules", "Rules", (Paragraph(with_code(PAGES)),)))
    return View(
        title="vLLM fleet",
        headline=f"{fleet.name}: {findings_title(inspection, are_new=bool(left_out))}",
        lead=f"{findings_lead(fleet)}. {left_out}".rstrip(),
        context=context_of(fleet),
        parts=tuple(sections),
    )


def _entry(finding: Finding, names: Mapping[str, str], same_as: str | None) -> Entry:
    advice = [_labelled("Why it matters", finding.why)] if finding.why else []
    advice.append(_labelled("What to do", finding.remedy.sentence))
    snippets = () if same_as else tuple(each.text for each in finding.remedy.snippets)
    return Entry(
        tone=Tone(finding.severity),
        head=(Piece(finding_text.rule_title(finding.rule), Style.STRONG), Piece(f" in {finding_text.where(finding)}")),
        side=finding_text.replicas_text(finding, names),
        lines=(
            plain(finding.sentence),
            *([plain(same_as)] if same_as else advice),
            *map(plain, finding_text.remarks(finding)),
            *([plain(EITHER)] if snippets and has_alternatives(finding.remedy) else []),
        ),
        snippets=snippets,
    )


def _labelled(label: str, text: str) -> Text:
    return (Piece(f"{label}: ", Style.STRONG), *with_code(text))


def _list(anchor: str, heading: str, lines: Sequence[str]) -> Section:
    hidden = len(lines) - MOST_LINES
    shown = [*lines[:MOST_LINES], *([f"and {hidden:,} more"] if hidden > 0 else [])]
    return Section(anchor, heading, (Entries(tuple(Entry(Tone.PLAIN, plain(each)) for each in shown)),))
