"""The page Compare: how the replicas of one pool differ, what ends that, and what its cells open."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from dashboard.analysis.assembly import Fleet, only_replicas
from dashboard.analysis.kv_transfer import transfer_text
from dashboard.analysis.plan import plan_of
from dashboard.analysis.sharing_text import sharing_lines
from dashboard.compare import MAJORITY, Reference, ReferenceKind
from dashboard.compare.columns import REFERENCE_NOTE, MatrixColumn
from dashboard.compare.encoding import lookup_setting
from dashboard.compare.holders import by_frequency
from dashboard.compare.inner import inner_difference
from dashboard.fleet import Cohort, Pool, Replica, SettingValue, Source, State, formatting
from dashboard.fleet.history import NO_SIGHTINGS, Sighting
from dashboard.fleet.pieces import Kind, Link, Piece, Style, Text, cohort, join_texts, page, plain
from dashboard.rules.findings import Finding
from dashboard.rules.subject import FINGERPRINT
from dashboard.views import pages
from dashboard.views.blocks import (
    Block,
    Cell,
    DataValue,
    DifferenceTable,
    Entries,
    Entry,
    Paragraph,
    Section,
    Table,
    Tone,
    View,
)
from dashboard.views.chosen_columns import MOST_CHOSEN
from dashboard.views.context import context_of
from dashboard.views.finding_list import FindingFilter, fix_groups, full_entries, list_findings
from dashboard.views.finding_text import rule_title
from dashboard.views.help import glossary
from dashboard.views.names import brief, names_of, replica_text, slug
from dashboard.views.plan import changes_section, pool_section
from dashboard.views.pool_comparison import (
    DECIDES,
    ONLY_DIFFERENCES,
    ORIGIN_WORDS,
    OriginFilter,
    SettingChoice,
    cohort_sightings,
    compare_chosen,
    difference_sightings,
    equal_text,
    findings_by_path,
    head_text,
    hidden_text,
    members_of,
    pool_named,
    uncovered_text,
    unmatched_text,
    worst_by_path,
)
from dashboard.views.pool_text import router_section, sharing_blocks, sharing_severity, trait_paragraphs
from dashboard.views.setting import PoolValue, origins_text, pool_values
from dashboard.views.since import since_cell, since_paragraphs
from dashboard.views.table import Field, plain_value, to_table
from dashboard.views.traffic import PROMPT_SHARE, no_traffic_text, traffic_of, traffic_table
from dashboard.vllm.field_reference import known_sentences

CHOSEN_POOL = "chosen replicas"  # the pool that stands for them
# Anchors of the sections that a page draws around its controls.
SHARING, PAIRS, SETTINGS, DECIDING = "prefix-sharing", "cohort-pairs", "settings", "deciding-settings"
NOT_REPEATED = "Other settings that decide it are in the table above."


def compare_report(fleet: Fleet, pool: str, choice: SettingChoice = ONLY_DIFFERENCES) -> View:
    """Return how the replicas of a pool differ, as chosen, and what ends that."""
    own = pool_named(fleet, pool)
    members = members_of(fleet, own)
    settings, deciding = compare_chosen(fleet, own, choice)
    cohorts = cohorts_table(own, fleet.names, slug(pool), settings.column_sightings)
    used = cohorts_traffic(fleet, own)
    return View(
        title="Compare",
        headline=own.name,
        lead=pool_lead(fleet, own),
        context=context_of(fleet, filters={pages.POOL: own.name, **_filters(choice)}.items()),
        parts=(
            sharing_section(fleet, own),
            *pool_section(fleet, pool),
            settings_section(settings, members, choice),
            *deciding_section(settings, deciding),
            *router_section(fleet, own),
            Section("cohorts", "Cohorts", (cohorts, *used), is_exported_only=True),
            _findings(fleet, own),
            glossary(("cohort", "reference")),
            *changes_section(fleet, plan_of(fleet).of_pool(pool, fleet.replicas)),
        ),
    )


def pool_lead(fleet: Fleet, pool: Pool) -> str:
    """Return what a pool is in one line, and why nothing of its traffic is shown."""
    head = head_text(pool, members_of(fleet, pool), fleet.inspection.domains.get(pool.name))
    return " · ".join(filter(None, (head, no_traffic_text(fleet))))


def chosen_reference(fleet: Fleet, ids: Sequence[str], asked: str = "") -> Reference:
    """Return the replica that others are compared with: the one that is asked for, else one of the majority.

    That is the first of those with the document that most of them have, or else that most of their pool have. A replica
    without settings is no reference; where none of them has any, the majority is.
    """
    documents = {each.id: each.document for each in fleet.replicas if each.document is not None and each.id in ids}
    known = [each for each in ids if each in documents]
    if not known:
        return MAJORITY
    alike = Counter(documents[each] for each in known)
    cohorts = {
        replica: len(each.replicas) for pool in fleet.pools for each in pool.cohorts for replica in each.replicas
    }
    usual = max(known, key=lambda each: (alike[documents[each]], cohorts.get(each, 0)))
    return Reference(ReferenceKind.REPLICA, asked if asked in known else usual)


def chosen_report(fleet: Fleet, ids: Sequence[str], choice: SettingChoice, notes: Mapping[str, str]) -> View:
    """Return how these replicas of a fleet differ, a column each in the order of `ids`, the reference first.

    `notes` are about single columns, such as the snapshot that a replica is from.
    """
    part = only_replicas(fleet, ids, CHOSEN_POOL)
    (pool,) = part.pools
    pools = {each.id: each.pool or "no pool" for each in fleet.replicas}
    members = members_of(part, pool)
    heads = {each: ", ".join(filter(None, (pools[each], notes.get(each, "")))) for each in ids}
    settings, deciding = (_with_notes(each, heads) for each in compare_chosen(part, pool, choice, ids))
    named = [f"{fleet.names[each]} ({pools[each]})" for each in ids]
    filters = {pages.CHOSEN: ", ".join(ids), **_filters(choice), pages.COLUMNS: ""}
    return View(
        title="Compare",
        headline=f"{formatting.count(len(ids), 'replica')} compared",
        lead=" · ".join(filter(None, (formatting.shortlist(named, MOST_CHOSEN), no_traffic_text(fleet)))),
        context=context_of(fleet, filters=filters.items()),
        parts=(
            Section(SHARING, "Prefix sharing", (_chosen_verdict(part, pool),)),
            settings_section(settings, members, choice),
            *deciding_section(settings, deciding),
        ),
    )


def _chosen_verdict(fleet: Fleet, pool: Pool) -> Paragraph:
    """Return whether chosen replicas share prefixes, with their names in place of letters."""
    members = {each.id: each for each in members_of(fleet, pool)}
    names = {
        each.letter: formatting.shortlist([brief(members[replica].name) for replica in each.replicas], formatting.SOME)
        for each in pool.cohorts
    }
    if len(set(names.values())) < len(names):  # of several replicas with one name the letter tells which
        names = {letter: f"{name} ({letter})" for letter, name in names.items()}
    lines = sharing_lines(fleet.sharing[pool.name].renamed(names), members)
    pieces = (
        piece._replace(link=None) if piece.link is not None and piece.link.kind is Kind.COHORT else piece
        for piece in join_texts(lines, "\n", "\n")
    )
    return Paragraph(tuple(pieces), Tone(sharing_kind(fleet, pool)))


def _with_notes(table: DifferenceTable, notes: Mapping[str, str]) -> DifferenceTable:
    """Note the pool of each replica at its column; letters and shares mean nothing among replicas of several pools."""

    def noted(column: MatrixColumn) -> MatrixColumn:
        reference = ", reference" if column.note == REFERENCE_NOTE else ""
        return replace(column, note=f"{notes[column.key]}{reference}", cohort="")

    measures = tuple(each for each in table.measures if each[0] != PROMPT_SHARE.title)
    matrix = replace(table.matrix, columns=tuple(map(noted, table.matrix.columns)))
    return replace(table, matrix=matrix, measures=measures)


def _filters(choice: SettingChoice) -> dict[str, str | None]:
    return {
        pages.SHOW: "" if choice.only_differences else "All settings",
        pages.SEARCH: choice.search,
        pages.SECTION: choice.section,
        pages.ORIGIN: "" if choice.origin is OriginFilter.ANY else ORIGIN_WORDS[choice.origin],
        pages.REFERENCE: "" if choice.reference == MAJORITY else choice.reference.text,
        pages.COLUMNS: "Replicas" if choice.by_replica else "",
    }


def sharing_section(fleet: Fleet, pool: Pool) -> Section:
    """Return which cohorts share prefixes, in sentences and as pairs; and whether KV cache can be transferred."""
    transfer = fleet.transfers.get(pool.name)
    line = (Paragraph(transfer_text(transfer, pool.name)),) if transfer is not None else ()
    pairs = sharing_blocks(fleet.sharing[pool.name], slug(pool.name), sharing_kind(fleet, pool))
    parts = (Section(PAIRS, "Which cohorts share prefixes", pairs, is_aside=True),) if pairs else ()
    return Section(SHARING, "Prefix sharing", (sharing_band(fleet, pool), *line), parts=parts)


def deciding_section(settings: DifferenceTable, deciding: DifferenceTable) -> tuple[Section, ...]:
    """Return the settings that decide prefix sharing, without rows of the `settings`; empty without any."""
    shown = {row.path for row in settings.matrix.rows}
    left = deciding.with_rows(row for row in deciding.matrix.rows if row.path not in shown)
    if not settings.matrix.pool.cohorts or not left.matrix.rows:
        return ()
    notes = (NOT_REPEATED,) if len(left.matrix.rows) < len(deciding.matrix.rows) else ()
    return (Section(DECIDING, DECIDES, (replace(left, notes=notes, is_interactive=True),)),)


def settings_section(settings: DifferenceTable, members: list[Replica], choice: SettingChoice) -> Section:
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
        block = full_entries(fix_groups(own), fleet)
    title = formatting.count(len(own), "finding") if own else "Findings"
    return Section("findings", title, (block,), is_exported_only=True)


def sharing_band(fleet: Fleet, pool: Pool) -> Paragraph:
    """Return which cohorts share prefixes, a line for each cause, values set as code."""
    members = {each.id: each for each in members_of(fleet, pool)}
    lines = sharing_lines(fleet.sharing[pool.name], members)
    return Paragraph(join_texts(lines, "\n", "\n"), Tone(sharing_kind(fleet, pool)))


def sharing_kind(fleet: Fleet, pool: Pool) -> str:
    return sharing_severity(fleet.sharing[pool.name], worst_by_path(fleet.inspection, pool.name))


def cohorts_table(
    pool: Pool, names: Mapping[str, str], slug: str, sightings: Mapping[str, Sighting] = NO_SIGHTINGS.findings
) -> Table:
    """Return the cohorts of a pool: replicas, distinguishing settings, names, since when. `sightings` are by letter."""
    none = "the only cohort" if len(pool.cohorts) == 1 else "no single setting"

    def distinguished_by(cohort: Cohort) -> Cell:
        settings = [f"{path} = {formatting.setting_text(*value)}" for path, value in cohort.distinguishing.items()]
        return Cell(formatting.shortlist(settings, formatting.SOME) or none, value=tuple(settings))

    def members(cohort: Cohort) -> Cell:
        own = names_of(cohort.replicas, names)
        incomplete = f"; {len(cohort.read_in_part):,} with incomplete data" if cohort.read_in_part else ""
        return Cell(formatting.shortlist(map(brief, own), formatting.MOST) + incomplete, value=tuple(own))

    fields = [
        Field("", "Cohort", lambda each: Cell("", letter=each.letter, link=Link(Kind.COHORT, each.letter, pool.name))),
        Field("", "Replicas", lambda each: f"{len(each.replicas):,}", lambda each: len(each.replicas), is_number=True),
        Field("", "Distinguished by", distinguished_by),
        Field("", "Names", members),
    ]
    if sightings:
        fields.append(Field("", "Since", lambda cohort: since_cell(sightings.get(cohort.letter)), is_shown_only=True))
        fields += [Field("", value=partial(_sighting_time, sightings, name), key=name) for name in Sighting._fields]
    unread = len(pool.replicas) - sum(len(cohort.replicas) for cohort in pool.cohorts)
    note = f"{formatting.count(unread, 'replica')} in no cohort: settings not reported." if unread else ""
    return to_table(pool.cohorts, fields, f"cohorts-{slug}", f"Cohorts of {brief(pool.name)}", note)


def cohorts_traffic(fleet: Fleet, pool: Pool) -> tuple[Table, ...]:
    """Return what the cohorts of a pool did, as a table; empty where none of them was counted."""
    if not fleet.traffic_of(pool.replicas).seconds:
        return ()
    rows = (
        traffic_of(
            fleet, "", pool.name, each.replicas, letter=each.letter, link=Link(Kind.COHORT, each.letter, pool.name)
        )
        for each in pool.cohorts
    )
    return (
        traffic_table(
            rows,
            "Cohort",
            f"traffic-{slug(pool.name)}",
            f"Traffic of {brief(pool.name)}",
            is_past=fleet.past is not None,
        ),
    )


def _sighting_time(sightings: Mapping[str, Sighting], name: str, cohort: Cohort) -> DataValue | None:
    return plain_value(getattr(sightings.get(cohort.letter), name, None))


MOST_TEXTS = 10  # reported texts of a value of which only a part is compared
MOST_NAMES = 60  # replicas per value; the page Replicas has all


def setting_blocks(fleet: Fleet, pool: Pool, path: str) -> tuple[Block, ...]:
    """Return every value of a setting in a pool, and the findings about it."""
    every = Piece("values in all pools", link=page(pages.SETTINGS, path=path))
    where = (Piece(path, Style.CODE), Piece(" in "), Piece(pool.name, Style.STRONG), Piece(" · "), every)
    head = Paragraph((*where, *plain(f". {sentence}")) if (sentence := known_sentences().get(path)) else where)
    found = findings_by_path(fleet.inspection, pool.name).get(path, ())
    since = since_paragraphs(difference_sightings(fleet, pool).get(path), "Differs")
    findings = (*since, *((Entries(tuple(map(_finding_entry, found))),) if found else ()))
    if path == FINGERPRINT:
        hint = plain("Each engine computes these digests: see the page of the replica.")
        return (head, *findings, Paragraph(hint, Tone.INFO))
    sources = {
        key: setting.source
        for key in pool.documents
        if (setting := lookup_setting(fleet.documents[key].settings, path))
    }
    if not sources:
        return (head, *findings, Paragraph(plain("Not reported by any replica of this pool."), Tone.INFO))
    majority = next((each.majority for each in pool.differences if each.path == path), None)
    known = {each.value: each for each in pool_values(fleet, path) if each.pool == pool.name}
    order = by_frequency({value: [one.id for one in each.replicas] for value, each in known.items()})
    return (head, *findings, Entries(tuple(_value_entry(known[value], sources, path, majority) for value in order)))


def cohort_blocks(fleet: Fleet, pool: Pool, own: Cohort) -> tuple[Block, ...]:
    """Return the replicas of a cohort, and the settings that distinguish it."""
    number = Piece(formatting.count(len(own.replicas), "replica"), Style.STRONG)
    blocks: list[Block] = [
        Paragraph((cohort(own.letter, pool.name), Piece(" "), number, Piece(" of "), Piece(pool.name, Style.STRONG))),
        *since_paragraphs(cohort_sightings(fleet, pool).get(own.letter)),
    ]
    if own.distinguishing:
        settings = "\n".join(f"{path} = {formatting.whole_text(*value)}" for path, value in own.distinguishing.items())
        label = plain("Fewest settings that distinguish it from all other cohorts")
        blocks.append(Entries((Entry(Tone.PLAIN, label, snippets=(settings,)),)))
    blocks.append(Paragraph(replica_text(own.replicas, fleet.names, MOST_NAMES)))
    blocks += trait_paragraphs(fleet, own.replicas, [pool.name])
    if own.read_in_part:
        blocks.append(Paragraph((Piece("Incomplete data: "), *replica_text(own.read_in_part, fleet.names, MOST_NAMES))))
    if len(pool.cohorts) > 1:
        compared = page(pages.COMPARE, **{pages.POOL: pool.name, pages.REFERENCE: own.letter})
        blocks.append(Paragraph((Piece(f"Compare with {own.letter}", link=compared),)))
    return tuple(blocks)


def _finding_entry(finding: Finding) -> Entry:
    rule = (Piece(rule_title(finding.rule), Style.MUTED),)
    return Entry(Tone(finding.severity), finding.text, lines=(rule,), link=Link(Kind.FINDING, finding.id))


def _value_entry(found: PoolValue, sources: Mapping[str, Source], path: str, majority: SettingValue | None) -> Entry:
    """Return a value with the cohorts of its replicas, the replicas, and who reported it. `sources` are by document.

    A long value says what differs inside from that of the `majority`.
    """
    value, own = found.value, found.replicas
    head: Text = (
        *(piece for letter in found.cohorts for piece in (cohort(letter, found.pool), Piece(" "))),
        Piece(formatting.count(len(own), "replica"), Style.STRONG),
    )
    known = {sources.get(str(replica.document)) for replica in own}
    if words := [formatting.SOURCE_WORDS[source] for source in Source if source in known]:
        head = (*head, Piece(f" · reported by {formatting.joined(words)}", Style.MUTED))
    names = {replica.id: replica.name for replica in own}
    lines = [replica_text(names, names, MOST_NAMES)]
    if state := formatting.STATE_WORDS.get(value.state):
        return Entry(Tone.PLAIN, head, lines=(plain(state), *lines))
    lines.append(plain(f"Origin: {origins_text(found.origins)}."))
    if majority is not None and (inside := inner_difference(majority.value, value.value)):
        lines.append(plain(f"Compared with the majority: {inside}."))
    snippets = [formatting.whole_text(*value)]
    if reported := sorted({replica.identity[path].value for replica in own if path in replica.identity}):
        snippets.append("\n".join(formatting.whole_text(text, State.REPORTED) for text in reported[:MOST_TEXTS]))
        lines.append(plain("Only the part shown first is compared; the second is as reported."))
    return Entry(Tone.PLAIN, head, lines=tuple(lines), snippets=tuple(snippets))
