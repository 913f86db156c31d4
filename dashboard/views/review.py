"""The page Review: the whole fleet in the order of a meeting, with notes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.analysis.changes.models import Changes
from dashboard.analysis.plan import plan_of
from dashboard.fleet import Note, ReplicaState
from dashboard.fleet.formatting import count, iso
from dashboard.fleet.history import NO_SIGHTINGS, Sighting
from dashboard.fleet.pieces import Kind, Link, Piece, Style, page, plain, section, to_plain
from dashboard.rules.findings import Finding, OutcomeKind, Severity
from dashboard.store.reviews import NoLastReview
from dashboard.views import pages
from dashboard.views.blocks import (
    Block,
    Cell,
    Chart,
    Column,
    DifferenceTable,
    Entries,
    Entry,
    Figures,
    Paragraph,
    Section,
    Table,
    Tone,
    View,
)
from dashboard.views.cause import PLAN
from dashboard.views.changes import changes_report
from dashboard.views.changes_text import RANGE, EventSummary
from dashboard.views.context import context_of
from dashboard.views.excluded import ignored_blocks, suppressed_blocks, unread_entries
from dashboard.views.filters import write_filter
from dashboard.views.finding_list import (
    NO_NOTES,
    WORST_FIRST,
    FindingList,
    ListedFinding,
    finding_anchor,
    fix_groups,
    head_of,
    list_findings,
    replica_lines,
    side_of,
    sort_findings,
)
from dashboard.views.finding_text import (
    COLUMNS,
    answered,
    assumptions,
    finding_fields,
    note_lines,
    rollouts,
    rule_title,
    where_of,
)
from dashboard.views.findings import findings_table, severity_parts
from dashboard.views.help import REVIEW_TERMS, glossary
from dashboard.views.overview import summary_figures
from dashboard.views.plan import changes_section, plan_section
from dashboard.views.replicas import replica_rows, replicas_table
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
AGREED = "agreed"
AGREED_TITLE = "Notes"
_COLUMNS = (*map(Column, ("owner", "note", "at", "author", "about")), *COLUMNS)
_NO_FINDING = (Cell(""),) * len(COLUMNS)
NEW = "new"
NEW_TITLE = "New since the last review"
NO_LONGER_FOUND = "Noted at the last review, no longer found"
SINCE = ("findings", "settings", "replicas", "capacity")  # sections whose titles the review has, too
ON_CHANGES = ("warnings", "compared", "replicas", "capacity")  # sections that a page leaves to the page Changes
CUT = ("setting-changes", "rank-changes")  # appendices of lists that are cut
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

EntryFinding = tuple[Entry, Finding | None]  # an entry without notes, and the finding that it is about
PartsOf = Callable[[Sequence[ListedFinding]], list[Section]]


def review_report(
    fleet: Fleet,
    *,
    before: Fleet | None = None,
    notes: Mapping[str, Note] = NO_NOTES,
    before_notes: Mapping[str, Note] = NO_NOTES,
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
            *agreed_part(known, agenda, notes),
            *agenda,
            glossary(REVIEW_TERMS),
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
    links = {finding_anchor(each.key): Link(Kind.FINDING, each.key) for each in known.active}
    found = [each for each in known.active if recency.keeps(each.sighting)]
    listed = sort_findings(found, NEWEST_FIRST if recency.is_newest_first else WORST_FIRST)
    parts = tuple(_folded(each, links) for each in parts_of(listed))
    lines = assumptions(fleet.inspection)
    more = [f"And {count(len(lines) - MOST_LINES, 'more pool')}."] if len(lines) > MOST_LINES else []
    quiet = [f"{rules_text(fleet.inspection)}.", *lines[:MOST_LINES], *more]
    basis, *assumed = (Paragraph((Piece(line, Style.MUTED),)) for line in quiet)
    shown = recency.shown_text(len(found), count(len(known.active), "finding"))
    text = shown if known.active else "No findings in what was read."
    head = (Paragraph(plain(text)),) if text else ()
    return Section(FINDINGS, "Findings", (*head, basis, *error_blocks(fleet.inspection), *assumed, *noted), parts)


def _folded(part: Section, links: Mapping[str, Link]) -> Section:
    """Link the findings of one severity; on a page only critical ones are open, and info is folded as a whole."""
    severity = part.anchor.removeprefix("severity-")
    fold = "" if severity == Severity.CRITICAL else FOLD
    blocks = tuple(
        replace(block, items=tuple(replace(each, fold=fold, link=links.get(each.anchor)) for each in block.items))
        if isinstance(block, Entries)
        else block
        for block in part.blocks
    )
    link = page(pages.FINDINGS, part.anchor, search=write_filter("severity", severity))
    return replace(part, content=blocks, link=link, is_aside=severity == Severity.INFO)


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


def agreed_part(known: FindingList, agenda: Sequence[Section], notes: Mapping[str, Note]) -> tuple[Section, ...]:
    """Return the notes on findings, the worst first, then those on sections of the agenda; empty without notes."""
    about: dict[str, EntryFinding] = dict(_noted_findings(known, notes))
    for each in agenda:
        about[each.anchor] = (Entry(Tone.PLAIN, (Piece(each.title, Style.STRONG, section(each.anchor)),)), None)
    for key in notes:
        about.setdefault(key, (Entry(Tone.PLAIN, plain(f"Finding no longer found: {key}")), None))
    found = [(*about[key], notes[key]) for key in about if key in notes]
    items = tuple(
        Entry(entry.tone, entry.head, entry.side, entry.lines, notes=note_lines(note)) for entry, _, note in found
    )
    rows = [(to_plain(entry.head), finding, note) for entry, finding, note in found]
    data = partial(noted_data, rows, known.names, known.sightings)
    return (Section(AGREED, AGREED_TITLE, (Entries(items, data),)),) if items else ()


def noted_data(
    rows: Iterable[tuple[str, Finding | None, Note]],
    names: Mapping[str, str],
    sightings: Mapping[str, Sighting] = NO_SIGHTINGS.findings,
    *,
    name: str = AGREED,
    caption: str = AGREED_TITLE,
) -> Table:
    """Return notes for programs, a row each: what it is about, the finding where it is one, and the note."""
    fields, cells = finding_fields(names, sightings), []
    for about, finding, note in rows:
        own = (note.owner, note.text, iso(note.at) if note.at else "", note.author, about)
        of_finding = tuple(field.cell(finding) for field in fields) if finding else _NO_FINDING
        cells.append((*(Cell("", value=each) for each in own), *of_finding))
    return Table(name, caption, _COLUMNS, tuple(cells))


def _noted_findings(known: FindingList, notes: Mapping[str, Note]) -> Iterator[tuple[str, EntryFinding]]:
    """Yield each finding with a note by its id; its head leads to the entry that has all about it."""
    for listed, anchor in (*_places(known), *((each, SUPPRESSED) for each in known.suppressed)):
        finding = listed.finding
        if finding.id in notes:
            lines = ((Piece(rule_title(finding.rule), Style.MUTED),), *replica_lines([finding], known.names))
            side = side_of([finding], known.names)
            yield finding.id, (Entry(Tone(finding.severity), head_of([finding], section(anchor)), side, lines), finding)


def _places(known: FindingList) -> Iterator[tuple[ListedFinding, str]]:
    """Yield each finding with the anchor of its entry, which may be about several."""
    for group in fix_groups(known.active):
        yield from ((each, finding_anchor(group[0].key)) for each in group)


def new_parts(
    fleet: Fleet,
    before: Fleet | NoLastReview,
    before_notes: Mapping[str, Note],
    notes: tuple[Block, ...],
    between: EventSummary | None = None,
) -> tuple[Section, tuple[Section, ...]]:
    """Return the section and its appendices; `before` is the fleet of the last review, or why there is none.

    `between` is what happened since.
    """
    if isinstance(before, NoLastReview):
        return Section(NEW, NEW_TITLE, (Paragraph(plain(before)), *notes)), ()
    changes = changes_between(before, fleet)
    view = changes_report(changes, context_of(before), context_of(fleet), between)
    since = f"Data of the last review: {iso(before.polled_at)}. " if before.polled_at else ""
    if before.past and before.polled_at:
        since = f"Compared with {iso(before.past.at)}, last poll {iso(before.polled_at)}. "
    head = Paragraph((Piece(since, Style.MUTED), Piece(f"{view.headline}.", Style.STRONG), Piece(f" {view.lead}")))
    shown = [each for each in view.parts if not each.is_appendix and (each.anchor == RANGE or not changes.is_empty)]
    title = f"New since {iso(before.past.at)}" if before.past else NEW_TITLE
    part = Section(
        NEW, title, (head, *notes), (*_settled(changes, before, before_notes), *nested(map(_since, shown), NEW))
    )
    everything = page(pages.CHANGES, **{pages.FROM: pages.side_of(before), pages.TO: pages.side_of(fleet)})
    cut = nested((each for each in view.parts if each.anchor in CUT), NEW)
    return part, tuple(replace(each, is_appendix=True, link=everything) for each in cut)


def nested(sections: Iterable[Section], prefix: str) -> tuple[Section, ...]:
    """Return sections of one view as sections of another: their anchors and file names get a prefix."""
    return tuple(
        replace(
            each,
            anchor=f"{prefix}-{each.anchor}",
            content=tuple(_nested(block, prefix) for block in each.blocks),
            parts=nested(each.parts, prefix),
            is_appendix=False,
        )
        for each in sections
    )


def _nested(block: Block, prefix: str) -> Block:
    if isinstance(block, Entries | Table) and (make := block.for_programs):

        def renamed() -> Table:
            data = make()
            return replace(data, name=f"{prefix}-{data.name}")

        block = replace(block, for_programs=renamed)
    if isinstance(block, Table | DifferenceTable | Chart):
        return replace(block, name=f"{prefix}-{block.name}")
    return block


def _since(part: Section) -> Section:
    title = f"{part.title} since then" if part.anchor in SINCE else part.title
    return replace(part, title=title, is_exported_only=part.anchor in ON_CHANGES)


def _settled(changes: Changes, before: Fleet, before_notes: Mapping[str, Note]) -> tuple[Section, ...]:
    """Return the notes of the last review on findings that are no longer found."""
    gone = [each.finding for each in changes.findings.no_longer_found if each.finding.id in before_notes]
    items = tuple(_settled_entry(each, before_notes[each.id]) for each in gone)
    rows = [(f"{where_of(each)} {each.sentence}", each, before_notes[each.id]) for each in gone]
    names, sightings = before.names, before.sightings.findings
    data = partial(noted_data, rows, names, sightings, name="settled", caption=NO_LONGER_FOUND)
    return (Section("settled", NO_LONGER_FOUND, (Entries(items, data),)),) if items else ()


def _settled_entry(finding: Finding, note: Note) -> Entry:
    head = (Piece(where_of(finding), Style.STRONG), Piece(" "), *finding.text)
    return Entry(Tone.PLAIN, head, notes=note_lines(None, note))
