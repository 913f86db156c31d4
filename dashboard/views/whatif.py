"""What would change if the replicas of a pool had the settings of one cohort or of a baseline."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.whatif.models import ChangeGroup, Paste, RankForecast, WhatIf
from dashboard.compare.baseline import value_text
from dashboard.fleet.formatting import count, exact
from dashboard.fleet.pieces import Kind, Link, Piece, Style, cohort, plain
from dashboard.views import whatif_text as text
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
from dashboard.views.finding_list import replica_lines, side_of
from dashboard.views.finding_text import findings_data, rule_title
from dashboard.views.names import brief, replica_names, replica_text
from dashboard.views.slugs import slug

MOST_NAMES = 12  # replicas of a group by name
MOST_RANKS = 200  # rows of the table of DP ranks
OPEN_GROUPS = 6  # groups that a page does not fold


def whatif_section(fleet: Fleet, what: WhatIf) -> Section:
    """Return what would change; `fleet` is the fleet that the what-if was made of."""
    names = replica_names(fleet)
    blocks = [Paragraph(each, Tone.WARNING) for each in text.cautions(what)]
    blocks.append(Paragraph(text.summary(what), Tone.INFO if what.groups else Tone.GOOD))
    blocks += [Paragraph(plain(each), Tone.UNKNOWN) for each in text.limits(what, names)]
    if what.findings.unchanged:
        blocks.append(Paragraph(plain(f"{count(what.findings.unchanged, 'finding')} of this pool unchanged.")))
    if what.groups:
        blocks.append(Paragraph(plain("Read-only: paste the changes and restart the replicas yourself.")))
    groups = [_group(each, number, what.pool, names) for number, each in enumerate(what.groups, 1)]
    parts = [*_findings(what, names), *_capacity(what, names), *groups[:OPEN_GROUPS]]
    if rest := groups[OPEN_GROUPS:]:
        parts.append(Section("what-if-more", count(len(rest), "more group"), (), tuple(rest), is_aside=True))
    return Section("what-if", f"What if all were like {text.target_text(what)}", tuple(blocks), tuple(parts))


def _findings(what: WhatIf, names: Mapping[str, str]) -> Iterator[Section]:
    """Yield the findings that would be new, fixed or on other replicas, or that only the restart decides."""
    for kind, title, found in (
        ("new", "New", what.findings.new),
        ("spread", "On more replicas", what.findings.spread),
        ("fixed", "Fixed", what.findings.fixed),
        ("eased", "On fewer replicas", what.findings.reduced),
        ("open", "Known only after the restart", what.findings.unknown),
    ):
        if not found:
            continue
        items = []
        for each in found:
            rule = Piece(rule_title(each.rule), Style.MUTED, Link(Kind.RULE, each.rule))
            side, lines = side_of([each], names), ((rule,), *replica_lines([each], names))
            items.append(Entry(Tone(each.severity), each.text, side, lines))
        data = findings_data(found, names, name=f"what-if-{kind}", caption=title)
        yield Section(f"what-if-{kind}", f"{title}: {count(len(found), 'finding')}", (Entries(tuple(items), data),))


def _capacity(what: WhatIf, names: Mapping[str, str]) -> Iterator[Section]:
    ranks = what.capacity.ranks
    if not ranks:
        return
    columns = (
        Column("Replica"),
        Column("DP rank", is_number=True),
        Column("Tokens now", is_number=True),
        Column("Tokens after", is_number=True, key="Tokens then"),
        Column("Change", is_number=True),
        Column("Basis", key="Where that is from"),
    )
    rows = tuple(_rank(each, names) for each in ranks[:MOST_RANKS])
    more = len(ranks) - MOST_RANKS
    rest = f" {count(more, 'more DP rank')} not listed." if more > 0 else ""
    name, note = f"what-if-{slug(what.pool)}-kv-cache", f"{text.total_text(what.capacity)}{rest}"
    table = Table(name, "KV cache per DP rank before and after", columns, rows, note)
    yield Section("what-if-kv-cache", "KV cache", (table,))


def _rank(rank: RankForecast, names: Mapping[str, str]) -> tuple[Cell, ...]:
    change = None if rank.after is None or rank.before is None else rank.after - rank.before
    return (
        Cell(brief(names[rank.replica]), link=Link(Kind.REPLICA, rank.replica)),
        number_cell(str(rank.dp_rank), rank.dp_rank),
        number_cell(exact(rank.before, rank.before_basis), rank.before),
        number_cell(text.after_text(rank), rank.after),
        number_cell(text.change_text(rank), change),
        Cell(rank.reason),
    )


def _group(group: ChangeGroup, number: int, pool: str, names: Mapping[str, str]) -> Section:
    letters = [piece for letter in group.letters for piece in (cohort(letter, pool), Piece(" "))]
    blocks: list[Block] = [
        Paragraph((*letters, *replica_text(group.replicas, names, MOST_NAMES))),
        *_paste(group.paste, text.paste_notes(group)),
    ]
    anchor = f"what-if-group-{number}"
    parts = []
    if group.later is not None:
        later = tuple(_paste(group.later, text.later_notes(group)))
        parts.append(Section(f"{anchor}-later", "After the restart, look again", later, is_aside=True))
    columns = (
        Column("Setting", is_code=True),
        Column("Now", is_code=True),
        Column("After", is_code=True, key="Then"),
        Column("How"),
    )
    rows = tuple(
        (
            Cell(each.path, link=Link(Kind.SETTING, each.path, pool)),
            Cell(value_text(each.before)),
            Cell(value_text(each.after)),
            Cell(text.METHOD_WORDS[each.how]),
        )
        for each in group.changes
    )
    table = Table(f"what-if-settings-{number}", "Settings that would change", columns, rows)
    parts.append(Section(f"{anchor}-settings", f"Settings ({len(rows):,})", (table,), is_aside=True))
    return Section(anchor, text.group_text(group), tuple(blocks), tuple(parts))


def _paste(paste: Paste, notes: Iterable[str]) -> Sequence[Block]:
    """Return what to type with its notes, and next to it the same for a Helm chart."""
    left = (*_snippets(text.pasted(paste)), *(Paragraph(plain(each)) for each in notes))
    chart = _snippets([("Helm values (vLLM production-stack chart)", paste.helm)] if paste.helm else [])
    return [Columns((left, chart), (1, 1))] if left and chart else [*left, *chart]


def _snippets(snippets: Sequence[tuple[str, str]]) -> tuple[Block, ...]:
    items = tuple(Entry(Tone.PLAIN, plain(label), snippets=(snippet,)) for label, snippet in snippets)
    return (Entries(items),) if items else ()
