"""What a view does not evaluate or count, and why: unreadable replicas, skipped rules, suppressed findings."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dashboard.analysis.assembly import Fleet
from dashboard.fleet import Replica, ReplicaState, formatting
from dashboard.fleet.formatting import count, first_of, middle_cut, one_line
from dashboard.fleet.pieces import Kind, Piece, Style, Target, Text, page, plain, to_plain
from dashboard.report.findings.cohorts import are_few, named_cohorts
from dashboard.report.findings.words import remarks
from dashboard.report.replicas.standing import mark, reason
from dashboard.rules.findings import Finding, Outcome, OutcomeKind
from dashboard.views import pages
from dashboard.views.blocks import (
    Block,
    Cell,
    Column,
    Entries,
    Entry,
    Paragraph,
    Table,
    Tone,
    data_cell,
    data_table,
    list_cell,
)
from dashboard.views.finding_data import COLUMNS, finding_row, findings_data
from dashboard.views.finding_entries import rule_words, side_of, where_of
from dashboard.views.names import brief, replica_names, replica_text

MOST_GROUPS = 24  # of replicas that are unreadable for the same reason
MOST_NAMED = 12  # replicas or pools that one entry names
MOST_ROWS = 100  # of the table of suppressed findings
MOST_REASONS = 2  # of one rule, the most frequent first
LONGEST_REASON = 240  # characters
_SUPPRESSED = (Column("Finding"), Column("Where"), Column("Suppressed by"), Column("Until"), Column("Reason"))


def unread_entries(replicas: Iterable[Replica], most: int = MOST_GROUPS) -> tuple[Entries, ...]:
    """Return the replicas that are down or partial, grouped by reason, at most `most` groups; empty without any."""
    groups: dict[tuple[ReplicaState, str, str], list[Replica]] = defaultdict(list)
    for replica in replicas:
        kind = formatting.FAILURE_WORDS[replica.failure.kind] if replica.failure else ""
        groups[replica.state, kind, reason(replica)].append(replica)
    items = [_unread(*key, members) for key, members in list(groups.items())[:most]]
    if rest := sum(map(len, list(groups.values())[most:])):
        items.append(Entry(Tone.UNKNOWN, (Piece(count(rest, "more replica"), target=page(pages.REPLICAS)),)))
    data = _unread_data(each for members in groups.values() for each in members)
    return (Entries(tuple(items), data),) if items else ()


def suppressed_blocks(fleet: Fleet) -> tuple[Block, ...]:
    """Return the suppressed findings, the first to expire first, expired suppressions, and entries without effect."""
    found = sorted(fleet.inspection.suppressed, key=_end)
    names = replica_names(fleet)
    expired = _expired(fleet.inspection.findings, names)
    notes: tuple[Block, ...] = (*expired, *(Paragraph(plain(note), Tone.WARNING) for note in fleet.inspection.notes))
    if not found:
        return (Paragraph(plain("No suppressed findings.")), *notes)
    left = len(found) - MOST_ROWS
    rows = tuple(_suppressed(each, names) for each in found[:MOST_ROWS])
    note = f"{left:,} more not listed." if left > 0 else ""
    data = _suppressed_data(found, names)
    return (Table("suppressed", "Suppressed findings", _SUPPRESSED, rows, note, data), *notes)


def ignored_blocks(fleet: Fleet) -> tuple[Paragraph, ...]:
    """Return which settings fleet.yaml ignores, and in how many pools they differ."""
    if not fleet.ignored:
        return ()
    pools = sum(bool(pool.ignored) for pool in fleet.pools)
    globs = tuple(piece for glob in fleet.ignored for piece in (Piece(glob, Style.CODE), Piece(", ")))[:-1]
    differ = f"these differ in {count(pools, 'pool')}" if pools else "these differ in no pool"
    return (Paragraph((Piece("Ignored by fleet.yaml: "), *globs, Piece(f" ({differ})."))),)


def raised_blocks(fleet: Fleet) -> tuple[Paragraph, ...]:
    """Return which rules raised an error, which is a bug of this program; empty where none did."""
    raised = _by_rule(fleet.inspection.outcomes, OutcomeKind.ERROR)
    if not raised:
        return ()
    title = f"Rule errors, {count(len(raised), 'rule')} not evaluated: "
    rules = first_of([f"{rule_words(rule)} on {_places(own)}" for rule, own in raised.items()], MOST_NAMED)
    text = f"{rules}. This is a bug in the dashboard, not in the fleet: please report it."
    return (Paragraph((Piece(title, Style.STRONG), Piece(text)), Tone.CRITICAL),)


def skipped_table(outcomes: Sequence[Outcome]) -> Table | None:
    """Return the rules that were skipped somewhere, with the reasons; None where there is none."""
    rows = [
        (
            Cell(rule_words(rule), target=Target(Kind.RULE, rule)),
            list_cell(_places(own), (each.subject for each in own)),
            list_cell(_reasons(own), dict.fromkeys(each.reason for each in own)),
        )
        for rule, own in sorted(_by_rule(outcomes, OutcomeKind.SKIPPED).items())
    ]
    columns = (Column("Rule"), Column("Where"), Column("Why not"))
    return Table("rules-not-judged", "Skipped rules", columns, tuple(rows)) if rows else None


def _unread_data(replicas: Iterable[Replica]) -> Table:
    columns = tuple(map(Column, ("replica", "address", "pool", "state", "failure", "reason", "observed_at")))
    rows = (
        (
            each.name,
            each.id,
            each.pool,
            each.state.value,
            each.failure.kind.value if each.failure else "",
            reason(each),
            formatting.iso(each.observed_at) if each.observed_at else "",
        )
        for each in replicas
    )
    return data_table("not-read", "Unreachable or partial", columns, rows)


def _unread(state: ReplicaState, kind: str, why: str, members: Sequence[Replica]) -> Entry:
    names = replica_text([each.id for each in members], {each.id: each.name for each in members}, MOST_NAMED)
    strong = (piece._replace(style=Style.STRONG) for piece in names)
    head = (*strong, Piece(f" {state}{f' · {kind}' if kind else ''}", Style.MUTED))
    side = count(len(members), "replica") if len(members) > 1 else ""
    lines: list[Text] = [plain(one_line(why))]
    if state is ReplicaState.DOWN and len(members) == 1 and members[0].observed_at is not None:
        lines.append(plain(f"Last read {formatting.iso(members[0].observed_at)} (values kept, marked stale)."))
    return Entry(mark(state), head, side, tuple(lines))


def _suppressed(finding: Finding, names: Mapping[str, str]) -> tuple[Cell, ...]:
    by = finding.suppression
    texts = (brief(by.owner), f"{by.until}", one_line(by.reason)) if by else ("", "", "")
    in_order = [brief(name) for each in named_cohorts(finding, names) for name in each.names]
    many = "" if are_few(finding) else first_of(in_order, MOST_NAMED)
    where = " · ".join(filter(None, (where_of(finding), to_plain(side_of([finding], names)), many)))
    what = f"{finding.severity}: {finding.rule} {finding.sentence}"
    return (Cell(what, Tone(finding.severity), target=Target(Kind.FINDING, finding.id)), Cell(where), *map(Cell, texts))


def _end(finding: Finding) -> str:
    return f"{finding.suppression.until}" if finding.suppression else ""


def _suppressed_data(found: Iterable[Finding], names: Mapping[str, str]) -> Table:
    columns = (*COLUMNS, Column("owner"), Column("until"), Column("reason"))
    rows = [
        (*finding_row(each, names), *map(data_cell, (by.owner, f"{by.until}", by.reason)))
        for each in found
        if (by := each.suppression)
    ]
    return Table("suppressed", "Suppressed findings", columns, tuple(rows))


def _expired(findings: Iterable[Finding], names: Mapping[str, str]) -> Iterator[Entries]:
    """Yield the findings whose suppression expired, in one list."""
    found = [each for each in findings if each.expired]
    items = tuple(
        Entry(
            Tone(each.severity),
            (Piece(where_of(each), Style.STRONG), Piece(f" {each.rule} {each.sentence}")),
            lines=(plain(one_line(remarks(each)[0])),),
        )
        for each in found
    )
    if items:
        yield Entries(items, findings_data(found, names))


def _by_rule(outcomes: Iterable[Outcome], kind: OutcomeKind) -> dict[str, list[Outcome]]:
    by_rule: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.kind is kind:
            by_rule[outcome.rule].append(outcome)
    return by_rule


def _places(outcomes: Sequence[Outcome]) -> str:
    named = [brief(each.subject) if each.pools else "the whole fleet" for each in outcomes]
    noun = "pair" if all(len(each.pools) > 1 for each in outcomes) else "pool"
    return ", ".join(named) if len(named) <= MOST_REASONS + 1 else count(len(named), noun)


def _reasons(outcomes: Sequence[Outcome]) -> str:
    """Return the reasons, the most frequent first, without the part after a colon, which is about one replica."""
    found = Counter(one_line(each.reason).rpartition(": ")[0] or one_line(each.reason) for each in outcomes)
    texts = [middle_cut(text.rstrip("."), LONGEST_REASON) for text, _ in found.most_common(MOST_REASONS)]
    more = [f"{len(found) - MOST_REASONS:,} more reasons"] if len(found) > MOST_REASONS else []
    return "; ".join([*texts, *more]) + "."
