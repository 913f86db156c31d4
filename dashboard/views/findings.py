"""What the page Findings says, as a report: all findings that the filters leave, and what was not judged."""

from collections.abc import Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count, first_of
from dashboard.fleet.pieces import plain
from dashboard.report.findings.head import NOUNS, is_clean, lead, no_findings_text, title
from dashboard.report.findings.listed import Choice, Known, Listed, grouped, kept, known_findings
from dashboard.report.findings.rule_coverage import rule_coverage
from dashboard.rules.findings import Severity
from dashboard.views.blocks import Cell, Column, Paragraph, Section, Table, Tone, View
from dashboard.views.context import context_of
from dashboard.views.excluded import ignored_blocks, raised_blocks, skipped_table, suppressed_blocks
from dashboard.views.finding_data import FINDINGS, findings_data
from dashboard.views.finding_entries import FindingContext, full_entries, where_of
from dashboard.views.glossary import COHORT, SEVERITY, glossary
from dashboard.views.names import MOST_NAMED, brief, names_of, replica_names

EVERYTHING = Choice()
MOST_ROWS = 2_000  # of the table of all findings
MOST_ENTRIES = 200  # of one severity; more are counted


def findings_report(fleet: Fleet, choice: Choice = EVERYTHING, *, name: str = "") -> View:
    """Report the findings that a choice leaves. `name` is the snapshot's."""
    known = known_findings(fleet)
    told = kept(known.active, choice)
    hidden = f" {count(len(told), 'finding')} of {len(known.active):,} shown." if len(told) < len(known.active) else ""
    table = skipped_table(fleet.inspection.outcomes)
    parts = [
        *([Section("raised", "Rules that failed to run", raised)] if (raised := raised_blocks(fleet)) else []),
        *(severity_parts(told, FindingContext(known.names, fleet.inspection)) or [_none(fleet, known)]),
        Section("suppressed", "Suppressed and ignored", (*suppressed_blocks(fleet), *ignored_blocks(fleet))),
        glossary((SEVERITY, COHORT)),
        *([Section("not-judged", "Not judged", (table,), is_appendix=True)] if table else []),
    ]
    return View(
        title="Findings",
        headline=title(fleet.inspection),
        lead=f"{lead(fleet)}.{hidden}",
        context=context_of(fleet, name=name, filters=_filters(choice)),
        parts=tuple(parts),
    )


def severity_parts(listed: Sequence[Listed], told: FindingContext) -> list[Section]:
    """Return a part for each severity of which there are findings; what is said of several pools is one entry."""
    parts = []
    for severity in Severity:
        own = [each for each in listed if each.finding.severity is severity]
        groups = grouped(own)
        if not groups:
            continue
        left = groups[MOST_ENTRIES:]
        entries = full_entries(groups[:MOST_ENTRIES], told, own)
        more = [Paragraph(plain(f"And {count(sum(map(len, left)), 'more finding')}."))] if left else []
        parts.append(Section(f"severity-{severity}", _title(len(own), len(groups), severity), (entries, *more)))
    return parts


def findings_table(fleet: Fleet) -> Table:
    """List all findings that stand, a row each, the worst first."""
    names, found = replica_names(fleet), fleet.inspection.findings
    columns = (Column("Finding"), Column("Rule"), Column("Where"), Column("Who"))
    rows = [
        (
            Cell(each.sentence, Tone(each.severity)),
            Cell(each.rule),
            Cell(where_of(each)),
            Cell(first_of(map(brief, names_of(each.replicas, names)), MOST_NAMED)),
        )
        for each in found[:MOST_ROWS]
    ]
    left = len(found) - MOST_ROWS
    note = f"{left:,} more are not listed." if left > 0 else ""
    return Table(FINDINGS, "All findings", columns, tuple(rows), note, findings_data(found, names))


def _title(findings: int, entries: int, severity: Severity) -> str:
    """Write `48 warnings, 6 different ones`: of many pools the same thing is told once."""
    words = count(findings, *NOUNS[severity])
    return f"{words}, {entries:,} different" if entries < findings else words


def _none(fleet: Fleet, known: Known) -> Section:
    if known.active:
        said, tone = f"The filters hide all {count(len(known.active), 'finding')}.", Tone.PLAIN
    elif is_clean(fleet, told := rule_coverage(fleet.inspection)):
        said, tone = f"No rule is broken. {no_findings_text(fleet, told)}", Tone.GOOD
    else:
        said, tone = "No rule on settings could be judged; the reasons stand below.", Tone.UNKNOWN
    return Section("findings", "Findings", (Paragraph(plain(said), tone),))


def _filters(choice: Choice) -> list[tuple[str, str]]:
    """Return what was chosen, by the names that stand in the address of the page."""
    return [(name, str(value)) for name, value in choice._asdict().items() if value]
