"""What would change if the replicas of a pool had the settings of one cohort or of a baseline."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

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
from dashboard.fleet.formatting import count
from dashboard.fleet.pieces import Kind, Piece, Style, Target, Text, cohort, plain
from dashboard.rules.findings import Finding
from dashboard.views.blocks import (
    Block,
    Cell,
    Column,
    Columns,
    Entries,
    Entry,
    Paragraph,
    Section,
    Table,
    Tone,
    number_cell,
)
from dashboard.views.finding_data import findings_data
from dashboard.views.finding_entries import replica_lines, side_of
from dashboard.views.finding_text import rule_title
from dashboard.views.names import brief, replica_names, replica_text
from dashboard.views.slugs import slug

MOST_NAMES = 12  # replicas of a group by name
MOST_RANKS = 200  # rows of the table of DP ranks
OPEN_GROUPS = 6  # groups that a page does not fold


def whatif_section(fleet: Fleet, what: WhatIf) -> Section:
    """Return what would change; `fleet` is the fleet that the what-if was made of."""
    names = replica_names(fleet)
    blocks = [Paragraph(text, Tone.WARNING) for text in cautions(what)]
    blocks.append(Paragraph(summary(what), Tone.INFO if what.groups else Tone.GOOD))
    blocks += [Paragraph(plain(text), Tone.UNKNOWN) for text in limits(what, names)]
    if what.verdicts.stay:
        blocks.append(Paragraph(plain(f"{count(what.verdicts.stay, 'finding')} of this pool unchanged.")))
    if what.groups:
        blocks.append(Paragraph(plain(NOTHING_APPLIED)))
    groups = [_group(each, number, what.pool, names) for number, each in enumerate(what.groups, 1)]
    parts = [*_findings(what, names), *_capacity(what, names), *groups[:OPEN_GROUPS]]
    if rest := groups[OPEN_GROUPS:]:
        parts.append(Section("what-if-more", count(len(rest), "more group"), (), tuple(rest), is_aside=True))
    return Section("what-if", f"What if all were like {target_text(what)}", tuple(blocks), tuple(parts))


def _findings(what: WhatIf, names: Mapping[str, str]) -> Iterator[Section]:
    """Yield the findings that would be new, fixed or on other replicas, or that only the restart decides."""
    for kind, title, found in verdict_lists(what.verdicts):
        items = tuple(
            Entry(
                Tone(each.severity),
                each.text,
                side_of([each], names),
                (_rule(each), *replica_lines([each], names)),
            )
            for each in found
        )
        data = findings_data(found, names, name=f"what-if-{kind}", caption=title)
        yield Section(f"what-if-{kind}", f"{title}: {count(len(found), 'finding')}", (Entries(items, data),))


def _rule(finding: Finding) -> Text:
    return (Piece(rule_title(finding.rule), Style.MUTED, Target(Kind.RULE, finding.rule)),)


def _capacity(what: WhatIf, names: Mapping[str, str]) -> Iterator[Section]:
    ranks = what.capacity.ranks
    if not ranks:
        return
    columns = (
        Column("Replica"),
        Column("DP rank", is_number=True),
        Column("Tokens now", is_number=True),
        Column("Tokens then", is_number=True),
        Column("Change", is_number=True),
        Column("Where that is from"),
    )
    rows = tuple(_rank(each, names) for each in ranks[:MOST_RANKS])
    more = len(ranks) - MOST_RANKS
    note = " ".join([total_text(what.capacity), *([f"{count(more, 'more DP rank')} not listed."] if more > 0 else [])])
    table = Table(f"what-if-{slug(what.pool)}-kv-cache", "KV cache per DP rank, now and then", columns, rows, note)
    yield Section("what-if-kv-cache", "KV cache", (table,))


def _rank(rank: RankForecast, names: Mapping[str, str]) -> tuple[Cell, ...]:
    change = None if rank.after is None or rank.before is None else rank.after - rank.before
    return (
        Cell(brief(names[rank.replica]), target=Target(Kind.REPLICA, rank.replica)),
        number_cell(str(rank.dp_rank), rank.dp_rank),
        number_cell(before_text(rank), rank.before),
        number_cell(after_text(rank), rank.after),
        number_cell(change_text(rank), change),
        Cell(rank.reason),
    )


def _group(group: Group, number: int, pool: str, names: Mapping[str, str]) -> Section:
    letters = [piece for letter in group.letters for piece in (cohort(letter, pool), Piece(" "))]
    blocks: list[Block] = [
        Paragraph((*letters, *replica_text(group.replicas, names, MOST_NAMES))),
        *_paste(group.paste, paste_notes(group)),
    ]
    anchor = f"what-if-group-{number}"
    parts = []
    if group.later is not None:
        parts.append(Section(f"{anchor}-later", LATER, (*_paste(group.later, later_notes(group)),), is_aside=True))
    columns = (
        Column("Setting", is_code=True),
        Column("Now", is_code=True),
        Column("Then", is_code=True),
        Column("ApplyMethod"),
    )
    rows = tuple(
        (
            Cell(each.path, target=Target(Kind.SETTING, each.path, pool)),
            Cell(value_text(each.before)),
            Cell(value_text(each.after)),
            Cell(HOW_WORDS[each.how]),
        )
        for each in group.changes
    )
    table = Table(f"what-if-settings-{number}", "Settings that would change", columns, rows)
    parts.append(Section(f"{anchor}-settings", f"Settings ({len(rows):,})", (table,), is_aside=True))
    return Section(anchor, group_text(group), tuple(blocks), tuple(parts))


def _paste(paste: Paste, notes: Iterable[str]) -> Sequence[Block]:
    """Return what to type with its notes, and beside it the same for a Helm chart."""
    offered = pasted(paste)
    typed = _snippets((each.label, each.text) for each in offered if each.text != paste.helm)
    chart = _snippets((each.label, each.text) for each in offered if each.text == paste.helm)
    left = (*typed, *(Paragraph(plain(each)) for each in notes))
    return [Columns((left, chart), (1, 1))] if left and chart else [*left, *chart]


def _snippets(texts: Iterable[tuple[str, str]]) -> tuple[Block, ...]:
    items = tuple(Entry(Tone.PLAIN, plain(label), snippets=(text,)) for label, text in texts)
    return (Entries(items),) if items else ()
