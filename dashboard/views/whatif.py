"""What would change if a pool converged, as parts of a report."""

from collections.abc import Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif import Group, Paste, RankForecast, WhatIf
from dashboard.analysis.whatif.text import (
    HOW_WORDS,
    LATER,
    NOTHING_APPLIED,
    after_text,
    before_text,
    cautions,
    change_text,
    group_text,
    later_notes,
    limits,
    paste_notes,
    pasted,
    summary,
    target_text,
    total_text,
    verdict_lists,
)
from dashboard.compare.baseline import value_text
from dashboard.fleet.formatting import count, first_of
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.report.findings.sentence_lines import with_values
from dashboard.rules.findings import Finding
from dashboard.views.blocks import Block, Cell, Column, Entries, Entry, Paragraph, Section, Table, Tone, number_cell
from dashboard.views.finding_data import findings_data
from dashboard.views.finding_entries import rule_words, side_of, who_lines
from dashboard.views.names import brief, names_of, replica_names
from dashboard.views.slugs import slug

MOST_NAMES = 12  # replicas of a group by name
MOST_RANKS = 200  # rows of the table of DP ranks: a report stays readable


def whatif_report(fleet: Fleet, what: WhatIf) -> tuple[Section, ...]:
    """Report what would change if a pool converged. `fleet` is the one that the what-if was made of."""
    names = replica_names(fleet)
    blocks: list[Block] = [Paragraph(text, Tone.WARNING) for text in cautions(what)]
    blocks += [Paragraph(summary(what), Tone.INFO), Paragraph(plain(NOTHING_APPLIED))]
    blocks += [Paragraph(plain(said), Tone.UNKNOWN) for said in limits(what, names)]
    parts = [
        *verdict_parts(what, names),
        *([_capacity(what, names)] if what.capacity.ranks else []),
        *(_group(group, number, names) for number, group in enumerate(what.groups, 1)),
    ]
    return (Section("what-if", f"What if all were like {target_text(what)}", tuple(blocks), tuple(parts)),)


def verdict_parts(what: WhatIf, names: Mapping[str, str]) -> tuple[Section, ...]:
    """List the findings that would go, come, reach other replicas, or are known only later."""
    return tuple(
        Section(f"what-if-{kind}", f"{title}: {count(len(found), 'finding')}", (_entries(found, names, kind, title),))
        for kind, title, found in verdict_lists(what.verdicts)
    )


def _entries(findings: Sequence[Finding], names: Mapping[str, str], kind: str, title: str) -> Entries:
    return Entries(
        tuple(
            Entry(
                Tone(each.severity),
                with_values(each.sentence, each.evidence),
                side_of([each], names),
                ((Piece(rule_words(each.rule), Style.MUTED),), *who_lines([each], names)),
            )
            for each in findings
        ),
        findings_data(findings, names, name=f"what-if-{kind}", caption=title),
    )


def _capacity(what: WhatIf, names: Mapping[str, str]) -> Section:
    ranks = what.capacity.ranks
    rows = tuple(
        (
            Cell(brief(names[rank.replica])),
            number_cell(str(rank.dp_rank), rank.dp_rank),
            number_cell(before_text(rank), rank.before),
            number_cell(after_text(rank), rank.after),
            number_cell(change_text(rank), _change(rank)),
            Cell(rank.reason),
        )
        for rank in ranks[:MOST_RANKS]
    )
    columns = (
        Column("Replica"),
        Column("DP rank", is_number=True),
        Column("Tokens now", is_number=True),
        Column("Tokens then", is_number=True),
        Column("Change", is_number=True),
        Column("Where that is from"),
    )
    more = len(ranks) - MOST_RANKS
    note = " ".join([total_text(what.capacity), *([f"{count(more, 'more DP rank')} not listed."] if more > 0 else [])])
    caption = "KV cache per DP rank, now and then"
    table = Table(f"what-if-{slug(what.pool)}-kv-cache", caption, columns, rows, note)
    return Section("what-if-kv-cache", "KV cache", (table,))


def _change(rank: RankForecast) -> int | None:
    return None if rank.after is None or rank.before is None else rank.after - rank.before


def _group(group: Group, number: int, names: Mapping[str, str]) -> Section:
    rows = tuple(
        (
            Cell(each.path),
            Cell(value_text(each.before)),
            Cell(value_text(each.after)),
            Cell(HOW_WORDS[each.how]),
        )
        for each in group.changes
    )
    columns = (
        Column("Setting", is_code=True),
        Column("Now", is_code=True),
        Column("Then", is_code=True),
        Column("How"),
    )
    table = Table(f"what-if-settings-{number}", "Settings that would change", columns, rows)
    who = first_of(_named(group.replicas, names), MOST_NAMES)
    blocks: list[Block] = [Paragraph(plain(f"{who}.")), table, *_typed(group.paste, paste_notes(group))]
    if group.later is not None:
        blocks += [Paragraph(plain(f"{LATER}:")), *_typed(group.later, later_notes(group))]
    return Section(f"what-if-group-{number}", group_text(group), tuple(blocks))


def _typed(paste: Paste, notes: Sequence[str]) -> list[Block]:
    items = tuple(Entry(Tone.PLAIN, plain(each.label), snippets=(each.text,)) for each in pasted(paste))
    return [*([Entries(items)] if items else []), *(Paragraph(plain(said)) for said in notes)]


def _named(replicas: Sequence[str], names: Mapping[str, str]) -> list[str]:
    return [brief(name) for name in names_of(replicas, names)]
