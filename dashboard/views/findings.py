"""The page Findings: the list, the finding that is open, the outcomes of all rules; and its export."""

from collections.abc import Sequence
from datetime import datetime

from dashboard.analysis.assembly import Fleet
from dashboard.fleet.formatting import count, first_of
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.rules.findings import OutcomeKind, Severity
from dashboard.views.blocks import Block, Cell, Column, Paragraph, Section, Table, Tone, View
from dashboard.views.context import context_of
from dashboard.views.excluded import ignored_blocks, ignored_table, suppressed_blocks
from dashboard.views.finding_data import FINDINGS, findings_data
from dashboard.views.finding_entries import FindingContext, full_entries, row_entries, where_of
from dashboard.views.finding_list import FindingFilter, FindingList, ListedFinding, group_findings, list_findings
from dashboard.views.findings_summary import (
    SEVERITY_TERMS,
    findings_lead,
    findings_title,
    is_clean,
    no_findings_text,
)
from dashboard.views.glossary import COHORT, SEVERITY, glossary
from dashboard.views.names import MOST_NAMED, brief, names_of
from dashboard.views.rule_outcomes import error_blocks, outcome_table
from dashboard.views.since import SINCE, since_cell

EVERYTHING = FindingFilter()
MOST_TABLE_ROWS = 2_000  # of the table of all findings
MOST_ENTRIES = 200  # of one severity in an export
MOST_ROWS = 40  # of the list on the page: filters narrow it
# Lists of rules, findings and settings on the page. The names are also values of the URL.
SUPPRESSED, IGNORED = "Suppressed", "Ignored"
OUTCOMES = {
    "Passed": OutcomeKind.PASSED,
    "Skipped": OutcomeKind.SKIPPED,
    "Not applicable": OutcomeKind.NOT_APPLICABLE,
}
RULE_LISTS = (*OUTCOMES, SUPPRESSED, IGNORED)


def findings_report(fleet: Fleet, chosen: FindingFilter = EVERYTHING, *, name: str = "") -> View:
    """Return the export: all findings that match, with cause and fix. `name` is the snapshot's."""
    known = list_findings(fleet)
    found = list(filter(chosen.matches, known.active))
    hidden = (
        f" {count(len(found), 'finding')} of {len(known.active):,} shown." if len(found) < len(known.active) else ""
    )
    errors, skipped = error_blocks(fleet.inspection), outcome_table(fleet.inspection, OutcomeKind.SKIPPED)
    ignored = ignored_table(fleet)
    excluded = (*suppressed_blocks(fleet, known), *ignored_blocks(fleet), *([ignored] if ignored else []))
    parts = [
        *([Section("raised", "Rule errors", errors)] if errors else []),
        *(severity_parts(found, FindingContext(known.names, fleet.inspection)) or [_none(fleet, known)]),
        Section("suppressed", "Suppressed and ignored", excluded),
        glossary((SEVERITY, COHORT)),
        *([Section("skipped", "Skipped rules", (skipped,), is_appendix=True)] if skipped else []),
    ]
    return View(
        title="Findings",
        headline=findings_title(fleet.inspection),
        lead=f"{findings_lead(fleet)}.{hidden}",
        context=context_of(fleet, name=name, filters=chosen.choices),
        parts=tuple(parts),
    )


def list_section(
    known: FindingList,
    found: Sequence[ListedFinding],
    choices: tuple[tuple[str, str], ...],
    opened: str | None,
    now: datetime | None = None,
) -> Section:
    """Return the list on the page. `found` are the findings that match, `choices` what links keep of the URL.

    Ages count from `now`; without it times are shown.
    """
    groups = group_findings(found)
    total = len(known.active)
    shown = f"{len(found):,} of {count(total, 'finding')} shown" if len(found) < total else count(total, "finding")
    together = f" in {count(len(groups), 'entry', 'entries')}" if len(groups) < len(found) else ""
    left = len(groups) - MOST_ROWS
    more = f" {left:,} more entries not shown: use the filters." if left > 0 else ""
    entries = row_entries(groups[:MOST_ROWS], known.names, choices, opened, now)
    return Section("findings", "", (entries, Paragraph((Piece(f"{shown}{together}.{more}", Style.MUTED),))))


def rules_blocks(fleet: Fleet, known: FindingList, chosen: FindingFilter, shown: str) -> tuple[Block, ...]:
    """Return one of RULE_LISTS. Of the filters, pool, family and rule apply to the outcomes of rules."""
    if shown == SUPPRESSED:
        return suppressed_blocks(fleet, known)
    if shown == IGNORED:
        ignored = ignored_table(fleet)
        return (*(ignored_blocks(fleet) or _muted("fleet.yaml ignores no settings.")), *([ignored] if ignored else []))
    table = outcome_table(fleet.inspection, OUTCOMES[shown], chosen)
    return (table,) if table else _muted("No rules.")


def rule_counts(fleet: Fleet, chosen: FindingFilter) -> dict[str, int]:
    """Return the number of rows of each of RULE_LISTS."""
    tables = {name: outcome_table(fleet.inspection, kind, chosen) for name, kind in OUTCOMES.items()}
    return {
        **{name: len(table.rows) if table else 0 for name, table in tables.items()},
        SUPPRESSED: len(fleet.inspection.suppressed),
        IGNORED: sum(len(pool.ignored) for pool in fleet.pools),
    }


def severity_parts(listed: Sequence[ListedFinding], context: FindingContext) -> list[Section]:
    """Return a section for each severity with findings; the same finding of several pools is one entry."""
    parts = []
    for severity in Severity:
        own = [each for each in listed if each.finding.severity is severity]
        groups = group_findings(own)
        if not groups:
            continue
        left = sum(map(len, groups[MOST_ENTRIES:]))
        more = [Paragraph(plain(f"And {count(left, 'more finding')}."))] if left else []
        distinct = f" ({len(groups):,} distinct)" if len(groups) < len(own) else ""
        title = f"{count(len(own), *SEVERITY_TERMS[severity])}{distinct}"
        parts.append(Section(f"severity-{severity}", title, (full_entries(groups[:MOST_ENTRIES], context, own), *more)))
    return parts


def findings_table(known: FindingList) -> Table:
    """Return all active findings, a row each, the worst first."""
    found = [each.finding for each in known.active]
    has_since = any(each.sighting for each in known.active)
    columns = (Column("Finding"), Column("Rule"), Column("Where"), Column("Replicas"), *([SINCE] if has_since else []))
    rows = [
        (
            Cell(each.sentence, Tone(each.severity)),
            Cell(each.rule),
            Cell(where_of(each)),
            Cell(first_of(map(brief, names_of(each.replicas, known.names)), MOST_NAMED)),
            *([since_cell(listed.sighting)] if has_since else []),
        )
        for listed in known.active[:MOST_TABLE_ROWS]
        for each in [listed.finding]
    ]
    left = len(found) - MOST_TABLE_ROWS
    note = f"{left:,} more not listed." if left > 0 else ""
    data = findings_data(found, known.names, known.sightings)
    return Table(FINDINGS, "All findings", columns, tuple(rows), note, data)


def _none(fleet: Fleet, known: FindingList) -> Section:
    if known.active:
        text, tone = f"The filters hide all {count(len(known.active), 'finding')}.", Tone.PLAIN
    elif is_clean(fleet):
        text, tone = f"No findings. {no_findings_text(fleet)}", Tone.GOOD
    else:
        text, tone = "No rule on settings was evaluated; see the reasons below.", Tone.UNKNOWN
    return Section("findings", "Findings", (Paragraph(plain(text), tone),))


def _muted(text: str) -> tuple[Paragraph, ...]:
    return (Paragraph((Piece(text, Style.MUTED),)),)
