"""The page Findings: the list, the finding that is open, the outcomes of all rules; and its export."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Note, State
from dashboard.fleet.formatting import STATE_WORDS, count, middle_cut, natural, one_line, shortlist, size, whole_text
from dashboard.fleet.grouping import grouped
from dashboard.fleet.pieces import (
    Kind,
    Link,
    Piece,
    Style,
    Text,
    cohort,
    join_texts,
    page,
    plain,
    pool,
    replica,
    shortlist_texts,
)
from dashboard.rules.catalogue import BY_ID
from dashboard.rules.findings import Evidence, Finding, OutcomeKind, Remedy, Severity
from dashboard.views import finding_list, pages, summary
from dashboard.views.blocks import Banner, Block, Cell, Column, Entries, Entry, Paragraph, Section, Table, Tone, View
from dashboard.views.context import context_of
from dashboard.views.effect import effect_section
from dashboard.views.excluded import ignored_blocks, ignored_tables, suppressed_blocks
from dashboard.views.finding_text import (
    FINDINGS,
    SNIPPETS,
    findings_data,
    pools_of,
    remarks,
    rule_title,
    tags,
    where_of,
    with_code,
)
from dashboard.views.help import glossary
from dashboard.views.names import MOST_NAMED, brief, in_natural_order, names_of
from dashboard.views.plan import causes_section
from dashboard.views.pool_text import context_text, trait_paragraphs
from dashboard.views.rules import error_blocks, outcome_table, rule_section
from dashboard.views.setting import affected_section
from dashboard.views.since import SINCE, since_cell, since_paragraphs
from dashboard.views.table import Field, to_table

MOST_REPLICAS = 60  # of one finding by name
MOST_POOLS = 24  # other pools with the same finding
MOST_ODD, MOST_OF_REFERENCE = 12, 3  # replicas of one value by name
MOST_VALUES = 24  # values of one finding
MOST_COHORTS = 12  # of one list, the largest first
LONGEST_VALUE = 160  # characters of a value; Compare has all of it
COUNTED = ("engines.", "devices.")  # paths of computed numbers
BYTES = ("bytes", "bytes_per_device")  # ends of those that are written as on Capacity
ROUTER = "router"  # the holder of what a router was configured with
# The page of values that are not settings, by the first part of their path.
PAGES = {"engines": pages.CAPACITY, "devices": pages.CAPACITY, "replicas": pages.REPLICAS, "findings": pages.FINDINGS}
Choices = tuple[tuple[str, str], ...]  # parameters of the URL that links keep


EVERYTHING = finding_list.FindingFilter()
MOST_TABLE_ROWS = 2_000  # of the table of all findings
MOST_ENTRIES = 200  # of one severity in an export
MOST_ROWS = 40  # of the list on the page: filters narrow it


def findings_report(fleet: Fleet, chosen: finding_list.FindingFilter = EVERYTHING) -> View:
    """Return the export: all findings that match, with cause and fix."""
    known = finding_list.list_findings(fleet)
    found = list(filter(chosen.matches, known.active))
    hidden = (
        f" {count(len(found), 'finding')} of {len(known.active):,} shown." if len(found) < len(known.active) else ""
    )
    errors, skipped = error_blocks(fleet.inspection), outcome_table(fleet.inspection, OutcomeKind.SKIPPED)
    excluded = (*suppressed_blocks(fleet, known), *ignored_blocks(fleet), *ignored_tables(fleet))
    parts = [
        *([Section("raised", "Rule errors", errors)] if errors else []),
        *(severity_parts(found, fleet) or [_none(fleet, known)]),
        Section("suppressed", "Suppressed and ignored", excluded),
        glossary(("severity", "cohort")),
        *([Section("skipped", "Skipped rules", (skipped,), is_appendix=True)] if skipped else []),
    ]
    return View(
        title="Findings",
        headline=summary.scoped_title(summary.findings_title(fleet.inspection), chosen.pool),
        lead=f"{summary.findings_lead(fleet)}.{hidden}",
        context=context_of(fleet, filters=chosen.choices),
        parts=tuple(parts),
    )


def list_section(
    known: finding_list.FindingList,
    found: Sequence[finding_list.ListedFinding],
    choices: tuple[tuple[str, str], ...],
    opened: str | None,
) -> Section:
    """Return the list on the page. `found` are the findings that match, `choices` what links keep of the URL."""
    groups = finding_list.group_findings(found)
    total = len(known.active)
    shown = f"{len(found):,} of {count(total, 'finding')} shown" if len(found) < total else count(total, "finding")
    together = f" in {count(len(groups), 'entry', 'entries')}" if len(groups) < len(found) else ""
    left = len(groups) - MOST_ROWS
    more = f" {left:,} more entries not shown: use the filters." if left > 0 else ""
    entries = finding_list.row_entries(groups[:MOST_ROWS], known.names, choices, opened)
    return Section("findings", "", (entries, Paragraph((Piece(f"{shown}{together}.{more}", Style.MUTED),))))


def severity_parts(
    listed: Sequence[finding_list.ListedFinding],
    fleet: Fleet,
    notes: Mapping[str, Note] = finding_list.NO_NOTES,
    before_notes: Mapping[str, Note] = finding_list.NO_NOTES,
) -> list[Section]:
    """Return a section for each severity with findings; those with the same cause and fix are one entry.

    Notes are by finding id, `before_notes` those of the last review.
    """
    parts = []
    for severity in Severity:
        own = [each for each in listed if each.finding.severity is severity]
        groups = finding_list.fix_groups(own)
        if not groups:
            continue
        left = sum(map(len, groups[MOST_ENTRIES:]))
        more = [Paragraph(plain(f"And {count(left, 'more finding')}."))] if left else []
        distinct = f" ({len(groups):,} distinct)" if len(groups) < len(own) else ""
        title = f"{count(len(own), summary.SEVERITY_TERMS[severity])}{distinct}"
        entries = finding_list.full_entries(groups[:MOST_ENTRIES], fleet, own, notes, before_notes)
        parts.append(Section(f"severity-{severity}", title, (entries, *more)))
    return parts


def findings_table(known: finding_list.FindingList) -> Table:
    """Return all active findings, a row each, the worst first."""

    def replicas_of(row: finding_list.ListedFinding) -> str:
        return shortlist(map(brief, names_of(row.finding.replicas, known.names)), MOST_NAMED)

    has_since = any(each.sighting for each in known.active)
    fields = (
        Field("finding.sentence", "Finding", tone=lambda row: Tone(row.finding.severity)),
        Field("finding.rule", "Rule"),
        Field("finding", "Where", lambda row: where_of(row.finding)),
        Field("finding.replicas", "Replicas", replicas_of),
        *([Field("", SINCE.title, lambda row: since_cell(row.sighting))] if has_since else []),
    )
    table = to_table(
        known.active, fields, FINDINGS, "All findings", most=MOST_TABLE_ROWS, rest="{:,} more not listed.".format
    )
    found = [each.finding for each in known.active]
    return replace(table, for_programs=lambda: findings_data(found, known.names, known.sightings))


def _none(fleet: Fleet, known: finding_list.FindingList) -> Section:
    if known.active:
        text, tone = f"The filters hide all {count(len(known.active), 'finding')}.", Tone.PLAIN
    elif summary.is_clean(fleet):
        text, tone = f"No findings. {summary.no_findings_text(fleet)}", Tone.GOOD
    else:
        text, tone = "No rule on settings was evaluated; see the reasons below.", Tone.UNKNOWN
    return Section("findings", "Findings", (Paragraph(plain(text), tone),))


def finding_section(
    fleet: Fleet, known: finding_list.FindingList, listed: finding_list.ListedFinding, choices: Choices
) -> Section:
    """Return all about one finding, the fix first. Links within the page keep the `choices` of the URL.

    Those of the same rule and cause are listed with their values and replicas.
    """
    finding = listed.finding
    group = known.group_of(listed)
    found = [each.finding for each in group]
    here = f" in {where_of(finding)}" if len({each.remedy for each in found}) > 1 else ""
    context = context_text(finding, fleet.inspection)
    why = [Paragraph(with_code(finding.why)), *([Paragraph((Piece(context, Style.MUTED),))] if context else [])]
    parts = [
        Section("remedy", f"What to do{here}", _remedy(finding.remedy)),
        *causes_section(fleet, finding),
        *([Section("group", count(len(group), "finding"), (_group_table(group, choices),))] if group[1:] else []),
        effect_section(fleet, found),
        Section("why", "Why it matters here", tuple(why)),
        Section("evidence", "Evidence", evidence_blocks(fleet, known, finding)),
        affected_section(fleet, finding),
    ]
    if finding.rule in BY_ID:
        parts.append(rule_section(BY_ID[finding.rule], finding.context))
    shared = trait_paragraphs(fleet, finding.replicas, finding.pools) if not group[1:] else []
    begins = {each.sighting and each.sighting.since for each in group}
    newest = f"The newest of {len(group):,}" if len(begins) > 1 else ""
    since = since_paragraphs(finding_list.newest_of(group), newest)
    line = (Piece(rule_title(finding.rule), Style.MUTED), *tags(found[0]))
    close = Link(Kind.PAGE, pages.FINDINGS, choices=choices)
    banner = Banner(Tone(found[0].severity), line, finding_list.text_of(found), close)
    blocks = (banner, *since, *_replicas(found, known), *shared)
    return Section(finding_list.finding_anchor(listed.key), "", (*blocks, *_remarks(fleet, finding)), tuple(parts))


def missing_finding(choices: Choices) -> Paragraph:
    close = Piece("Close", link=Link(Kind.PAGE, pages.FINDINGS, choices=choices))
    text = (Piece("Finding not found.", Style.STRONG), Piece(" Fixed, or the configuration changed. "), close)
    return Paragraph(text, Tone.INFO)


def replica_text(replicas: Iterable[str], known: finding_list.FindingList, most: int) -> Text:
    """Return replicas by cohort, a line each: letter, number, the first `most` names, and a link to the rest.

    A cohort with one replica always has its name.
    """
    by_cohort = grouped(((known.letters.get(each, ""), known.pools.get(each, "")), each) for each in replicas)
    order = sorted(by_cohort, key=lambda key: (not key[0], len(key[0]), key))  # replicas without cohort are last
    lines: list[Text] = []
    left = most
    for letter, pool_name in order[:MOST_COHORTS]:
        own = in_natural_order(by_cohort[letter, pool_name], known.names)
        shown = own if len(own) == 1 else own[:left]
        left = max(left - len(shown), 0)
        names = join_texts([(replica(brief(known.names.get(each, each)), each),) for each in shown], last=", ")
        mark = cohort(letter, pool_name) if letter else Piece("not reported", Style.MUTED)
        number = (Piece(f" ×{len(own):,}"),) if len(own) > 1 or not shown else ()
        rest = _rest(letter, pool_name, len(own) - len(shown), is_first=not shown)
        lines.append((mark, *number, *((Piece(" "), *names) if names else ()), *rest))
    if beyond := sum(len(by_cohort[key]) for key in order[MOST_COHORTS:]):
        lines.append((Piece(f"and {count(beyond, 'replica')} in other cohorts", Style.MUTED),))
    return join_texts(lines, "\n", "\n")


def _rest(letter: str, pool_name: str, number: int, *, is_first: bool) -> Text:
    """Return a link to the replicas of a cohort that have no name in the line."""
    if not number or (is_first and not pool_name):
        return ()
    link = None
    if pool_name:  # a link to a cohort itself would be drawn as its letter
        where = page(pages.COMPARE, pool=pool_name, cohort=letter)
        link = where if letter else page(pages.REPLICAS, pool=pool_name)
    text = "show them" if is_first else f"and {number:,} more"
    return (Piece(" "), Piece(text, Style.PLAIN if link else Style.MUTED, link))


def _replicas(found: Sequence[Finding], known: finding_list.FindingList) -> tuple[Block, ...]:
    """Return the replicas of findings with their pools, by cohort where they are of one finding, and their names."""
    ids = list(dict.fromkeys(each for finding in found for each in finding.replicas))
    pools = shortlist_texts([(pool(each, brief(each)),) for each in pools_of(found)], MOST_POOLS)
    head = (Piece(count(len(ids), "replica"), Style.STRONG), *((Piece(" of "), *pools) if pools else ()))
    names = replica_text(ids, known, MOST_REPLICAS) if len(found) == 1 else ()
    whole = "\n".join(names_of(ids, known.names))
    copied = Entry(Tone.PLAIN, (), fold=f"Names of {count(len(ids), 'replica')} to copy", snippets=(whole,))
    return (
        Paragraph(head),
        *([Paragraph(names)] if names else []),
        *([Entries((copied,))] if len(ids) > 1 else []),
    )


def _group_table(group: Sequence[finding_list.ListedFinding], choices: Choices) -> Table:
    """Return findings of one rule and cause with their values, each with a link to it."""
    fields = (
        Field(
            "",
            "Where",
            lambda row: where_of(row.finding) or "fleet",
            link=lambda row: Link(Kind.FINDING, row.key, choices=choices),
        ),
        Field("", "Finding", lambda row: Cell(row.finding.sentence, pieces=row.finding.text)),
        Field("", "Replicas", value=lambda row: len(row.finding.replicas), is_number=True),
    )
    return to_table(group, fields, "same-cause", "Findings of the same rule and cause", most=MOST_TABLE_ROWS)


def _remarks(fleet: Fleet, finding: Finding) -> list[Paragraph]:
    paragraphs = []
    if (by := finding.suppression) is not None:
        word, file = ("Accepted", by.file) if by.file else ("Suppressed", fleet.policy.file)
        saved = f", saved by {by.author}" if by.author else ""
        text = f"{word} until {by.until} by {by.owner}: {by.reason} ({file}){saved}"
        paragraphs.append(Paragraph(plain(text), Tone.INFO))
    texts = remarks(finding, fleet.inspection)
    tones = [Tone.WARNING if finding.expired and not place else Tone.INFO for place in range(len(texts))]
    if finding.unknown:
        tones[-1] = Tone.UNKNOWN
    return [*paragraphs, *(Paragraph(plain(text), tone) for text, tone in zip(texts, tones, strict=True))]


def evidence_blocks(fleet: Fleet, known: finding_list.FindingList, finding: Finding) -> tuple[Block, ...]:
    """Return the values with their replicas; values that differ from a reference have the tone of the finding."""
    by_path = grouped((each.path, each) for each in finding.evidence)
    references = {each.path for each in finding.evidence if each.is_reference}
    compared = _compared(fleet, finding)
    rows = []
    for path, own in by_path.items():
        own.sort(key=lambda each: _order(each, known.names))
        for number, each in enumerate(own):
            setting = Cell("", hint=path) if number else Cell(path, link=_place(path, finding, compared[path]))
            is_odd = not each.is_reference and path in references and each.state not in STATE_WORDS
            tone = Tone(finding.severity) if is_odd else Tone.PLAIN
            rows.append((setting, Cell("", tone, pieces=_value(each)), Cell("", pieces=_source(each, known))))
    left = len(rows) - MOST_VALUES
    note = f"{left:,} more values: see Compare." if left > 0 else ""
    columns = (Column("Setting", is_code=True), Column("Value"), Column("Reported by"))
    capacity = any(path.startswith(COUNTED) for path in finding.paths)
    ranks: list[Text] = [
        (Piece("DP ranks and memory in Capacity", link=page(pages.CAPACITY, pool=each)),) for each in finding.pools[:1]
    ]
    links: list[Text] = [
        (Piece(f"{path} in {brief(each)}" if len(finding.pools) > 1 else path, link=Link(Kind.SETTING, path, each)),)
        for path in finding.paths
        for each in compared[path]
    ]
    compare = Paragraph((Piece("Open in Compare: ", Style.MUTED), *join_texts(links[:MOST_VALUES], " · ", " · ")))
    table = Table("evidence", "Evidence", columns, tuple(rows[:MOST_VALUES]), note)
    return (table, *([compare] if links else []), *(map(Paragraph, ranks) if capacity else []))


def _place(path: str, finding: Finding, compared: Sequence[str]) -> Link | None:
    """Return where a value is shown: in Compare, in the first pool that has it, or on the page of other values."""
    if compared:
        return Link(Kind.SETTING, path, compared[0])
    name = PAGES.get(path.partition(".")[0])
    return page(name, **({"pool": finding.pools[0]} if finding.pools else {})) if name else None


def _order(evidence: Evidence, names: Mapping[str, str]) -> tuple[object, ...]:
    """Return the key of sorting: the rarest value first, equally rare ones by their first replica, references last."""
    first = names_of(evidence.replicas, names)[:1]
    return (evidence.is_reference, len(evidence.replicas), list(map(natural, first)), evidence.value)


def _value(evidence: Evidence) -> Text:
    tag = (Piece(" "), Piece("reference", Style.TAG)) if evidence.is_reference else ()
    if evidence.state in STATE_WORDS:
        return (Piece(STATE_WORDS[evidence.state], Style.MUTED), *tag)
    text = middle_cut(one_line(whole_text(evidence.value, evidence.state)), LONGEST_VALUE)
    if evidence.path.startswith(COUNTED) and text.isdecimal():  # of a setting the number is as vLLM writes it
        text = size(int(text)) if evidence.path.endswith(BYTES) else f"{int(text):,}"
    unset = (Piece(" not set", Style.MUTED),) if evidence.state is State.NULL else ()
    return (Piece(text, Style.CODE), *unset, *tag)


def _source(evidence: Evidence, known: finding_list.FindingList) -> Text:
    holder = "the router (fleet.yaml)" if evidence.holder == ROUTER else brief(evidence.holder)
    comment = f"“{middle_cut(one_line(evidence.comment), LONGEST_VALUE)}”" if evidence.comment else ""
    most = MOST_OF_REFERENCE if evidence.is_reference else MOST_ODD
    lines = ((Piece(holder, Style.MUTED),) if holder else (), plain(comment) if comment else ())
    return join_texts([*filter(None, lines), *filter(None, [replica_text(evidence.replicas, known, most)])], "\n", "\n")


def _remedy(remedy: Remedy) -> tuple[Block, ...]:
    items = tuple(
        Entry(Tone.PLAIN, (Piece(SNIPPETS[each.kind], Style.MUTED),), snippets=(each.text,)) for each in remedy.snippets
    )
    either = [Paragraph(plain(finding_list.EITHER))] if finding_list.has_alternatives(remedy) else []
    return (Paragraph(with_code(remedy.sentence)), *either, *([Entries(items)] if items else []))


def _compared(fleet: Fleet, finding: Finding) -> dict[str, list[str]]:
    """Return by path of the finding those of its pools in which Compare has it."""
    pools = {each.name: each for each in fleet.pools}
    return {
        path: [
            name
            for name in finding.pools
            if name in pools and any(path in cohort.settings for cohort in pools[name].cohorts)
        ]
        for path in finding.paths
    }
