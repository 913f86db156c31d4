"""The whole review as one report, in the order of the meeting: what was seen, why it matters, who takes it on."""

from collections.abc import Mapping

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Note
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Piece, Style, plain, section
from dashboard.report.findings import headline
from dashboard.report.findings.first import first_findings
from dashboard.report.findings.headline import FleetSummary
from dashboard.report.findings.listed import Known, grouped, known_findings
from dashboard.report.findings.rule_coverage import rules_words
from dashboard.report.findings.words import answered, assumptions, rollouts
from dashboard.report.pools.sharing import sharing_verdicts
from dashboard.report.replicas import table as replica_table
from dashboard.views.blocks import Block, Entries, Entry, Figures, Paragraph, Section, Tone, View
from dashboard.views.context import context_of
from dashboard.views.finding_entries import FindingContext, brief_entries, bundled, note_lines
from dashboard.views.findings import findings_table, severity_parts
from dashboard.views.glossary import ALL_TERMS, glossary
from dashboard.views.left_out import (
    ignored_blocks,
    raised_blocks,
    skipped_table,
    suppressed_blocks,
    unread_entries,
)
from dashboard.views.overview import calm_paragraph, more_words
from dashboard.views.overview_figures import overview_figures
from dashboard.views.replica_rows import replicas_table
from dashboard.views.review_agreed import agreed_part, noted_data
from dashboard.views.review_capacity import CAPACITY, capacity_parts
from dashboard.views.review_differences import (
    DIFFERENCES,
    differences_part,
    differing_pools,
    full_differences,
)
from dashboard.views.review_new import NEW, Alone, new_parts

FINE, FINDINGS, NOT_READ, SUPPRESSED = "fine", "findings", "not-read", "suppressed"
NOT_JUDGED = "not-judged"
AGENDA = (FINE, NEW, FINDINGS, DIFFERENCES, CAPACITY, NOT_READ, SUPPRESSED)
MOST_LINES = 3  # pools in a rollout, and pools of which a router is assumed, that have a line each
_NOTED = (Piece("Noted on this part", Style.MUTED),)
_NO_NOTES: Mapping[str, Note] = {}


def review_report(
    fleet: Fleet,
    *,
    before: Fleet | None = None,
    notes: Mapping[str, Note] = _NO_NOTES,
    before_notes: Mapping[str, Note] = _NO_NOTES,
    name: str = "",
    alone: Alone = Alone.FIRST,
) -> View:
    """Report a fleet for a meeting; `before` is the fleet of the last review, `name` what the snapshot is called.

    `alone` says why there is no `before`, where it is None.

    Notes are by what they belong to: a finding's id, or the anchor of a part, which are those of `AGENDA`. All of them
    stand at the top as well, in the part that says what was agreed.
    """
    now, sentences = headline.standing(fleet), sharing_verdicts(fleet)

    def said(anchor: str) -> tuple[Block, ...]:
        lines = note_lines(notes.get(anchor), before_notes.get(anchor))
        return (Entries((Entry(Tone.PLAIN, _NOTED, notes=lines),), noted_data((), {})),) if lines else ()

    known = known_findings(fleet)
    differing = differing_pools(fleet, sentences)
    capacity, all_ranks = capacity_parts(fleet, said(CAPACITY))
    new, all_changes = new_parts(fleet, alone if before is None else before, before_notes, said(NEW))
    agenda = (
        _fine(fleet, now, known, said(FINE)),
        new,
        _findings(fleet, known, FindingContext(known.names, fleet.inspection, notes, before_notes), said(FINDINGS)),
        differences_part(fleet, differing, said(DIFFERENCES)),
        capacity,
        _not_read(now, said(NOT_READ)),
        _suppressed(fleet, said(SUPPRESSED)),
    )
    return View(
        title=f"Review of {fleet.name}",
        headline=headline.title(now),
        lead=f"{fleet_words(fleet, now)} {more_words(fleet, now, sentences)}",
        context=context_of(fleet, name=name),
        parts=(
            *agreed_part(known, agenda, SUPPRESSED, notes),
            *agenda,
            glossary(ALL_TERMS),
            *_all_findings(fleet, known),
            *_all_replicas(fleet),
            *all_ranks,
            *full_differences(fleet, differing),
            *all_changes,
            *_not_judged(fleet),
        ),
    )


def fleet_words(fleet: Fleet, now: FleetSummary) -> str:
    """Introduce the fleet in a sentence to somebody who has not seen it."""
    if not now.replicas:
        return f"The fleet {fleet.name} has no replica."
    split = len(now.split)
    parts = [f"{split:,} of them split into cohorts with different settings" if split else ""]
    parts += [f"{now.read - split:,} uniform"] if now.read > split else []
    parts += [f"{now.pools - now.read:,} not read"] if now.pools > now.read else []
    pools = f" in {count(now.pools, 'pool')} ({', '.join(filter(None, parts))})" if now.pools else ""
    return f"The fleet {fleet.name} has {count(now.replicas, 'vLLM replica')}{pools}; {answered(fleet)}."


def _fine(fleet: Fleet, now: FleetSummary, known: Known, said: tuple[Block, ...]) -> Section:
    figures = overview_figures(fleet, now)
    shown = (
        figures.replicas._replace(target=section(NOT_READ if now.unread else "all-replicas")),
        figures.pools._replace(target=section(DIFFERENCES)),
        figures.critical._replace(target=section("severity-critical")),
        figures.warnings._replace(target=section("severity-warning")),
        figures.unknown._replace(target=section(NOT_READ)),
        figures.capacity._replace(target=section(CAPACITY)),
    )
    first = first_findings(fleet, known)
    blocks: list[Block] = [Figures(shown), *said]
    blocks += _rollouts(fleet)
    if first.groups:
        blocks.append(Paragraph((Piece("What is wrong first", Style.STRONG),)))
        blocks.append(brief_entries(first.groups, first.names, is_linked=True))
    else:
        blocks.append(calm_paragraph(fleet, now))
    return Section(FINE, "Is it fine?", tuple(blocks))


def _findings(fleet: Fleet, known: Known, told: FindingContext, said: tuple[Block, ...]) -> Section:
    parts = severity_parts(known.active, told)
    basis = Paragraph((Piece(f"{rules_words(fleet.inspection)}.", Style.MUTED),))
    none = () if parts else (Paragraph(plain("No finding in what was read.")),)
    lines = [f"Assumed of {each}" for each in assumptions(fleet.inspection)]
    more = [f"And of {count(len(lines) - MOST_LINES, 'more pool')}."] if len(lines) > MOST_LINES else []
    assumed = tuple(Paragraph((Piece(line, Style.MUTED),)) for line in [*lines[:MOST_LINES], *more])
    return Section(FINDINGS, "Findings", (*none, basis, *raised_blocks(fleet), *assumed, *said), tuple(parts))


def _rollouts(fleet: Fleet) -> list[Block]:
    lines = rollouts(fleet.inspection)
    more = [f"{count(len(lines) - MOST_LINES, 'more pool is', 'more pools are')} in a rollout."]
    shown = [*lines[:MOST_LINES], *(more if len(lines) > MOST_LINES else [])]
    return [Paragraph(plain(line), Tone.INFO) for line in shown]


def _all_findings(fleet: Fleet, known: Known) -> tuple[Section, ...]:
    """List the findings one by one where the review tells several in one entry."""
    groups = grouped(known.active)
    if len(bundled(groups)) == len(known.active):
        return ()
    return (Section("all-findings", "All findings", (findings_table(fleet),), is_appendix=True),)


def _not_read(now: FleetSummary, said: tuple[Block, ...]) -> Section:
    blocks: list[Block] = [*said, *unread_entries(now.unread)]
    if not now.unread:
        whole = "Every replica was read whole." if now.replicas else "There is no replica."
        blocks.append(Paragraph(plain(whole)))
    if number := now.found.unknown:
        rules = f"{count(number, 'rule')} could not be judged everywhere, for something was not told."
        pieces = (Piece(rules), Piece(" The appendix says what was missing.", target=section(NOT_JUDGED)))
        blocks.append(Paragraph(pieces))
    return Section(NOT_READ, "What could not be read", tuple(blocks))


def _suppressed(fleet: Fleet, said: tuple[Block, ...]) -> Section:
    blocks = (*said, *suppressed_blocks(fleet), *ignored_blocks(fleet))
    return Section(SUPPRESSED, "What is suppressed", blocks)


def _all_replicas(fleet: Fleet) -> tuple[Section, ...]:
    if not fleet.replicas:
        return ()
    table = replicas_table(replica_table.rows_of(fleet), is_short=True)
    return (Section("all-replicas", "All replicas", (table,), is_appendix=True),)


def _not_judged(fleet: Fleet) -> tuple[Section, ...]:
    table = skipped_table(fleet.inspection.outcomes)
    return (Section(NOT_JUDGED, "Rules that were not judged", (table,), is_appendix=True),) if table else ()
