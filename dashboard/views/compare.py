"""The page Compare: how the replicas of one pool differ, and what would change if they did not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from dashboard.analysis.assembly import Fleet, only_replicas
from dashboard.analysis.kv_transfer import transfer_text
from dashboard.analysis.sharing_text import cause_text, sharing_text
from dashboard.analysis.whatif import WhatIf
from dashboard.compare import MAJORITY, Reference, ReferenceKind, Share, SharingCell, SharingVerdict
from dashboard.compare.columns import REFERENCE_NOTE, MatrixColumn
from dashboard.compare.hashes import SharingCause
from dashboard.compare.sharing import MOST_COHORTS
from dashboard.fleet import Cohort, Pool, Replica
from dashboard.fleet.formatting import MOST, SOME, count, iso, setting_text, shortlist
from dashboard.fleet.history import NO_SIGHTINGS, Sighting
from dashboard.fleet.pieces import Kind, Link, Piece, Style, plain
from dashboard.views.blocks import (
    Block,
    Cell,
    Column,
    DifferenceTable,
    Paragraph,
    Section,
    Table,
    Tone,
    View,
    list_cell,
)
from dashboard.views.chosen_columns import MOST_CHOSEN
from dashboard.views.context import context_of
from dashboard.views.finding_list import FindingFilter, full_entries, group_findings, list_findings
from dashboard.views.help import COHORT, REFERENCE, glossary
from dashboard.views.names import brief, names_of, slug
from dashboard.views.pages import CHOSEN, COLUMNS, ORIGIN, POOL, SEARCH, SECTION, SHOW
from dashboard.views.pages import REFERENCE as REFERENCE_CHOICE
from dashboard.views.pool_comparison import (
    DECIDES,
    ONLY_DIFFERENCES,
    ORIGIN_WORDS,
    MatrixChoice,
    OriginFilter,
    compare_chosen,
    equal_text,
    head_text,
    hidden_text,
    members_of,
    pool_named,
    uncovered_text,
    unmatched_text,
    worst_by_path,
)
from dashboard.views.pool_text import router_section
from dashboard.views.sharing import ABOUT, SHARE_WORDS, SPLIT, group_lines, severity
from dashboard.views.since import since_cell
from dashboard.views.table import Field, to_table
from dashboard.views.whatif import whatif_section

NO_NOTES: Mapping[str, str] = MappingProxyType({})
CHOSEN_POOL = "chosen replicas"  # the pool that stands for them
# Anchors of the sections that a page draws around its controls.
SHARING, SETTINGS, DECIDING = "prefix-sharing", "settings", "deciding-settings"
NOT_REPEATED = "Other settings that decide it are in the table above."
MEASURED_IN_PART = "hash alike where measured"  # as the sentence about the pool says


def compare_report(
    fleet: Fleet, pool: str, choice: MatrixChoice = ONLY_DIFFERENCES, *, what: WhatIf | None = None, name: str = ""
) -> View:
    """Return how the replicas of a pool differ, as chosen. `what` is a what-if, `name` is the snapshot's."""
    own = pool_named(fleet, pool)
    members = members_of(fleet, own)
    settings, deciding = compare_chosen(fleet, own, choice)
    cohorts = cohorts_table(own, {each.id: each for each in members}, slug(pool), settings.column_sightings)
    return View(
        title="Compare",
        headline=own.name,
        lead=head_text(own, members, fleet.inspection.domains.get(pool)),
        context=context_of(fleet, name=name, filters=[(POOL, own.name), *_filters(choice)]),
        parts=(
            sharing_section(fleet, own),
            settings_section(settings, members, choice),
            *deciding_section(fleet, settings, deciding),
            *router_section(fleet, own),
            Section("cohorts", "Cohorts", (cohorts,), is_exported_only=True),
            _findings(fleet, own),
            *((whatif_section(fleet, what),) if what else ()),
            glossary((COHORT, REFERENCE)),
        ),
    )


def chosen_reference(fleet: Fleet, ids: Sequence[str], asked: str = "") -> Reference:
    """Return the replica that others are compared with: the one that is asked for, else the first.

    A replica without settings is no reference; where none of them has any, the majority is.
    """
    read = {each.id for each in fleet.replicas if each.document is not None}
    known = [each for each in (asked, *ids) if each in read and each in ids]
    return Reference(ReferenceKind.REPLICA, known[0]) if known else MAJORITY


def chosen_report(
    fleet: Fleet, ids: Sequence[str], choice: MatrixChoice, *, name: str = "", notes: Mapping[str, str] = NO_NOTES
) -> View:
    """Return how these replicas of a fleet differ, a column each in the order of `ids`, the reference first.

    `notes` are about single columns, such as the snapshot that a replica is from.
    """
    part = only_replicas(fleet, ids, CHOSEN_POOL)
    (pool,) = part.pools
    pools = {each.id: each.pool or "no pool" for each in fleet.replicas}
    members = members_of(part, pool)
    heads = {each: ", ".join(filter(None, (pools[each], notes.get(each, "")))) for each in ids}
    settings, deciding = (_with_notes(each, heads) for each in compare_chosen(part, pool, choice, ids))
    names = {each.id: each.name for each in members}
    named = [f"{names[each]} ({pools[each]})" for each in ids]
    return View(
        title="Compare",
        headline=f"{count(len(ids), 'replica')} compared",
        lead=shortlist(named, MOST_CHOSEN),
        context=context_of(
            fleet, name=name, filters=[(CHOSEN, ", ".join(ids)), *_filters(choice._replace(by_replica=False))]
        ),
        parts=(
            settings_section(settings, members, choice),
            *deciding_section(part, settings, deciding, has_cohorts=False),
        ),
    )


def _with_notes(table: DifferenceTable, notes: Mapping[str, str]) -> DifferenceTable:
    """Note the pool of each replica at its column; a cohort's letter means nothing among replicas of several pools."""

    def noted(column: MatrixColumn) -> MatrixColumn:
        reference = ", reference" if column.note == REFERENCE_NOTE else ""
        return replace(column, note=f"{notes[column.key]}{reference}", cohort="")

    return replace(table, matrix=replace(table.matrix, columns=tuple(map(noted, table.matrix.columns))))


def _filters(choice: MatrixChoice) -> list[tuple[str, str]]:
    choices = {
        SHOW: "" if choice.only_differences else "All settings",
        SEARCH: choice.search,
        SECTION: choice.section or "",
        ORIGIN: "" if choice.origin is OriginFilter.ANY else ORIGIN_WORDS[choice.origin],
        REFERENCE_CHOICE: "" if choice.reference == MAJORITY else choice.reference.text,
        COLUMNS: "Replicas" if choice.by_replica else "",
    }
    return [(key, value) for key, value in choices.items() if value]


def sharing_section(fleet: Fleet, pool: Pool) -> Section:
    """Return which cohorts share prefixes, in sentences, the worst first; and whether KV cache can be transferred."""
    transfer = fleet.transfers.get(pool.name)
    line = (Paragraph(transfer_text(transfer, pool.name)),) if transfer is not None else ()
    return Section(SHARING, "Prefix sharing", (sharing_band(fleet, pool), *line))


def deciding_section(
    fleet: Fleet, settings: DifferenceTable, deciding: DifferenceTable, *, has_cohorts: bool = True
) -> tuple[Section, ...]:
    """Return the cohorts against each other, and the settings that decide prefix sharing; empty without any.

    Rows of the `settings` are not repeated. `has_cohorts` is False where the columns have no cohort letters.
    """
    pool = settings.matrix.pool
    blocks: list[Block] = []
    if has_cohorts:
        blocks += sharing_blocks(fleet.sharing[pool.name], slug(pool.name), sharing_kind(fleet, pool))
    shown = {row.path for row in settings.matrix.rows}
    left = deciding.with_rows(row for row in deciding.matrix.rows if row.path not in shown)
    if pool.cohorts and left.matrix.rows:
        notes = (NOT_REPEATED,) if len(left.matrix.rows) < len(deciding.matrix.rows) else ()
        blocks.append(replace(left, notes=notes, is_interactive=True))
    return (Section(DECIDING, DECIDES, tuple(blocks)),) if blocks else ()


def settings_section(settings: DifferenceTable, members: list[Replica], choice: MatrixChoice) -> Section:
    """Return the settings of a pool as chosen."""
    matrix = settings.matrix
    if not matrix.rows:
        text = unmatched_text(matrix, choice) if choice.is_filtered else equal_text(matrix, members)
        return Section(SETTINGS, "Settings", (Paragraph(plain(text)),))
    notes = (hidden_text(matrix, members), *uncovered_text(settings))
    table = replace(settings.with_rows(matrix.rows), notes=notes, is_interactive=True)
    return Section(SETTINGS, "Settings", (table,))


def _findings(fleet: Fleet, pool: Pool) -> Section:
    known = list_findings(fleet)
    own = list(filter(FindingFilter(pool=pool.name).matches, known.active))
    block: Block = Paragraph(plain("No findings in this pool."))
    if own:
        block = full_entries(group_findings(own), fleet)
    title = count(len(own), "finding") if own else "Findings"
    return Section("findings", title, (block,), is_exported_only=True)


def sharing_band(fleet: Fleet, pool: Pool) -> Paragraph:
    """Return which cohorts share prefixes, values set as code."""
    members = {each.id: each for each in members_of(fleet, pool)}
    return Paragraph(sharing_text(fleet.sharing[pool.name], members), Tone(sharing_kind(fleet, pool)))


def sharing_kind(fleet: Fleet, pool: Pool) -> str:
    """Return the severity of the verdict on sharing."""
    return severity(fleet.sharing[pool.name], worst_by_path(fleet.inspection, pool.name))


def sharing_blocks(sharing: SharingVerdict, slug: str, kind: str) -> tuple[Block, ...]:
    """Return the cohorts against each other where anything is known; of very many, the groups as lines.

    `kind` is the severity of the verdict: cohorts that do not share have its colour.
    """
    about = Paragraph((Piece(ABOUT, Style.MUTED),))
    if len(sharing.cohorts) > MOST_COHORTS:
        lines = [Paragraph((Piece(f"{line}."),)) for line in group_lines(sharing)]
        return (*lines, about) if lines else ()
    is_split = any(cell.share in SPLIT for cell in sharing.cells)
    is_measured = any(each.is_reporting for each in sharing.cohorts)
    is_shown = is_split or (len(sharing.cohorts) > 1 and is_measured)
    return (_sharing_table(sharing, slug, Tone(kind)), about) if is_shown else ()


def _sharing_table(sharing: SharingVerdict, slug: str, worst: Tone) -> Table:
    is_mixed = len({cell.is_measured for cell in sharing.cells if cell.share is not Share.UNKNOWN}) > 1
    rows = []
    for own in sharing.cohorts:
        row = [Cell("", letter=own.letter)]
        for other in sharing.cohorts:
            found = sharing.cell(own, other)
            is_one = own is other and own.replicas == 1 and found.share not in SPLIT
            row.append(Cell("one replica") if is_one else _sharing_cell(found, worst, is_mixed=is_mixed))
        rows.append(tuple(row))
    return Table(
        name=f"prefix-sharing-{slug}",
        caption="Which cohorts can share prefixes",
        columns=(Column("Can share with"), *(Column(f"{each.letter} ×{each.replicas:,}") for each in sharing.cohorts)),
        rows=tuple(rows),
    )


def _sharing_cell(cell: SharingCell, worst: Tone, *, is_mixed: bool) -> Cell:
    source = "" if cell.share is Share.UNKNOWN else "measured" if cell.is_measured else "derived from settings"
    derived = ", derived" if is_mixed and source and not cell.is_measured else ""
    hint = ", ".join(filter(None, (source, cause_text(cell))))
    word = MEASURED_IN_PART if cell.cause is SharingCause.SOME_SILENT else f"{SHARE_WORDS[cell.share]}{derived}"
    tones = {Share.YES: Tone.GOOD, Share.UNKNOWN: Tone.UNKNOWN}
    return Cell(word, tones.get(cell.share, worst), hint=hint)


def cohorts_table(
    pool: Pool, replicas: Mapping[str, Replica], slug: str, sightings: Mapping[str, Sighting] = NO_SIGHTINGS.findings
) -> Table:
    """Return the cohorts of a pool: replicas, distinguishing settings, names, since when. `sightings` are by letter."""
    none = "the only cohort" if len(pool.cohorts) == 1 else "no single setting"

    def distinguished_by(cohort: Cohort) -> Cell:
        settings = [f"{path} = {setting_text(*value)}" for path, value in cohort.distinguishing.items()]
        return list_cell(shortlist(settings, SOME) or none, settings)

    def names(cohort: Cohort) -> Cell:
        own = names_of(cohort.replicas, {each: replicas[each].name for each in cohort.replicas})
        incomplete = f"; {len(cohort.read_in_part):,} with incomplete data" if cohort.read_in_part else ""
        return list_cell(shortlist(map(brief, own), MOST) + incomplete, own)

    fields = [
        Field(
            "",
            "Cohort",
            lambda cohort: Cell("", letter=cohort.letter, link=Link(Kind.COHORT, cohort.letter, pool.name)),
        ),
        Field(
            "",
            "Replicas",
            lambda cohort: f"{len(cohort.replicas):,}",
            lambda cohort: len(cohort.replicas),
            is_number=True,
        ),
        Field("", "Distinguished by", distinguished_by),
        Field("", "Names", names),
    ]
    if sightings:
        fields.append(Field("", "Since", lambda cohort: since_cell(sightings.get(cohort.letter)), is_shown_only=True))
        for place, name in enumerate(Sighting._fields):
            fields.append(Field("", value=partial(_sighting_time, sightings, place), key=name))
    unread = len(pool.replicas) - sum(len(cohort.replicas) for cohort in pool.cohorts)
    note = f"{count(unread, 'replica')} never read, in no cohort." if unread else ""
    return to_table(pool.cohorts, fields, f"cohorts-{slug}", f"Cohorts of {brief(pool.name)}", note)


def _sighting_time(sightings: Mapping[str, Sighting], place: int, cohort: Cohort) -> str | None:
    seen = sightings.get(cohort.letter)
    time = seen[place] if seen else None
    return iso(time) if time else None
