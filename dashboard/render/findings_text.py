"""The findings of a fleet as text for a terminal: what is wrong, where, why it matters, what to type."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count, end_cut
from dashboard.render.console import printed
from dashboard.report.findings import words
from dashboard.report.findings.judged_rules import rules_words
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Finding, Severity
from dashboard.views.names import replica_names

MOST_LINES = 12  # of what is suppressed, skipped or down; the rest is counted
LONGEST = 1000  # characters of one sentence
LONGEST_PLACE = 160  # characters of the pools in a head
STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold blue"}
INDENT = 4
LABEL_WIDTH = 5  # "why: "


def to_findings_table(fleet: Fleet, *, width: int, colour: bool) -> str:
    """Write the findings for people, at most `width` columns wide. Foreign text loses its control characters."""
    inspection = fleet.inspection
    names = replica_names(fleet)
    parts: list[RenderableType] = []
    for finding, earlier in words.with_earlier(inspection.findings):
        where, who = words.where(finding), words.who(finding, names)
        advice = [_labelled("", words.as_in(finding, earlier, names))] if earlier else _advice(finding)
        parts += [*_found(finding, where, who), *advice, *_remarks(finding), Text("")]
    parts += _section("Assumptions (not configured)", words.assumptions(inspection))
    parts += _section("In a rollout", words.rollouts(inspection))
    parts += _section("Suppressed", words.suppressed(inspection, names))
    parts += _section("Not judged, for the rule itself raised an error", words.raised(inspection))
    parts += _section("Skipped (not reported)", words.skipped(inspection))
    parts += _section("Mind", inspection.notes)
    parts += _section("Not read", words.unread(fleet))
    parts += [Text(f"{rules_words(inspection)}."), Text(_last(fleet))]
    return printed(*parts, width=width, colour=colour)


def _found(finding: Finding, where: str, who: str) -> list[RenderableType]:
    head = Text.assemble(
        (f"{words.GLYPHS[finding.severity]} {finding.severity}", STYLES[finding.severity]),
        (f"  {finding.rule} {BY_ID[finding.rule].name}", "bold"),
        f"  {end_cut(where, LONGEST_PLACE)}  {end_cut(who, LONGEST)}",
    )
    return [head, _labelled("", finding.sentence)]


def _advice(finding: Finding) -> list[RenderableType]:
    told = [_labelled("why", finding.why)] if finding.why else []
    told.append(_labelled("do", finding.remedy.sentence))
    told += [
        Padding(Text(end_cut(line, LONGEST), "" if line == words.OR else "bold"), (0, 0, 0, INDENT + LABEL_WIDTH + 2))
        for text in words.pasteable(finding.remedy)
        for line in text.splitlines()
    ]
    return told


def _remarks(finding: Finding) -> list[RenderableType]:
    return [_labelled("", remark) for remark in words.remarks(finding)]


def _labelled(label: str, text: str) -> RenderableType:
    begin = f"{label}:".ljust(LABEL_WIDTH) if label else ""
    return Padding(Text.assemble((begin, "dim"), end_cut(text, LONGEST)), (0, 0, 0, INDENT))


def _section(title: str, lines: Sequence[str]) -> list[RenderableType]:
    if not lines:
        return []
    hidden = len(lines) - MOST_LINES
    told = [*lines[:MOST_LINES], *([f"and {hidden:,} more"] if hidden > 0 else [])]
    return [Text(f"{title}:", "bold"), *(Padding(Text(end_cut(each, LONGEST)), (0, 0, 0, INDENT)) for each in told)]


def _last(fleet: Fleet) -> str:
    inspection = fleet.inspection
    total = count(len(inspection.findings), "finding")
    hidden = f"; {len(inspection.suppressed):,} suppressed" if inspection.suppressed else ""
    expired = sum(each.expired is not None for each in inspection.findings)
    again = f"; {expired:,} whose suppression expired" if expired else ""
    return f"{total}: {words.counted(inspection.findings)}{hidden}{again}; {words.answered(fleet)}"
