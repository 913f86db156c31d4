"""The page Review: the whole fleet in the order of a meeting, with notes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.plan import plan_of
from dashboard.fleet import Note, ReplicaState
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Kind, Link, Piece, Style, page, plain
from dashboard.rules.findings import OutcomeKind, Severity
from dashboard.store.reviews import NoLastReview
from dashboard.views import pages
from dashboard.views.blocks import Block, Entries, Entry, Figures, Paragraph, Section, Tone, View
from dashboard.views.cause import PLAN
from dashboard.views.changes_text import EventSummary
from dashboard.views.context import context_of
from dashboard.views.excluded import ignored_blocks, suppressed_blocks, unread_entries
from dashboard.views.filters import write_filter
from dashboard.views.finding_list import (
    WORST_FIRST,
    FindingList,
    ListedFinding,
    finding_anchor,
    fix_groups,
    list_findings,
    sort_findings,
)
from dashboard.views.finding_text import answered, assumptions, note_lines, rollouts
from dashboard.views.findings import findings_table, severity_parts
from dashboard.views.help import ALL_TERMS, glossary
from dashboard.views.overview import summary_figures
from dashboard.views.plan import changes_section, plan_section
from dashboard.views.replicas import replica_rows, replicas_table
from dashboard.views.review_notes import NEW, agreed_part, new_parts, noted_data
from dashboard.views.review_pools import (
    CAPACITY,
    DIFFERENCES,
    TRAFFIC,
    capacity_parts,
    differences_parts,
    has_recent,
    traffic_part,
)
from dashboard.views.rules import error_blocks, outcome_table
from dashboard.views.since import ANYTHING, NEWEST_FIRST, Recency
from dashboard.views.summary import count_read, fleet_lead, incomplete_replicas, is_split, rules_text, sharing_title

STATUS, FINDINGS, NOT_READ, SUPPRESSED = "fine", "findings", "not-read", "suppressed"
SKIPPED = "skipped"
AGENDA = {
    STATUS: "Status",
    PLAN: "Fix plan",
    NEW: "New",
    FINDINGS: "Findings",
    DIFFERENCES: "Differences",
    CAPACITY: "Capacity",
    TRAFFIC: "Traffic",
    NOT_READ: "Incomplete data",
    SUPPRESSED: "Suppressed",
}  # anchor -> title in the agenda
FOLD = "Why, and what to do"  # of entries on findings that are not critical
MOST_LINES = 3  # rollouts, and pools with an assumed router, that have a line each
_NO_NOTES: Mapping[str, Note] = {}

PartsOf = Callable[[Sequence[ListedFinding]], list[Section]]


def review_report(
    fleet: Fleet,
    *,
    before: Fleet | None = None,
    notes: Mapping[str, Note] = _NO_NOTES,
    before_notes: Mapping[str, Note] = _NO_NOTES,
    name: str = "",
    missing: NoLastReview = NoLastReview.FIRST,
    recency: Recency = ANYTHING,
    between: EventSummary | None = None,
) -> View:
    """Return a fleet for a meeting. `before` is the fleet of the last review, or `missing` why there is none.

    `between` is what happened since that review.

    `recency` applies to the sections of findings and differences.
    Notes are by what they are about: a finding's id, or an anchor of `AGENDA`. `name` is the snapshot's.
    """
    known = list_findings(fleet)
    noted = partial(_notes_on, notes, before_notes)
    parts_of = partial(severity_parts, fleet=fleet, notes=notes, before_notes=before_notes)
    differences, all_differences = differences_parts(fleet, noted(DIFFERENCES), recency)
    capacity, all_ranks = capacity_parts(fleet, noted(CAPACITY))
    new, all_changes = new_parts(fleet, missing if before is None else before, before_notes, noted(NEW), between)
    plan = plan_section(fleet, pages.REVIEW)
    agenda = (
        Section(STATUS, "Status", (Figures(summary_figures(fleet)), *noted(STATUS), *_rollouts(fleet))),
        replace(plan, content=(*plan.blocks, *noted(PLAN))),
        new,
        _findings(fleet, known, parts_of, noted(FINDINGS), recency),
        differences,
        capacity,
        traffic_part(fleet, noted(TRAFFIC)),
        _unread(fleet, noted(NOT_READ)),
        Section(
            SUPPRESSED, "Suppressed", (*noted(SUPPRESSED), *suppressed_blocks(fleet, known), *ignored_blocks(fleet))
        ),
    )
    return View(
        title=f"Review of {fleet.name}",
        headline=sharing_title(fleet),
        lead=f"{fleet_text(fleet)} {fleet_lead(fleet)}",
        context=context_of(fleet, name=name, filters=recency.choices),
        parts=(
            *agreed_part(known, agenda, SUPPRESSED, notes),
            *agenda,
            glossary(ALL_TERMS),
            *changes_section(fleet, plan_of(fleet)),
            *_appendices(fleet, known),
            *all_ranks,
            *all_differences,
            *all_changes,
            *_skipped(fleet),
        ),
    )


def _notes_on(notes: Mapping[str, Note], before_notes: Mapping[str, Note], anchor: str) -> tuple[Block, ...]:
    lines = note_lines(notes.get(anchor), before_notes.get(anchor))
    head = (Piece("Notes on this section", Style.MUTED),)
    return (Entries((Entry(Tone.PLAIN, head, notes=lines),), lambda: noted_data((), {})),) if lines else ()


def agenda_counts(fleet: Fleet, recency: Recency = ANYTHING) -> Mapping[str, int]:
    """Return how many items sections of the agenda have, by anchor."""
    sightings = fleet.sightings.findings
    return {
        PLAN: len(plan_of(fleet).causes),
        FINDINGS: sum(recency.keeps(sightings.get(each.fingerprint)) for each in fleet.inspection.findings),
        DIFFERENCES: sum(has_recent(fleet, pool, recency) for pool in fleet.pools),
        NOT_READ: sum(replica.state is not ReplicaState.UP for replica in fleet.replicas),
        SUPPRESSED: len(fleet.inspection.suppressed),
    }


def fleet_text(fleet: Fleet) -> str:
    if not fleet.replicas:
        return f"Fleet {fleet.name} has no replicas."
    split, read, total = sum(map(is_split, fleet.pools)), count_read(fleet), len(fleet.pools)
    counts = ((split, "split"), (read - split, "uniform"), (total - read, "not reported"))
    pools = ", ".join(f"{number:,} {kind}" for number, kind in counts if number)
    where = f" in {count(total, 'pool')} ({pools})" if total else ""
    return f"Fleet {fleet.name}: {count(len(fleet.replicas), 'vLLM replica')}{where}; {answered(fleet)}."


def _findings(
    fleet: Fleet, known: FindingList, parts_of: PartsOf, noted: tuple[Block, ...], recency: Recency
) -> Section:
    keys = {finding_anchor(each.key): each.key for each in known.active}
    found = [each for each in known.active if recency.keeps(each.sighting)]
    listed = sort_findings(found, NEWEST_FIRST if recency.is_newest_first else WORST_FIRST)
    parts = tuple(_folded(each, keys) for each in parts_of(listed))
    lines = [f"Assumed of {each}" for each in assumptions(fleet.inspection)]
    more = [f"And of {count(len(lines) - MOST_LINES, 'more pool')}."] if len(lines) > MOST_LINES else []
    quiet = [f"{rules_text(fleet.inspection)}.", *lines[:MOST_LINES], *more]
    basis, *assumed = (Paragraph((Piece(line, Style.MUTED),)) for line in quiet)
    shown = recency.shown_text(len(found), count(len(known.active), "finding"))
    text = shown if known.active else "No findings in what was read."
    head = (Paragraph(plain(text)),) if text else ()
    return Section(FINDINGS, "Findings", (*head, basis, *error_blocks(fleet.inspection), *assumed, *noted), parts)


def _folded(part: Section, keys: Mapping[str, str]) -> Section:
    """Link the findings of one severity; on a page only critical ones are open, and info is folded as a whole."""
    severity = part.anchor.removeprefix("severity-")
    fold = "" if severity == Severity.CRITICAL else FOLD
    blocks = tuple(
        replace(block, items=tuple(_linked(entry, fold, keys) for entry in block.items))
        if isinstance(block, Entries)
        else block
        for block in part.blocks
    )
    link = page(pages.FINDINGS, part.anchor, search=write_filter("severity", severity))
    return replace(part, content=blocks, link=link, is_aside=severity == Severity.INFO)


def _linked(entry: Entry, fold: str, keys: Mapping[str, str]) -> Entry:
    return replace(entry, fold=fold, link=Link(Kind.FINDING, keys[entry.anchor]) if entry.anchor in keys else None)


def _rollouts(fleet: Fleet) -> list[Block]:
    lines = rollouts(fleet.inspection)
    more = [f"{count(len(lines) - MOST_LINES, 'more pool')} with a rollout."] if len(lines) > MOST_LINES else []
    return [Paragraph(plain(line), Tone.INFO) for line in (*lines[:MOST_LINES], *more)]


def _unread(fleet: Fleet, noted: tuple[Block, ...]) -> Section:
    unread = incomplete_replicas(fleet)
    blocks: list[Block] = [*noted, *unread_entries(unread)]
    if not unread:
        blocks.append(Paragraph(plain("All replicas were read." if fleet.replicas else "There are no replicas.")))
    if number := fleet.inspection.tally.unknown:
        skipped = page(pages.FINDINGS, SKIPPED, rules="Skipped")
        text = f"{count(number, 'rule')} skipped somewhere: "
        blocks.append(Paragraph((Piece(text), Piece("reasons", link=skipped), Piece("."))))
    return Section(NOT_READ, "Incomplete data", tuple(blocks))


def _appendices(fleet: Fleet, known: FindingList) -> list[Section]:
    """Return all findings, where entries are about several, and all replicas."""
    sections = []
    if len(fix_groups(known.active)) < len(known.active):
        findings = cache(lambda: (findings_table(known),))
        sections.append(Section("all-findings", "All findings", findings, is_appendix=True))
    if fleet.replicas:
        replicas = cache(lambda: (replicas_table(replica_rows(fleet), is_whole=False),))
        link = page(pages.REPLICAS)
        sections.append(Section("all-replicas", "All replicas", replicas, is_appendix=True, link=link))
    return sections


def _skipped(fleet: Fleet) -> tuple[Section, ...]:
    table = outcome_table(fleet.inspection, OutcomeKind.SKIPPED)
    link = page(pages.FINDINGS, rules="Skipped")
    return (Section(SKIPPED, "Skipped rules", (table,), is_appendix=True, link=link),) if table else ()
